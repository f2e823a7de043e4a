// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=pipelinediscoveries,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=pipelinediscoveries/status,verbs=update
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=pipelines,verbs=get;list;watch;create;patch;delete

// adoptWithin is how old a list may be that Pipelines are made of which manage their pipeline: what somebody changed since, they would
// take for drift.
const adoptWithin = 30 * time.Second

// PipelineDiscoveryConfig is what a PipelineDiscoverySyncer is made of.
type PipelineDiscoveryConfig struct {
	MirrorConfig
	// Pipelines has the list of pipelines.
	Pipelines *PipelineSyncer
}

// PipelineDiscoverySyncer makes Pipelines of the pipelines that Fleet Management holds. It writes nothing there.
type PipelineDiscoverySyncer struct {
	*mirrorLoop[*fleetmanagementv1alpha1.PipelineDiscovery, fleetclient.Pipeline]
}

// NewPipelineDiscoverySyncer returns a PipelineDiscoverySyncer.
func NewPipelineDiscoverySyncer(config PipelineDiscoveryConfig) *PipelineDiscoverySyncer {
	return &PipelineDiscoverySyncer{newMirrorLoop(config.MirrorConfig, &discoveredPipelines{config.Pipelines})}
}

// SetupPipelineDiscoveries registers the pipelinediscovery controller. wakes bring discoveries to look at now.
func SetupPipelineDiscoveries(mgr manager.Manager, options controller.Options, s *PipelineDiscoverySyncer, wakes ...Wake) error {
	return setupMirror(mgr, options, s.mirrorLoop, mirrorSetup[*fleetmanagementv1alpha1.PipelineDiscovery]{
		name: "pipelinediscovery", object: &fleetmanagementv1alpha1.PipelineDiscovery{}, list: &fleetmanagementv1alpha1.PipelineDiscoveryList{},
		target: func(d *fleetmanagementv1alpha1.PipelineDiscovery) string {
			return cmp.Or(d.Spec.TargetNamespace, d.Namespace)
		},
		succeeded: func(d *fleetmanagementv1alpha1.PipelineDiscovery) *metav1.Time { return d.Status.LastSuccessTime },
	}, wakes)
}

// discoveredPipelines implements discovered.
type discoveredPipelines struct{ *PipelineSyncer }

func (*discoveredPipelines) words() mirrorWords {
	return mirrorWords{
		marks: mirrorMarks{
			labelName: fleetmanagementv1alpha1.LabelPipelineDiscoveryName, labelNamespace: fleetmanagementv1alpha1.LabelPipelineDiscoveryNamespace,
			discoveredBy: fleetmanagementv1alpha1.AnnotationPipelineDiscoveredBy, id: fleetmanagementv1alpha1.AnnotationPipelineID,
			stale: fleetmanagementv1alpha1.AnnotationPipelineStale,
		},
		kind: "PipelineDiscovery", object: "Pipeline", thing: "pipeline", base: "p",
		listFailed: fleetmanagementv1alpha1.ReasonListPipelinesFailed, truncated: fleetmanagementv1alpha1.ReasonConflictListTruncated,
		created: fleetmanagementv1alpha1.EventPipelineDiscovered, deleted: fleetmanagementv1alpha1.EventPipelinePruned,
		rebound: fleetmanagementv1alpha1.EventPipelineRebound, inTheWay: fleetmanagementv1alpha1.EventPipelineConflict,
	}
}

func (k *discoveredPipelines) available() error { return k.API.Available() }

func (k *discoveredPipelines) bind(ctx context.Context) context.Context {
	ctx, _ = k.API.Bind(ctx)
	return ctx
}

func (k *discoveredPipelines) read(d *fleetmanagementv1alpha1.PipelineDiscovery) (mirrorSpec[fleetclient.Pipeline], error) {
	poll, err := readPoll(d.Spec.PollInterval)
	selector := d.Spec.Selector
	s := mirrorSpec[fleetclient.Pipeline]{
		namespace: cmp.Or(d.Spec.TargetNamespace, d.Namespace), poll: poll, removal: d.Spec.Policy.OnPipelineRemoved,
		inScope: func(p fleetclient.Pipeline) bool {
			return (selector.ConfigType == nil || *selector.ConfigType == p.ConfigType) && (selector.Enabled == nil || *selector.Enabled == p.Enabled)
		},
	}
	if d.Spec.ImportMode == fleetmanagementv1alpha1.ImportAdopt {
		s.fresh = adoptWithin
	}
	return s, err
}

func (k *discoveredPipelines) list(ctx context.Context, _ *fleetmanagementv1alpha1.PipelineDiscovery, age time.Duration) error {
	return k.within(ctx, age)
}

