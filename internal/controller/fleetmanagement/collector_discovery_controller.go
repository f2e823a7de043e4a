// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/matcher"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=collectordiscoveries,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=collectordiscoveries/status,verbs=update
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=collectors,verbs=get;list;watch;create;patch;delete

// CollectorDiscoveryConfig is what a CollectorDiscoverySyncer is made of.
type CollectorDiscoveryConfig struct {
	MirrorConfig
	// Collectors has the list of collectors.
	Collectors *CollectorSyncer
}

// CollectorDiscoverySyncer makes Collectors of the collectors that Fleet Management knows. It writes nothing there.
type CollectorDiscoverySyncer struct {
	*mirrorLoop[*fleetmanagementv1alpha1.CollectorDiscovery, fleetclient.Collector]
}

// NewCollectorDiscoverySyncer returns a CollectorDiscoverySyncer.
func NewCollectorDiscoverySyncer(config CollectorDiscoveryConfig) *CollectorDiscoverySyncer {
	kind := &discoveredCollectors{CollectorSyncer: config.Collectors, found: config.Found}
	s := &CollectorDiscoverySyncer{newMirrorLoop(config.MirrorConfig, kind)}
	kind.wake = s.queue.add
	return s
}

// SetupCollectorDiscoveries registers the collectordiscovery controller. wakes bring discoveries to look at now.
func SetupCollectorDiscoveries(mgr manager.Manager, options controller.Options, s *CollectorDiscoverySyncer, wakes ...Wake) error {
	return setupMirror(mgr, options, s.mirrorLoop, mirrorSetup[*fleetmanagementv1alpha1.CollectorDiscovery]{
		name: "collectordiscovery", object: &fleetmanagementv1alpha1.CollectorDiscovery{}, list: &fleetmanagementv1alpha1.CollectorDiscoveryList{},
		target: func(d *fleetmanagementv1alpha1.CollectorDiscovery) string {
			return cmp.Or(d.Spec.TargetNamespace, d.Namespace)
		},
		succeeded: func(d *fleetmanagementv1alpha1.CollectorDiscovery) *metav1.Time { return d.Status.LastSuccessTime },
	}, wakes)
}

// discoveredCollectors implements discovered.
type discoveredCollectors struct {
	*CollectorSyncer
	found *mirror.Metrics
	// wake has a discovery looked at now; it does not block.
	wake func(client.ObjectKey)
}

func (*discoveredCollectors) words() mirrorWords {
	return mirrorWords{
		marks: mirrorMarks{
			labelName: fleetmanagementv1alpha1.LabelCollectorDiscoveryName, labelNamespace: fleetmanagementv1alpha1.LabelCollectorDiscoveryNamespace,
			discoveredBy: fleetmanagementv1alpha1.AnnotationCollectorDiscoveredBy, id: fleetmanagementv1alpha1.AnnotationCollectorID,
			stale: fleetmanagementv1alpha1.AnnotationCollectorStale,
		},
		kind: "CollectorDiscovery", object: "Collector", thing: "collector", base: "c",
		listFailed: fleetmanagementv1alpha1.ReasonListCollectorsFailed, truncated: fleetmanagementv1alpha1.ReasonConflictsTruncated,
		created: fleetmanagementv1alpha1.EventDiscovered, deleted: fleetmanagementv1alpha1.EventPruned,
		inTheWay: fleetmanagementv1alpha1.EventConflict,
	}
}

func (k *discoveredCollectors) available() error { return k.API.Available() }

func (k *discoveredCollectors) bind(ctx context.Context) context.Context { return ctx }

func (k *discoveredCollectors) read(d *fleetmanagementv1alpha1.CollectorDiscovery) (mirrorSpec[fleetclient.Collector], error) {
	s := mirrorSpec[fleetclient.Collector]{namespace: cmp.Or(d.Spec.TargetNamespace, d.Namespace), removal: d.Spec.Policy.OnCollectorRemoved}
	var err error
	if s.poll, err = readPoll(d.Spec.PollInterval); err != nil {
		return s, err
	}
	compiled, err := matcher.Compile(d.Spec.Selector.Matchers, d.Spec.Selector.CollectorIDs)
	if err != nil {
		return s, fmt.Errorf("spec.selector cannot be used: %w", err)
	}
	meant := selector{compiled, true}
	everything := len(d.Spec.Selector.Matchers) == 0 && len(d.Spec.Selector.CollectorIDs) == 0
	s.inScope = func(c fleetclient.Collector) bool {
		return (d.Spec.IncludeInactive || c.MarkedInactiveAt.IsZero()) && (everything || meant.meets(factsAsListed(c)))
	}
	return s, nil
}

