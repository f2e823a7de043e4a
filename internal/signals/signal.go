// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// ExposedSecrets is the provider whose entries tell where secrets are. The places are shown to who may read the Finding, and
// told to no model.
const ExposedSecrets = "trivy/secrets"

// Signal is what every provider translates its reports into; nothing behind it knows a provider.
type Signal struct {
	// Provider is the name by which a SignalPolicy asks for the source.
	Provider string
	// Severity is the worst severity among the entries that were asked for.
	Severity candorv1alpha1.Severity
	// Namespace, Kind and Name say which workload it is about.
	Namespace, Kind, Name string
	// Summary is computed from the signal's own data, never by a model.
	Summary string
	// RefKind and RefName say which object told us.
	RefKind, RefName string
}

// Fingerprint returns the lower-case hexadecimal SHA-256 of what the signal says. Two signals that a person would
// read as the same have the same fingerprint, whichever report told us.
func Fingerprint(sig Signal) string {
	return digest(sig.Provider, sig.Namespace, sig.Kind, sig.Name, string(sig.Severity), sig.Summary)
}

// NeedsEnrichment reports whether the content differs from what a model last looked at. Whether anyone may pay for
// another look is not its business.
func NeedsEnrichment(f *candorv1alpha1.Finding) bool {
	return f.Status.Fingerprint != f.Status.EnrichedFingerprint
}

// Of returns the signal that a Finding holds.
func Of(f *candorv1alpha1.Finding) Signal {
	return Signal{
		Provider:  f.Spec.Source.Provider,
		Severity:  f.Spec.Severity,
		Namespace: f.Namespace,
		Kind:      f.Spec.Source.Kind,
		Name:      f.Spec.Source.Name,
		Summary:   f.Spec.Summary,
		RefKind:   f.Spec.Source.RefKind,
		RefName:   f.Spec.Source.RefName,
	}
}

// digest hashes fields so that no two different lists of them hash alike: each is followed by one NUL byte.
func digest(fields ...string) string {
	h := sha256.New()
	writeFields(h, fields...)
	return hex.EncodeToString(h.Sum(nil))
}

func writeFields(h hash.Hash, fields ...string) {
	for _, field := range fields {
		h.Write([]byte(field))
		h.Write([]byte{0})
	}
}
