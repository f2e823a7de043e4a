// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Artifact is the image that was scanned.
type Artifact struct {
	// registry is the server that holds the image.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Registry string `json:"registry,omitempty"`

	// repository is the name of the image without its server.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Repository string `json:"repository,omitempty"`

	// tag is the tag of the image; an image pinned by digest has none.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Tag string `json:"tag,omitempty"`

	// digest is the digest of the image, where the scanner knew it.
	// +optional
	// +kubebuilder:validation:MaxLength=160
	Digest string `json:"digest,omitempty"`
}

// SeverityCounts counts entries by the severity that the scanner gave them.
type SeverityCounts struct {
	// critical counts CRITICAL entries.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Critical int32 `json:"critical,omitempty"`

	// high counts HIGH entries.
	// +optional
	// +kubebuilder:validation:Minimum=0
	High int32 `json:"high,omitempty"`

	// medium counts MEDIUM entries.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Medium int32 `json:"medium,omitempty"`

	// low counts LOW entries.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Low int32 `json:"low,omitempty"`

	// unknown counts entries without a rating.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unknown int32 `json:"unknown,omitempty"`
}

// Entry is one vulnerability of one package, or one failed check.
type Entry struct {
	// id is the identifier of the vulnerability or of the check.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// severity is what the scanner said: LOW, MEDIUM, HIGH, CRITICAL or UNKNOWN.
	// +required
	// +kubebuilder:validation:Enum=UNKNOWN;LOW;MEDIUM;HIGH;CRITICAL
	Severity string `json:"severity"`

	// package is the package that has the vulnerability.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Package string `json:"package,omitempty"`

	// installed is the version that is there.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Installed string `json:"installed,omitempty"`

	// fixed is the version that repairs it; empty when there is none yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Fixed string `json:"fixed,omitempty"`

	// message says what a failed check found.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// Evidence is the set of entries that the policies ask for.
type Evidence struct {
	// digest is the SHA-256, in hexadecimal, of the whole sorted set. It changes exactly when the set does.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`

	// total is the number of entries in the set.
	// +required
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`

	// fixable is the number of entries that a released version fixes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Fixable int32 `json:"fixable,omitempty"`

	// bySeverity counts the entries by severity.
	// +optional
	BySeverity SeverityCounts `json:"bySeverity,omitzero"`

	// muted is the number of entries that Suppressions mute. They stay in the set, and in its digest.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Muted int32 `json:"muted,omitempty"`

	// worstUnmuted is the worst severity of the entries that are not muted; absent while none is muted, and when all are.
	// +optional
	WorstUnmuted Severity `json:"worstUnmuted,omitempty"`

	// mutedBy are the names of Suppressions that mute entries, in order; at most 5.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=253
	MutedBy []string `json:"mutedBy,omitempty"`

	// top holds the worst entries, worst first: 25 at most, and fewer when they are large.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=25
	Top []Entry `json:"top,omitzero"`

	// artifact is the image that was scanned.
	// +optional
	Artifact Artifact `json:"artifact,omitzero"`
}
