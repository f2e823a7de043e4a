// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// step is what a pass has found out about a collector.
type step struct {
	attributes.Plan
	want attributes.Merged
	// ops are those of the plan that Fleet Management did not refuse; refused are the others, by key.
	ops     []fleetclient.Op
	refused []refusedOp
	// misnamed says why the collector does not get its name; nil if it does.
	misnamed *refusedNaming
	// forbidden says why TenantPolicies do not allow the collector to be given anything; empty if they do.
	forbidden string
}

// failed says that somebody else set what is asked for, and that nothing is to be changed then.
func (s step) failed(c *fleetmanagementv1alpha1.Collector) bool {
	return len(s.Conflicts) > 0 && c.Spec.ConflictPolicy == fleetmanagementv1alpha1.ConflictFail
}

// mayName says that the collector may be given its name.
func (s step) mayName(c *fleetmanagementv1alpha1.Collector) bool {
	return !s.failed(c) && s.forbidden == ""
}

// plan decides what a collector is to be given under the rules of its namespace, and what leads there.
func (s *CollectorSyncer) plan(ctx context.Context, c *fleetmanagementv1alpha1.Collector, live fleetclient.Collector, now attempt, rules tenant.Rules) (step, error) {
	mine := now.owned(c.Status.AttributeOwners, live.RemoteAttributes)
	owned, err := s.withOthers(ctx, c, live, mine)
	if err != nil {
		return step{}, err
	}
	f := factsOfLive(live, owned)
	layers, unsure, err := s.layers(ctx, c, f, owned, rules)
	if err != nil {
		return step{}, err
	}
	forbidden, limits := rules.CheckCollector(f.id, f.attribute), s.Limits
	if limits.Also = rules.CheckAttribute; forbidden != "" {
		layers, owned = nil, mine // what others give is theirs
	}
	want := attributes.Merge(layers, limits.Beside(live.RemoteAttributes, owned, layers, c.Spec.ReleasePolicy))
	policies := s.policiesOf(c)
	policies.Unsure = func(kind fleetmanagementv1alpha1.OwnerKind, name string) bool {
		return kind == fleetmanagementv1alpha1.OwnerExternalAttributeSync && slices.Contains(unsure, name)
	}
	plan := attributes.Diff(want, live.RemoteAttributes, owned, policies)
	return s.withoutRefused(c, step{Plan: plan, want: want, forbidden: forbidden}), nil
}

// withOthers adds what other Collectors with the same ID gave before this one turned out to come first.
func (s *CollectorSyncer) withOthers(ctx context.Context, c *fleetmanagementv1alpha1.Collector, live fleetclient.Collector,
	owned []fleetmanagementv1alpha1.AttributeOwner,
) ([]fleetmanagementv1alpha1.AttributeOwner, error) {
	same, err := s.sameID(ctx, c.Spec.ID)
	if err != nil || len(same) <= 1 {
		return owned, err
	}
	all := slices.Clone(owned)
	for i := range same {
		if same[i].UID == c.UID {
			continue
		}
		for _, theirs := range same[i].Status.AttributeOwners {
			known := func(o fleetmanagementv1alpha1.AttributeOwner) bool { return o.Key == theirs.Key }
			if value, is := live.RemoteAttributes[theirs.Key]; is && value == theirs.Value && !slices.ContainsFunc(all, known) {
				all = append(all, theirs)
			}
		}
	}
	return all, nil
}

// barred reports whether the rules of its namespace keep a Collector from giving anything, so that it must not keep another one of the
// same ID from it. While a policy cannot be read, what it gave stays, and so does it.
func (s *CollectorSyncer) barred(ctx context.Context, c *fleetmanagementv1alpha1.Collector) (bool, error) {
	rules, err := s.Tenancy.Rules(ctx, c.Namespace)
	if err != nil || !rules.Bound() || rules.Broken() != nil {
		return false, err
	}
	f := factsOf(c) // until the first list
	if live, listed := s.Inventory.Get(c.Spec.ID); listed {
		owned, err := s.withOthers(ctx, c, live, c.Status.AttributeOwners)
		if err != nil {
			return false, err
		}
		f = factsOfLive(live, owned)
	}
	if !f.registered {
		return rules.CheckCollectorID(f.id) != "", nil
	}
	return rules.CheckCollector(f.id, f.attribute) != "", nil
}

