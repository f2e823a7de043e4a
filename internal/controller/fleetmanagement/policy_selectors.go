// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/matcher"
)

// Selectors compiles the selector of each RemoteAttributePolicy and of each ExternalAttributeSync once a generation. The zero value is ready; it is safe for concurrent use.
type Selectors struct {
	mu       sync.Mutex
	compiled map[types.UID]compiledSelector
}

type compiledSelector struct {
	generation int64
	selector   selector
	err        error
}

// selector is the compiled selector of an object.
type selector struct {
	matcher.Selector
	includeRemote bool
}

// of returns the selector of an object; the error names each matcher that is none.
func (s *Selectors) of(o client.Object) (selector, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, is := s.compiled[o.GetUID()]; is && known.generation == o.GetGeneration() {
		return known.selector, known.err
	}
	compiled, err := compile(o)
	entry := compiledSelector{generation: o.GetGeneration(), selector: compiled, err: err}
	if s.compiled == nil {
		s.compiled = map[types.UID]compiledSelector{}
	}
	s.compiled[o.GetUID()] = entry
	return entry.selector, entry.err
}

func compile(o client.Object) (selector, error) {
	var written fleetmanagementv1alpha1.PolicySelector // means nobody
	switch o := o.(type) {
	case *fleetmanagementv1alpha1.RemoteAttributePolicy:
		written = o.Spec.Selector
	case *fleetmanagementv1alpha1.ExternalAttributeSync:
		written = o.Spec.Selector
	}
	compiled, err := matcher.Compile(written.Matchers, written.CollectorIDs)
	return selector{compiled, written.IncludeRemote}, err
}

// forget drops the selector of an object that is gone.
func (s *Selectors) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.compiled, uid)
}

// meets reports whether the selector means the collector of which the facts are.
func (s selector) meets(f facts) bool {
	return f.registered && s.Matches(f.id, func(key string) string {
		if s.includeRemote {
			return f.attribute(key)
		}
		return f.local[key]
	})
}

// reservedPrefix starts the keys of attributes that Fleet Management itself sets.
const reservedPrefix = "collector."

// facts are what selectors may go by.
type facts struct {
	id         string
	registered bool
	// local is what the collector tells of itself, and others are the remote attributes as they would stand without us: what we
	// give must not decide whether we give it.
	local, others map[string]string
}

// attribute returns the value of an attribute. Fleet Management lets remote attributes win over local ones, except for those that are its own.
func (f facts) attribute(key string) string {
	if value, is := f.others[key]; is && !strings.HasPrefix(key, reservedPrefix) {
		return value
	}
	return f.local[key]
}

// factsOf are the facts as a Collector's status tells them.
func factsOf(c *fleetmanagementv1alpha1.Collector) facts {
	return facts{
		id: c.Spec.ID, registered: c.Status.Registered, local: c.Status.LocalAttributes,
		others: withPrevious(c.Status.OtherRemoteAttributes, c.Status.AttributeOwners),
	}
}

// factsOfLive are the facts as Fleet Management tells them; owners are of the attributes that we gave.
func factsOfLive(live fleetclient.Collector, owners []fleetmanagementv1alpha1.AttributeOwner) facts {
	others := maps.Clone(live.RemoteAttributes)
	for _, owner := range owners {
		delete(others, owner.Key)
	}
	return facts{id: live.ID, registered: true, local: live.LocalAttributes, others: withPrevious(others, owners)}
}

// withPrevious adds what stood where we overwrote it.
func withPrevious(others map[string]string, owners []fleetmanagementv1alpha1.AttributeOwner) map[string]string {
	var all map[string]string
	for _, owner := range owners {
		if owner.PreviousValue == nil {
			continue
		}
		if all == nil {
			all = make(map[string]string, len(others)+1)
			maps.Copy(all, others)
		}
		all[owner.Key] = *owner.PreviousValue
	}
	if all == nil {
		return others
	}
	return all
}
