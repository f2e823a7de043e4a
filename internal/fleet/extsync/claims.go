// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package extsync

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const (
	// maxOwned and maxOwnedBytes bound what a status holds of claims: collectors, and bytes of JSON.
	maxOwned, maxOwnedBytes = 1000, 512 << 10
	// idOverhead and keyOverhead are what JSON adds to an ID, and to a key with its value.
	idOverhead, keyOverhead = 120, 40
)

// Store holds the claims of syncs as this process has fetched them, by the UID of the sync. The zero value is ready; it is safe for
// concurrent use. Claims that are in it are never changed.
type Store struct {
	mu     sync.RWMutex
	claims map[types.UID]Claims
	given  map[types.UID]Claims
}

// Put replaces the claims of a sync.
func (s *Store) Put(uid types.UID, claims Claims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims == nil {
		s.claims = map[types.UID]Claims{}
	}
	s.claims[uid] = claims
}

// Settle says which collectors a sync gives something, whether its selector means them or not.
func (s *Store) Settle(uid types.UID, given Claims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given == nil {
		s.given = map[types.UID]Claims{}
	}
	s.given[uid] = given
}

// Released reports whether a collector that the selector of a sync does not mean may lose what the sync gave it. Until that was
// weighed it may not.
func (s *Store) Released(uid types.UID, id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	given, weighed := s.given[uid]
	_, has := given[id]
	return weighed && !has
}

// Drop forgets a sync.
func (s *Store) Drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claims, uid)
	delete(s.given, uid)
}

// Of returns what a sync claims for a collector. For a sync whose claims this process has not fetched that is what its status says,
// and for a collector that the status does not name what the sync has given it already: that nothing is known takes nothing away.
// The result must not be changed.
func (s *Store) Of(sync *fleetmanagementv1alpha1.ExternalAttributeSync, id string, given func() map[string]string) map[string]string {
	s.mu.RLock()
	claims, fetched := s.claims[sync.UID]
	s.mu.RUnlock()
	if fetched {
		return claims[id]
	}
	for i := range sync.Status.OwnedKeys {
		if owned := &sync.Status.OwnedKeys[i]; owned.CollectorID == id {
			return owned.Attributes
		}
	}
	return given()
}

// Owned returns claims as a status holds them, in the order of their IDs. It returns none, and that they are truncated, where they are
// more than that. What it returns may be changed.
func Owned(claims Claims) (owned []fleetmanagementv1alpha1.OwnedKeys, truncated bool) {
	if len(claims) > maxOwned {
		return nil, true
	}
	size := 0
	for _, id := range slices.Sorted(maps.Keys(claims)) {
		// Each ID and each key stands a second time among the fields that the API server notes for who wrote them, and an ID as JSON
		// within JSON.
		size += 3*written(id) + idOverhead
		for key, value := range claims[id] {
			size += 2*written(key) + written(value) + keyOverhead
		}
		if size > maxOwnedBytes {
			return nil, true
		}
		owned = append(owned, fleetmanagementv1alpha1.OwnedKeys{CollectorID: id, Attributes: maps.Clone(claims[id])})
	}
	return owned, false
}

// written is how many bytes JSON has of a text at most.
func written(text string) int {
	size := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c == '<', c == '>', c == '&', c == '\u007f':
			size += len(`\u0000`) - 1
		case c == '"', c == '\\':
			size++
		case c == '\xe2': // the line separators that JSON escapes begin with it
			size += 3
		}
	}
	return size
}

// Count returns how many collectors have claims, and how many attributes they have in all.
func (c Claims) Count() (collectors, attributes int) {
	for _, of := range c {
		attributes += len(of)
	}
	return len(c), attributes
}
