// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"strings"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Identity is what stays the same while a workload is rescanned and rolled out. Kind and Name are those of its top owner.
type Identity struct {
	Provider, Namespace, Kind, Name, Container string
	// Ref tells apart the signals that are posted about one object: the policy, a slash and the id. It is empty for what reports
	// say.
	Ref string
}

// IdentityOf returns the identity of a Finding.
func IdentityOf(f *candorv1alpha1.Finding) Identity {
	s := f.Spec.Source
	return Identity{Provider: s.Provider, Namespace: f.Namespace, Kind: s.Kind, Name: s.Name, Container: s.Container, Ref: refOf(s)}
}

// FindingName returns the name of the one Finding that this identity has: the provider and 80 bits of a hash.
func (i Identity) FindingName() string {
	fields := []string{i.Provider, i.Namespace, i.Kind, i.Name, i.Container}
	if i.Ref != "" {
		fields = append(fields, i.Ref)
	}
	hash := digest(fields...)
	return strings.ReplaceAll(i.Provider, "/", "-") + "-" + hash[:20]
}

// String names the identity in logs.
func (i Identity) String() string {
	s := i.Provider + " " + i.Namespace + "/" + i.Kind + "/" + i.Name
	if i.Container != "" {
		s += "[" + i.Container + "]"
	}
	if i.Ref != "" {
		s += " of " + i.Ref
	}
	return s
}
