// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=externalattributesyncs,verbs=get;list;watch

// externalLayers returns what the syncs of a namespace ask for, and its rules allow. The selector is looked at here, whatever a status
// says, and the limits of attributes.Merge hold for what it says. unsure are the names of the syncs of which it is not known what they
// ask for: what they gave is returned.
func (s *CollectorSyncer) externalLayers(ctx context.Context, namespace string, f facts, owned []fleetmanagementv1alpha1.AttributeOwner,
	rules tenant.Rules,
) (layers []attributes.Layer, unsure []string, err error) {
	var list fleetmanagementv1alpha1.ExternalAttributeSyncList
	if err := s.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, nil, fmt.Errorf("listing the ExternalAttributeSyncs of %s: %w", namespace, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		if !o.DeletionTimestamp.IsZero() {
			continue // whatever somebody else's finalizer holds it for, and whatever is written into it meanwhile
		}
		layer := layerOf(o)
		given := func() map[string]string {
			unsure = append(unsure, layer.Name)
			return givenBy(layer, owned)
		}
		selector, err := s.Selectors.of(o)
		switch {
		case err != nil:
			// A typing error in a selector takes nothing away.
			layer.Attributes = given()
		case rules.CheckSelector(o.Spec.Selector.Matchers, o.Spec.Selector.CollectorIDs) != nil:
			continue
		case selector.meets(f):
			layer.Attributes = s.Claims.Of(o, f.id, given)
		case s.Claims.Released(o.UID, f.id):
			continue
		default:
			// It may be one of many at once, which takes a person's word.
			layer.Attributes = given()
		}
		layers = append(layers, layer)
	}
	return layers, unsure, nil
}

// Wake has the Collectors of a namespace looked at whose collectors have these IDs.
func (s *CollectorSyncer) Wake(ctx context.Context, namespace string, ids []string) {
	if len(ids) == 0 {
		return
	}
	concerned := make(map[string]bool, len(ids))
	for _, id := range ids {
		concerned[id] = true
	}
	var list fleetmanagementv1alpha1.CollectorList
	if err := s.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the Collectors that an ExternalAttributeSync concerns")
		return
	}
	for i := range list.Items {
		if c := &list.Items[i]; concerned[c.Spec.ID] {
			s.queue.add(client.ObjectKeyFromObject(c))
		}
	}
}