// factsAsListed are what Fleet Management itself goes by, whoever gave the attributes.
func factsAsListed(c fleetclient.Collector) facts {
	return facts{id: c.ID, registered: true, local: c.LocalAttributes, others: c.RemoteAttributes}
}

func (k *discoveredCollectors) list(_ context.Context, d *fleetmanagementv1alpha1.CollectorDiscovery, age time.Duration) error {
	key := client.ObjectKeyFromObject(d)
	return k.poller.within(age, key, func() { k.wake(key) })
}

func (k *discoveredCollectors) listed() time.Time { return k.Inventory.Listed() }

func (k *discoveredCollectors) all(visit func(fleetclient.Collector) bool) {
	n := 0
	k.Inventory.All(func(c fleetclient.Collector) bool {
		n++
		return visit(c)
	})
	k.found.Listed(n)
}

func (k *discoveredCollectors) get(id string) (fleetclient.Collector, bool) {
	return k.Inventory.Get(id)
}

// lookUp has Collectors looked at as well, which the next list would tell nothing new.
func (k *discoveredCollectors) lookUp(ctx context.Context, id string) error {
	live, err := k.API.GetCollector(ctx, id)
	if err != nil {
		return err
	}
	k.Inventory.Put(live)
	same, err := k.sameID(ctx, id)
	for i := range same {
		k.queue.add(client.ObjectKeyFromObject(&same[i]))
	}
	return err
}

func (k *discoveredCollectors) thing(c fleetclient.Collector) mirror.Thing {
	return mirror.Thing{ID: c.ID, Name: c.ID}
}

func (k *discoveredCollectors) allows(rules tenant.Rules, c fleetclient.Collector) bool {
	return rules.CheckCollector(c.ID, factsAsListed(c).attribute) == ""
}

func (k *discoveredCollectors) objects(ctx context.Context, namespace string) ([]mirrored, error) {
	var list fleetmanagementv1alpha1.CollectorList
	if err := k.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	all := make([]mirrored, 0, len(list.Items))
	for i := range list.Items {
		c := &list.Items[i]
		o := mirroredOf(c, k.words().marks)
		o.ID, o.Edited = cmp.Or(o.ID, c.Spec.ID), isEdited(c.Spec)
		all = append(all, o)
	}
	return all, nil
}

// isEdited reports whether somebody wrote more into a Collector than which collector it is.
func isEdited(spec fleetmanagementv1alpha1.CollectorSpec) bool {
	made := fleetmanagementv1alpha1.CollectorSpec{ID: spec.ID}
	if spec.ConflictPolicy == fleetmanagementv1alpha1.ConflictOverwrite {
		made.ConflictPolicy = spec.ConflictPolicy
	}
	if spec.ReleasePolicy == fleetmanagementv1alpha1.ReleaseRestore {
		made.ReleasePolicy = spec.ReleasePolicy
	}
	return !equality.Semantic.DeepEqual(made, spec)
}

func (k *discoveredCollectors) empty() client.Object { return &fleetmanagementv1alpha1.Collector{} }

func (k *discoveredCollectors) build(_ *fleetmanagementv1alpha1.CollectorDiscovery, live fleetclient.Collector) client.Object {
	return &fleetmanagementv1alpha1.Collector{Spec: fleetmanagementv1alpha1.CollectorSpec{ID: live.ID}}
}

func (k *discoveredCollectors) shown(d *fleetmanagementv1alpha1.CollectorDiscovery) findings {
	s := &d.Status
	f := findings{
		observed: int(s.CollectorsObserved), managed: int(s.CollectorsManaged), outOfScope: int(s.OutOfScope), stale: s.StaleCollectors,
		staleTotal: int(s.StaleTotal), conflictsTotal: int(s.ConflictsTotal), lastSync: s.LastSyncTime, lastSuccess: s.LastSuccessTime,
	}
	for _, c := range s.Conflicts {
		f.conflicts = append(f.conflicts, mirror.Conflict{ID: c.CollectorID, Name: c.CRName, Reason: c.Reason})
	}
	return f
}

func (k *discoveredCollectors) show(d *fleetmanagementv1alpha1.CollectorDiscovery, f findings) {
	s := &d.Status
	s.CollectorsObserved, s.CollectorsManaged, s.OutOfScope = number(f.observed), number(f.managed), number(f.outOfScope)
	s.StaleCollectors, s.StaleTotal, s.ConflictsTotal = f.stale, number(f.staleTotal), number(f.conflictsTotal)
	s.LastSyncTime, s.LastSuccessTime, s.Conflicts = f.lastSync, f.lastSuccess, nil
	for _, c := range f.conflicts {
		s.Conflicts = append(s.Conflicts, fleetmanagementv1alpha1.CollectorConflict{CollectorID: c.ID, CRName: c.Name, Reason: c.Reason})
	}
}