func (k *discoveredPipelines) listed() time.Time { return k.Inventory.Listed() }

func (k *discoveredPipelines) all(visit func(fleetclient.Pipeline) bool) { k.Inventory.All(visit) }

func (k *discoveredPipelines) get(id string) (fleetclient.Pipeline, bool) { return k.Inventory.Get(id) }

func (k *discoveredPipelines) lookUp(ctx context.Context, id string) error {
	live, err := k.API.GetPipeline(ctx, id)
	if err == nil {
		k.Inventory.Put(live)
	}
	return err
}

func (k *discoveredPipelines) thing(p fleetclient.Pipeline) mirror.Thing {
	return mirror.Thing{ID: p.ID, Name: strings.TrimSpace(p.Name)}
}

func (k *discoveredPipelines) allows(rules tenant.Rules, p fleetclient.Pipeline) bool {
	return rules.CheckMatchers(p.Matchers) == nil
}

func (k *discoveredPipelines) objects(ctx context.Context, namespace string) ([]mirrored, error) {
	var list fleetmanagementv1alpha1.PipelineList
	if err := k.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	all := make([]mirrored, 0, len(list.Items))
	for i := range list.Items {
		p := &list.Items[i]
		o := mirroredOf(p, k.words().marks)
		o.ID, o.Shows = cmp.Or(o.ID, p.Status.ID), k.name(p)
		all = append(all, o)
	}
	return all, nil
}

func (k *discoveredPipelines) empty() client.Object { return &fleetmanagementv1alpha1.Pipeline{} }

// build copies what Fleet Management holds. A Pipeline that is to manage it leaves it in place when the object goes, and has its ID, so
// that nothing needs to be written where nothing differs.
func (k *discoveredPipelines) build(d *fleetmanagementv1alpha1.PipelineDiscovery, live fleetclient.Pipeline) client.Object {
	p := &fleetmanagementv1alpha1.Pipeline{Spec: fleetmanagementv1alpha1.PipelineSpec{
		Name: live.Name, Contents: live.Contents, Matchers: live.Matchers, Enabled: &live.Enabled, ConfigType: live.ConfigType,
	}}
	ofGrafana := false
	if s := live.Source; s != nil {
		ofGrafana = s.Type == fleetmanagementv1alpha1.SourceGrafana
		if strings.TrimSpace(s.Namespace) != "" && s.Type != fleetmanagementv1alpha1.SourceUnspecified {
			p.Spec.Source = &fleetmanagementv1alpha1.PipelineSource{Type: s.Type, Namespace: s.Namespace}
		}
	}
	if ofGrafana || d.Spec.ImportMode != fleetmanagementv1alpha1.ImportAdopt {
		p.Annotations = map[string]string{fleetmanagementv1alpha1.AnnotationImportMode: fleetmanagementv1alpha1.ImportModeReadOnly}
		return p
	}
	p.Spec.AdoptionPolicy, p.Spec.DeletionPolicy = fleetmanagementv1alpha1.AdoptAlways, fleetmanagementv1alpha1.DeletionOrphan
	return p
}

func (k *discoveredPipelines) shown(d *fleetmanagementv1alpha1.PipelineDiscovery) findings {
	s := &d.Status
	f := findings{
		observed: int(s.PipelinesObserved), managed: int(s.PipelinesManaged), outOfScope: int(s.OutOfScope), stale: s.StalePipelines,
		staleTotal: int(s.StaleTotal), conflictsTotal: int(s.ConflictsTotal), lastSync: s.LastSyncTime, lastSuccess: s.LastSuccessTime,
	}
	for _, c := range s.Conflicts {
		f.conflicts = append(f.conflicts, mirror.Conflict{ID: c.PipelineID, Name: c.CRName, Reason: c.Reason})
	}
	return f
}

func (k *discoveredPipelines) show(d *fleetmanagementv1alpha1.PipelineDiscovery, f findings) {
	s := &d.Status
	s.PipelinesObserved, s.PipelinesManaged, s.OutOfScope = number(f.observed), number(f.managed), number(f.outOfScope)
	s.StalePipelines, s.StaleTotal, s.ConflictsTotal = f.stale, number(f.staleTotal), number(f.conflictsTotal)
	s.LastSyncTime, s.LastSuccessTime, s.Conflicts = f.lastSync, f.lastSuccess, nil
	for _, c := range f.conflicts {
		s.Conflicts = append(s.Conflicts, fleetmanagementv1alpha1.PipelineConflict{PipelineID: c.ID, CRName: c.Name, Reason: c.Reason})
	}
}
