// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

// pollsToCollect is at how many polls in a row a pipeline has to be an orphan before it is deleted.
const pollsToCollect = 2

// pipelinePoller lists pipelines once an interval and wakes the Pipelines that differ. Only the leader runs it.
type pipelinePoller struct {
	*PipelineSyncer
	// orphaned counts the polls in a row at which a pipeline was an orphan, by its ID.
	orphaned map[string]int
	teller   teller
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*pipelinePoller) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (p *pipelinePoller) Start(ctx context.Context) error {
	var ticks <-chan time.Time
	if p.DriftInterval > 0 {
		ticker := p.Clock.NewTicker(p.DriftInterval)
		defer ticker.Stop()
		ticks = ticker.C()
		// The passes over what there is at the start want the same list.
		p.poll(ctx, p.Inventory.Ensure)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
			p.poll(ctx, func(ctx context.Context) error {
				_, err := p.Inventory.Refresh(ctx)
				return err
			})
		case <-p.recovered:
			p.wakeUnwell(ctx)
			p.look(ctx, p.Inventory.Ensure)
		case <-p.listed:
			p.look(ctx, func(context.Context) error { return nil })
		}
	}
}

// within has pipelines listed unless the last list is younger than age. What a list brings, the poller looks at, too.
func (s *PipelineSyncer) within(ctx context.Context, age time.Duration) error {
	listed, err := s.Inventory.EnsureWithin(ctx, age)
	if listed {
		signal(s.listed)
	}
	return err
}

func (p *pipelinePoller) poll(ctx context.Context, list func(context.Context) error) {
	ctx, stack := p.API.Bind(ctx)
	if objects, ok := p.compare(ctx, stack, list); ok {
		p.collect(ctx, p.orphans(objects))
	}
}

// look wakes the Pipelines that differ from what Fleet Management holds.
func (p *pipelinePoller) look(ctx context.Context, list func(context.Context) error) {
	ctx, stack := p.API.Bind(ctx)
	_, _ = p.compare(ctx, stack, list)
}

// compare wakes the Pipelines that differ from what a stack holds, and returns all Pipelines.
func (p *pipelinePoller) compare(ctx context.Context, stack string, list func(context.Context) error) ([]fleetmanagementv1alpha1.Pipeline, bool) {
	log := logf.FromContext(ctx)
	err := p.API.Available()
	if err == nil {
		err = list(ctx)
	}
	p.teller.tell(ctx, "pipelines", err)
	if err != nil {
		return nil, false
	}
	objects, err := p.objects(ctx)
	if err != nil {
		log.Error(err, "Cannot list Pipelines")
		return nil, false
	}
	for i := range objects {
		if o := &objects[i]; o.Status.Stack != stack || p.differs(ctx, o) {
			p.queue.add(client.ObjectKeyFromObject(o))
		}
	}
	return objects, true
}

func (s *PipelineSyncer) objects(ctx context.Context) ([]fleetmanagementv1alpha1.Pipeline, error) {
	var list fleetmanagementv1alpha1.PipelineList
	err := s.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	return list.Items, err
}

// differs reports whether a pass over a Pipeline would do or store something. It may say so once too often: a pass costs no call
// where nothing is due.
func (s *PipelineSyncer) differs(ctx context.Context, o *fleetmanagementv1alpha1.Pipeline) bool {
	if !meta.IsStatusConditionTrue(o.Status.Conditions, fleetmanagementv1alpha1.ConditionSynced) {
		return true
	}
	var live *fleetclient.Pipeline
	if pipelines.IsMirror(o) {
		shown, exists := s.mirrored(o)
		if !exists {
			return true
		}
		shown.Source = nil
		if len(pipelines.Diff(pipelines.Desired(o, s.name(o)), shown)) > 0 {
			return true
		}
		live = &shown
	} else {
		d := pipelines.Decide(s.input(ctx, o))
		if d.Action != pipelines.Keep || len(d.Strays) > 0 {
			return true
		}
		live = d.Live
	}
	return o.Status.ID != live.ID || !o.Status.UpdatedAt.Equal(stored(live.UpdatedAt))
}

// orphans returns the pipelines that carry the stamp of this cluster and whose object is gone. One whose object was created anew
// is none. Without any object nothing is an orphan: what is missing is more likely the objects.
func (s *PipelineSyncer) orphans(objects []fleetmanagementv1alpha1.Pipeline) []fleetclient.Pipeline {
	if len(objects) == 0 {
		return nil
	}
	living, named := make(map[types.UID]bool, len(objects)), make(map[string]bool, len(objects))
	for i := range objects {
		living[objects[i].UID], named[s.owner(&objects[i]).String()] = true, true
	}
	var all []fleetclient.Pipeline
	s.Inventory.All(func(live fleetclient.Pipeline) bool {
		owner, is := pipelines.StampOf(live)
		if is && owner.Cluster == s.Cluster && !living[owner.UID] && !named[owner.String()] {
			all = append(all, live)
		}
		return true
	})
	return all
}

// collect counts orphans, and deletes those that stay orphans where that is asked for.
func (p *pipelinePoller) collect(ctx context.Context, orphans []fleetclient.Pipeline) {
	p.Metrics.setOrphans(len(orphans))
	before := p.orphaned
	p.orphaned = make(map[string]int, len(orphans))
	for _, live := range orphans {
		p.orphaned[live.ID] = before[live.ID] + 1
		if !p.GCOrphans || p.orphaned[live.ID] < pollsToCollect || !p.isGone(ctx, live) {
			continue
		}
		log := logf.FromContext(ctx).WithValues("pipeline", live.Name, "id", live.ID)
		if err := fault.IgnoreNotFound(p.API.DeletePipeline(ctx, live.ID)); err != nil {
			log.Info("Cannot delete an orphaned pipeline", "error", err.Error())
			continue
		}
		p.Inventory.Drop(live.ID)
		log.Info("Deleted a pipeline whose object is gone")
	}
}

// isGone asks the API server itself whether the object of a stamp is gone.
func (p *pipelinePoller) isGone(ctx context.Context, live fleetclient.Pipeline) bool {
	owner, _ := pipelines.StampOf(live)
	var o fleetmanagementv1alpha1.Pipeline
	return apierrors.IsNotFound(p.Reader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}, &o))
}

func (s *PipelineSyncer) wakeUnwell(ctx context.Context) {
	objects, err := s.objects(ctx)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list Pipelines")
		return
	}
	for i := range objects {
		if !meta.IsStatusConditionTrue(objects[i].Status.Conditions, fleetmanagementv1alpha1.ConditionSynced) || !objects[i].DeletionTimestamp.IsZero() {
			s.queue.add(client.ObjectKeyFromObject(&objects[i]))
		}
	}
}

// wakeNamed wakes the Pipelines that wait for a name.
func (s *PipelineSyncer) wakeNamed(ctx context.Context, name string) {
	waiting, err := s.indexed(ctx, indexPipelineName, name)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the Pipelines that wait for a name")
		return
	}
	for i := range waiting {
		s.queue.add(client.ObjectKeyFromObject(&waiting[i]))
	}
}
