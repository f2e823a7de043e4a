// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy answers which entries of a report the policies of a namespace ask for.
package policy

import (
	"slices"
	"strings"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// Ask is what all policies of a namespace together ask of one provider.
type Ask struct {
	// MinRank is the mildest rank that counts.
	MinRank signals.Rank
	// OnlyFixable leaves out vulnerabilities without a fixed version.
	OnlyFixable bool
	// Unknown is the rank that unrated entries count as; Unknown leaves them out.
	Unknown signals.Rank
	// NoTrivy leaves out what other tools pass on of Trivy's findings, since the namespace asks for Trivy's own reports too.
	NoTrivy bool
}

// trivy starts the names of the providers that read Trivy's own reports, and those of the sources that pass them on.
const trivy = "trivy"

var unknownRanks = map[candorv1alpha1.UnknownSeverity]signals.Rank{
	candorv1alpha1.UnknownLow:  signals.Low,
	candorv1alpha1.UnknownHigh: signals.High,
}

// For adds up the policies that name the provider: the lowest threshold and the most inclusive filters count. It returns
// false when none does. A policy that is being deleted asks for nothing.
func For(policies []candorv1alpha1.SignalPolicy, provider string) (Ask, bool) {
	ask, asked := Ask{MinRank: signals.Critical, OnlyFixable: true}, false
	for i := range policies {
		p := &policies[i]
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		ask.NoTrivy = ask.NoTrivy || !ofTrivy(provider) && slices.ContainsFunc(p.Spec.Providers, ofTrivy)
		if !slices.Contains(p.Spec.Providers, provider) {
			continue
		}
		asked = true
		ask.MinRank = min(ask.MinRank, Threshold(p))
		ask.OnlyFixable = ask.OnlyFixable && p.Spec.OnlyFixable
		ask.Unknown = max(ask.Unknown, unknownRanks[p.Spec.UnknownSeverity])
	}
	return ask, asked
}

// ofTrivy tells the providers that read Trivy's own reports.
func ofTrivy(provider string) bool {
	return provider == trivy || strings.HasPrefix(provider, trivy+"/")
}

// Payer returns the policy whose budget pays for the Findings of a provider, and which says whether and how they are
// explained: the oldest that names it, of equally old ones the first by name. It is nil when none does; a policy that is being
// deleted pays for nothing.
func Payer(policies []candorv1alpha1.SignalPolicy, provider string) *candorv1alpha1.SignalPolicy {
	var payer *candorv1alpha1.SignalPolicy
	for i := range policies {
		p := &policies[i]
		if !p.DeletionTimestamp.IsZero() || !slices.Contains(p.Spec.Providers, provider) {
			continue
		}
		if payer == nil || older(p, payer) {
			payer = p
		}
	}
	return payer
}

func older(a, b *candorv1alpha1.SignalPolicy) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// Explains reports whether a policy lets a model be asked, and how far answers are shared. It does, in the whole cluster,
// where it does not say.
func Explains(p *candorv1alpha1.SignalPolicy) (enabled bool, sharing candorv1alpha1.Sharing) {
	e := p.Spec.Enrichment
	if e == nil {
		return true, candorv1alpha1.SharingCluster
	}
	sharing = e.Sharing
	if sharing == "" {
		sharing = candorv1alpha1.SharingCluster
	}
	return e.Enabled == nil || *e.Enabled, sharing
}

// Threshold returns the mildest rank that a policy asks for; HIGH when it does not say.
func Threshold(p *candorv1alpha1.SignalPolicy) signals.Rank {
	if rank := signals.RankOf(string(p.Spec.MinSeverity)); rank != signals.Unknown {
		return rank
	}
	return signals.High
}

// Select returns the entries that are asked for.
func (a Ask) Select(entries []signals.Entry) signals.Evidence {
	var evidence signals.Evidence
	for _, entry := range entries {
		if a.Wants(entry) {
			evidence.Entries = append(evidence.Entries, entry)
			evidence.Worst = max(evidence.Worst, a.rank(entry))
		}
	}
	return evidence
}

// Wants reports whether an entry is asked for.
func (a Ask) Wants(entry signals.Entry) bool {
	return a.rank(entry) >= a.MinRank && !a.unfixable(entry) && !a.told(entry)
}

// rank is what an entry counts as.
func (a Ask) rank(entry signals.Entry) signals.Rank {
	if entry.Rank == signals.Unknown {
		return a.Unknown
	}
	return entry.Rank
}

// unfixable speaks of vulnerabilities only: an entry without a package is a check.
func (a Ask) unfixable(entry signals.Entry) bool {
	return a.OnlyFixable && entry.Package != "" && entry.Fixed == ""
}

// told reports whether the namespace hears of an entry from Trivy's own reports.
func (a Ask) told(entry signals.Entry) bool {
	return a.NoTrivy && strings.HasPrefix(strings.ToLower(entry.Source), trivy)
}

// ProvesNothing reports whether entries hold nothing but unrated ones that are left out: such a report is no proof that
// the workload is clean.
func (a Ask) ProvesNothing(entries []signals.Entry) bool {
	return a.Unknown == signals.Unknown && len(entries) > 0 &&
		!slices.ContainsFunc(entries, func(e signals.Entry) bool { return e.Rank != signals.Unknown })
}