// policiesOf says what becomes of attributes of others. A Collector that has a finalizer and no status, and that this process did
// not give the finalizer, was begun by one that ended before it could say what it gave.
func (s *CollectorSyncer) policiesOf(c *fleetmanagementv1alpha1.Collector) attributes.Policies {
	return attributes.Policies{
		Conflict: c.Spec.ConflictPolicy, Release: c.Spec.ReleasePolicy,
		Given: len(c.Status.Conditions) == 0 && controllerutil.ContainsFinalizer(c, fleetmanagementv1alpha1.CollectorFinalizer) && !s.attempts.begunHere(c.UID),
	}
}

// withoutRefused drops the operations that Fleet Management refused a while ago.
func (s *CollectorSyncer) withoutRefused(c *fleetmanagementv1alpha1.Collector, st step) step {
	known := s.attempts.refusals(c.UID, s.Clock.Now())
	st.ops = st.Ops
	if len(known) == 0 {
		return st
	}
	var keys []string
	st.ops = slices.DeleteFunc(slices.Clone(st.Ops), func(op fleetclient.Op) bool {
		r, is := known[op.Key]
		if is = is && asksTheSame(r.op, op); is {
			st.refused, keys = append(st.refused, r), append(keys, op.Key)
		}
		return is
	})
	st.Owners = st.OwnersWithout(keys...)
	return st
}

func sameOp(a, b fleetclient.Op) bool {
	return asksTheSame(a, b) && a.Kind == b.Kind && equalPointers(a.Old, b.Old)
}

// asksTheSame says that two operations lead to the same, wherever they start from.
func asksTheSame(a, b fleetclient.Op) bool {
	return a.Key == b.Key && a.Value == b.Value && (a.Kind == fleetclient.OpRemove) == (b.Kind == fleetclient.OpRemove)
}

// layers returns what everybody asks for, and the names of the syncs of which that is not known.
func (s *CollectorSyncer) layers(ctx context.Context, c *fleetmanagementv1alpha1.Collector, f facts, owned []fleetmanagementv1alpha1.AttributeOwner,
	rules tenant.Rules,
) (all []attributes.Layer, unsure []string, err error) {
	own := attributes.Layer{
		Kind: fleetmanagementv1alpha1.OwnerCollector, Name: client.ObjectKeyFromObject(c).String(), Attributes: c.Spec.RemoteAttributes,
	}
	policies, err := s.policyLayers(ctx, c.Namespace, f, owned, rules)
	if err != nil {
		return nil, nil, err
	}
	syncs, unsure, err := s.externalLayers(ctx, c.Namespace, f, owned, rules)
	return slices.Concat([]attributes.Layer{own}, policies, syncs), unsure, err
}

// policyLayers returns what the policies of a namespace ask for, and its rules allow.
func (s *CollectorSyncer) policyLayers(ctx context.Context, namespace string, f facts, owned []fleetmanagementv1alpha1.AttributeOwner,
	rules tenant.Rules,
) ([]attributes.Layer, error) {
	var list fleetmanagementv1alpha1.RemoteAttributePolicyList
	if err := s.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("listing the RemoteAttributePolicies of %s: %w", namespace, err)
	}
	var layers []attributes.Layer
	for i := range list.Items {
		p := &list.Items[i]
		if !p.DeletionTimestamp.IsZero() {
			continue // whatever somebody else's finalizer holds it for, and whatever is written into it meanwhile
		}
		layer := attributes.Layer{
			Kind: fleetmanagementv1alpha1.OwnerRemoteAttributePolicy, Name: client.ObjectKeyFromObject(p).String(),
			Priority: p.Spec.Priority, Attributes: p.Spec.Attributes,
		}
		selector, err := s.Selectors.of(p)
		switch {
		case err != nil:
			// A typing error in a selector takes nothing away.
			layer.Attributes = givenBy(layer, owned)
		case !selector.meets(f), rules.CheckSelector(p.Spec.Selector.Matchers, p.Spec.Selector.CollectorIDs) != nil:
			continue
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// givenBy returns what a layer has given before.
func givenBy(layer attributes.Layer, owned []fleetmanagementv1alpha1.AttributeOwner) map[string]string {
	given := map[string]string{}
	for _, owner := range owned {
		if owner.OwnerKind == layer.Kind && owner.OwnerName == layer.Name {
			given[owner.Key] = owner.Value
		}
	}
	return given
}
