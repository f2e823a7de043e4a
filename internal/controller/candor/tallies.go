// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"sync"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/suppression"
)

// tallies remembers how many entries of a Finding each Suppression mutes, where several do. What happens to one of these Findings
// concerns all Suppressions of its namespace, and each of them concerns all of these Findings: reports are read once for them all.
// The zero value has counted nothing.
type tallies struct {
	mu sync.Mutex
	of map[string]tally
}

// tally is what was counted in a namespace while its Suppressions were these, by the name of the Finding.
type tally struct {
	scopes *suppression.Scopes
	counts map[string]tallied
}

// tallied is what was counted in a Finding of this content.
type tallied struct {
	digest string
	facts  suppression.Facts
	by     map[string]int
}

// count returns how many entries of the Finding the Suppression mutes; false when they have not been counted.
func (t *tallies) count(scopes *suppression.Scopes, sup *candorv1alpha1.Suppression, f *candorv1alpha1.Finding) (int, bool) {
	if !scopes.Hold(sup) {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of[f.Namespace]
	counted, found := known.counts[f.Name]
	if known.scopes != scopes || !found || counted.digest != f.Spec.Evidence.Digest || counted.facts != suppression.FactsOf(f) {
		return 0, false
	}
	return counted.by[sup.Name], true
}

// remember counts the entries of the Finding, unless it says something else than they do: it is behind its reports then.
func (t *tallies) remember(scopes *suppression.Scopes, f *candorv1alpha1.Finding, entries []signals.Entry) {
	digest, facts := f.Spec.Evidence.Digest, suppression.FactsOf(f)
	if (signals.Evidence{Entries: entries}).Digest() != digest {
		return
	}
	counted := tallied{digest: digest, facts: facts, by: scopes.Counts(facts, entries)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]tally{}
	}
	if t.of[f.Namespace].scopes != scopes {
		t.of[f.Namespace] = tally{scopes: scopes, counts: map[string]tallied{}}
	}
	t.of[f.Namespace].counts[f.Name] = counted
}
