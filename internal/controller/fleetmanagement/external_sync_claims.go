// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/extsync"
)

// layerOf is the layer of a sync, without attributes.
func layerOf(o *fleetmanagementv1alpha1.ExternalAttributeSync) attributes.Layer {
	return attributes.Layer{Kind: fleetmanagementv1alpha1.OwnerExternalAttributeSync, Name: client.ObjectKeyFromObject(o).String()}
}

// weigh decides whether what was fetched is given. While it is not known which collectors there are, nothing is decided.
func (s *ExternalSyncSyncer) weigh(p *syncPass) {
	if !p.listed {
		return
	}
	now, layer := extsync.Claims{}, layerOf(p.ExternalAttributeSync)
	for id, c := range p.meant {
		of := s.Claims.Of(p.ExternalAttributeSync, id, func() map[string]string { return givenBy(layer, c.Status.AttributeOwners) })
		if len(of) > 0 {
			now[id] = of
		}
	}
	p.given = now
	if m := p.memory; m.fetched == nil || m.applied || m.failures > 0 || p.Spec.Suspend || m.fingerprint != p.fingerprint {
		return
	}
	after := extsync.Claims{}
	for id := range p.meant {
		if of := p.memory.fetched.Claims[id]; len(of) > 0 {
			after[id] = of
		}
	}
	loss := extsync.Lose(now, after, p.Spec.Mapping.AttributeFields, p.heldSince())
	p.loss, p.held = &loss, p.holdsBack(loss)
	if p.held || p.dryRun() != "" {
		return
	}
	p.apply, p.given, p.changed = true, after, different(now, after)
}

// heldSince is when what was fetched began to be held back: now, if it was not before.
func (p *syncPass) heldSince() time.Time {
	if stalled := p.stalled(); stalled != nil {
		return stalled.LastTransitionTime.Time
	}
	return p.now
}

func (p *syncPass) holdsBack(loss extsync.Loss) bool {
	switch {
	case !loss.TooMuch(int(ptr.Deref(p.Spec.MaxShrinkPercent, extsync.DefaultMaxShrinkPercent))):
		return false
	case p.Spec.AllowEmptyResults && p.memory.fetched.Records == 0:
		return false
	default:
		return p.Annotations[fleetmanagementv1alpha1.AnnotationApproveRemoval] != loss.Word
	}
}

// different returns the IDs of the collectors that have other claims afterwards, in order.
func different(before, after extsync.Claims) []string {
	var ids []string
	for id, of := range before {
		if !maps.Equal(of, after[id]) {
			ids = append(ids, id)
		}
	}
	for id := range after {
		if _, had := before[id]; !had {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// count writes what is given into the status: after a fetch at once, and for Collectors that came and went once a minute at most.
func (p *syncPass) count() {
	if !p.listed {
		p.later = sooner(p.later, listedRecheck)
		return
	}
	collectors, attributes := p.given.Count()
	owned, truncated := extsync.Owned(p.given)
	status := &p.Status
	told := meta.FindStatusCondition(status.Conditions, fleetmanagementv1alpha1.ConditionTruncated)
	if told != nil && (told.Reason == fleetmanagementv1alpha1.ReasonOwnedKeysTruncated) == truncated &&
		int(status.RecordsApplied) == collectors && int(status.AttributesApplied) == attributes && equality.Semantic.DeepEqual(status.OwnedKeys, owned) {
		return
	}
	if wait := p.memory.counted.Add(countEvery).Sub(p.now); told != nil && !p.looked && !p.apply && wait > 0 {
		p.later = sooner(p.later, wait)
		return
	}
	p.counted, p.memory.counted = true, p.now
	status.RecordsApplied, status.AttributesApplied = int32(collectors), int32(attributes) //nolint:gosec // a hundred for each object of a cluster at most
	status.OwnedKeys = owned
	p.setTruncated(truncated, collectors)
}
