// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suppression

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// Facts are what a Suppression can know of a Finding as a whole.
type Facts struct {
	// Kind and Name are those of the workload.
	Kind, Name string
	// Fingerprint is that of the present content.
	Fingerprint string
	// Artifact is the image; empty where the source speaks of none.
	Artifact candorv1alpha1.Artifact
}

// FactsOf returns what the spec of a Finding says of it.
func FactsOf(f *candorv1alpha1.Finding) Facts {
	facts := Facts{Kind: f.Spec.Source.Kind, Name: f.Spec.Source.Name, Fingerprint: signals.Fingerprint(signals.Of(f))}
	if f.Spec.Evidence != nil {
		facts.Artifact = f.Spec.Evidence.Artifact
	}
	return facts
}

// Scope is one Suppression, read once. What it does not name is no condition.
type Scope struct {
	// Name and Reason are those of the Suppression.
	Name, Reason string
	// End is when it ends by itself; zero when it never does.
	End time.Time

	uid           types.UID
	generation    int64
	fingerprint   string
	workload      *candorv1alpha1.WorkloadScope
	images        *images
	ids, packages sets.Set[string]
}

// ScopeOf reads a Suppression, which mutes for longest at most; zero sets no bound.
func ScopeOf(s *candorv1alpha1.Suppression, longest time.Duration) *Scope {
	scope := &Scope{
		Name: s.Name, Reason: s.Spec.Reason, End: End(s, longest), uid: s.UID, generation: s.Generation,
		fingerprint: s.Spec.Fingerprint, workload: s.Spec.Workload, images: imagesOf(s.Spec.ImageRepositories),
	}
	if len(s.Spec.VulnerabilityIDs) > 0 {
		scope.ids = sets.New(s.Spec.VulnerabilityIDs...)
	}
	if len(s.Spec.Packages) > 0 {
		scope.packages = sets.New(s.Spec.Packages...)
	}
	return scope
}

// Concerns reports whether a Finding may hold something that the scope mutes.
func (s *Scope) Concerns(f Facts) bool {
	return (s.fingerprint == "" || s.fingerprint == f.Fingerprint) &&
		(s.workload == nil || (s.workload.Kind == f.Kind && s.workload.Name == f.Name)) &&
		(s.images == nil || s.images.hold(f.Artifact))
}

// Count returns how many entries of a Finding the scope mutes.
func (s *Scope) Count(f Facts, entries []signals.Entry) int {
	n := 0
	if !s.Concerns(f) {
		return n
	}
	for _, entry := range entries {
		if s.covers(namesIn(entry)) {
			n++
		}
	}
	return n
}

// all reports whether the scope mutes every entry of the Findings that it concerns.
func (s *Scope) all() bool { return s.ids == nil && s.packages == nil }

// covers reports whether the scope mutes an entry of a Finding that it concerns.
func (s *Scope) covers(entry named) bool {
	return (s.ids == nil || s.ids.HasAny(entry.ids...)) && (s.packages == nil || s.packages.HasAny(entry.packages...))
}

// named is an entry by its names. An identifier, a package and a version may be written as the report has them, or as the Finding
// shows them, which shortens long ones.
type named struct{ ids, packages []string }

func namesIn(entry signals.Entry) named {
	n, shown := named{ids: []string{entry.ID}}, signals.Show(entry)
	if shown.ID != entry.ID {
		n.ids = append(n.ids, shown.ID)
	}
	if entry.Package == "" {
		return n
	}
	n.packages = []string{entry.Package, entry.Package + "@" + entry.Installed}
	if shown.Package != entry.Package || shown.Installed != entry.Installed {
		n.packages = append(n.packages, shown.Package, shown.Package+"@"+shown.Installed)
	}
	return n
}

func (s *Scope) outlasts(other *Scope) bool {
	switch {
	case s.End.IsZero() != other.End.IsZero():
		return s.End.IsZero()
	case !s.End.Equal(other.End):
		return s.End.After(other.End)
	default:
		return s.Name < other.Name
	}
}
