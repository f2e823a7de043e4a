// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
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

// weigh decides what goes and what comes: by what was fetched, by the selector and by what Collectors say. While it is not known which
// collectors there are, nothing is decided.
func (s *ExternalSyncSyncer) weigh(p *syncPass) {
	if !p.listed {
		return
	}
	m := p.memory
	p.given = s.stands(p)
	if p.Spec.Suspend {
		return
	}
	p.fresh = m.fetched != nil && !m.applied && m.failures == 0 && m.fingerprint == p.fingerprint
	after := p.wanted()
	loss := extsync.Lose(p.given, after, p.heldSince())
	p.loss, p.held, p.left = &loss, p.holdsBack(loss), len(after) > 0
	if p.held || p.dryRun() != "" {
		return
	}
	p.apply, p.given, p.changed = p.fresh, after, different(p.given, after)
}

// stands returns what collectors have of the sync: as it was last fetched, and, for those that the selector does not mean any more, as
// they got it.
func (s *ExternalSyncSyncer) stands(p *syncPass) extsync.Claims {
	all, layer := extsync.Claims{}, layerOf(p.ExternalAttributeSync)
	for id, c := range p.live {
		of, weighed := p.memory.given[id], p.memory.given != nil
		if p.meant[id] || !weighed {
			of = s.Claims.Of(p.ExternalAttributeSync, id, func() map[string]string { return givenBy(layer, c.Status.AttributeOwners) })
		}
		if len(of) > 0 {
			all[id] = of
		}
	}
	return all
}

// wanted returns what collectors would have if nothing were held back.
func (p *syncPass) wanted() extsync.Claims {
	from, all := p.given, extsync.Claims{}
	if p.fresh {
		from = p.memory.fetched.Claims
	}
	for id := range p.meant {
		if of := from[id]; len(of) > 0 {
			all[id] = of
		}
	}
	return all
}

// settle has the collectors served as it was decided.
func (s *ExternalSyncSyncer) settle(ctx context.Context, p *syncPass) {
	if !p.listed {
		return
	}
	p.memory.given = p.given
	s.Claims.Settle(p.UID, p.given)
	s.Wake(ctx, p.Namespace, p.changed)
}

// heldSince is when a loss began to be held back: now, if it was not before.
func (p *syncPass) heldSince() time.Time {
	if stalled := p.stalled(); stalled != nil {
		return stalled.LastTransitionTime.Time
	}
	return p.now
}

func (p *syncPass) holdsBack(loss extsync.Loss) bool {
	switch {
	case !p.tooMuch(loss):
		return false
	case p.Spec.AllowEmptyResults && p.fresh && p.memory.fetched.Records == 0:
		return false
	default:
		return p.Annotations[fleetmanagementv1alpha1.AnnotationApproveRemoval] != loss.Word
	}
}

func (p *syncPass) tooMuch(loss extsync.Loss) bool {
	return loss.TooMuch(int(ptr.Deref(p.Spec.MaxShrinkPercent, extsync.DefaultMaxShrinkPercent)))
}

// agreed says that so much goes that a person had to agree.
func (p *syncPass) agreed() bool {
	return p.loss != nil && len(p.changed) > 0 && p.tooMuch(*p.loss)
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

// count writes what is given into the status: after a fetch and after a loss that a person agreed to at once, and for Collectors that
// came and went once a minute at most.
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
	if wait := p.memory.counted.Add(countEvery).Sub(p.now); told != nil && !p.looked && !p.apply && !p.agreed() && wait > 0 {
		p.later = sooner(p.later, wait)
		return
	}
	p.counted, p.memory.counted = true, p.now
	status.RecordsApplied, status.AttributesApplied = int32(collectors), int32(attributes) //nolint:gosec // a hundred for each object of a cluster at most
	status.OwnedKeys = owned
	p.setTruncated(truncated, collectors)
}
