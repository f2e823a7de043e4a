// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"

// Rank orders severities. The zero value is that of an entry which the scanner could not rate.
type Rank int

// The ranks, mildest first.
const (
	Unknown Rank = iota
	Low
	Medium
	High
	Critical
)

var rankNames = [...]string{"UNKNOWN", "LOW", "MEDIUM", "HIGH", "CRITICAL"}

// RankOf reads a severity; a word that is none of the four is Unknown.
func RankOf(severity string) Rank {
	for rank, name := range rankNames {
		if severity == name {
			return Rank(rank)
		}
	}
	return Unknown
}

// String returns the severity as scanners write it.
func (r Rank) String() string { return rankNames[r] }

// Severity returns the rank as a Finding holds it. A Finding has no unrated severity: whoever asked for unrated entries
// said how to treat them.
func (r Rank) Severity() candorv1alpha1.Severity { return candorv1alpha1.Severity(r.String()) }
