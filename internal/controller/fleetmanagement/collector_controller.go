// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/bulk"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/inventory"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=collectors,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=collectors/status,verbs=update
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=remoteattributepolicies,verbs=get;list;watch

// CollectorAPI is what the collector controller asks of Fleet Management. The list is asked for by the inventory.
type CollectorAPI interface {
	// Available returns the fault that each call would get now; nil when calls are made.
	Available() error
	GetCollector(ctx context.Context, id string) (fleetclient.Collector, error)
	UpdateCollector(ctx context.Context, c fleetclient.Collector) error
	BulkUpdateCollectors(ctx context.Context, ids []string, ops []fleetclient.Op) error
}

// CollectorConfig is what a CollectorSyncer is made of.
type CollectorConfig struct {
	// Client reads from a cache.
	Client    client.Reader
	API       CollectorAPI
	Inventory *inventory.Inventory[fleetclient.Collector]
	Selectors *Selectors
	// Claims is what ExternalAttributeSyncs have fetched; nil where none of them fetches.
	Claims *extsync.Store
	// Tenancy says what may be given where; nil allows all.
	Tenancy *Tenancy
	// Limits bound what a collector is given.
	Limits   attributes.Limits
	Recorder events.EventRecorder
	Clock    clock.WithTicker
	Metrics  *Metrics
	// PollInterval is the time between two lists; zero lists at the start and for Collectors that no list has shown.
	PollInterval time.Duration
}

// CollectorSyncer gives collectors the attributes that a Collector and the policies of its namespace ask for. A pass reads what
// was listed, submits what is to be changed and ends; the result wakes the Collector. So one worker serves all of them.
type CollectorSyncer struct {
	CollectorConfig
	poller   *collectorPoller
	namer    *collectorNamer
	batcher  *bulk.Batcher
	attempts attempts
	queue    ownQueue
}

// NewCollectorSyncer returns a CollectorSyncer.
func NewCollectorSyncer(config CollectorConfig) *CollectorSyncer {
	if config.Claims == nil {
		config.Claims = &extsync.Store{}
	}
	s := &CollectorSyncer{CollectorConfig: config}
	s.poller = newCollectorPoller(config, s.queue.add)
	s.namer = newCollectorNamer(config, func(id string, wanted naming, err error) {
		s.attempts.named(id, wanted, err, s.Clock.Now())
		s.wakeFor(id)
	})
	s.batcher = bulk.New(bulk.Options{API: config.Metrics.batches(config.API), Clock: config.Clock, Done: s.done, Wake: s.wakeFor})
	return s
}

// NewCollectorInventory returns the inventory of collectors that list returns.
func NewCollectorInventory(list func(context.Context, ...string) ([]fleetclient.Collector, error), c clock.PassiveClock) *inventory.Inventory[fleetclient.Collector] {
	return &inventory.Inventory[fleetclient.Collector]{
		List: func(ctx context.Context) ([]fleetclient.Collector, error) { return list(ctx) }, Clock: c,
		ID: func(c fleetclient.Collector) string { return c.ID },
	}
}

// Recovered says that credentials are taken again, or changed: collectors are listed anew, and what waits is looked at. It does
// not block.
func (s *CollectorSyncer) Recovered() { signal(s.poller.recovered) }

// Known returns why it is not known which collectors there are; nil where it is.
func (s *CollectorSyncer) Known() error {
	if !s.Inventory.Listed().IsZero() {
		return nil
	}
	return cmp.Or(s.API.Available(), error(&fault.Fault{
		Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonListCollectorsFailed, Err: errors.New("the collectors of Fleet Management are not listed yet"),
	}))
}

// Settled implements lifecycle.Settler: what a collector is given changes with policies, and with what others do to it. A pass
// that has nothing to do calls nobody.
func (s *CollectorSyncer) Settled(*fleetmanagementv1alpha1.Collector) (time.Duration, bool) {
	return 0, false
}

// Gate implements lifecycle.Gater: a Collector that must not write, or cannot, leaves nothing behind and needs no finalizer.
func (s *CollectorSyncer) Gate(ctx context.Context, c *fleetmanagementv1alpha1.Collector) error {
	same, err := s.sameID(ctx, c.Spec.ID)
	if err != nil {
		return err
	}
	for i := range same {
		other := &same[i]
		if other.UID == c.UID || !older(other, c) {
			continue
		}
		if barred, err := s.barred(ctx, other); err != nil || !barred {
			return cmp.Or(err, error(&fault.Fault{
				Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonDuplicateCollectorID, After: duplicateRecheck,
				Err: fmt.Errorf("the older Collector %s/%s has the same spec.id: delete one of the two", other.Namespace, other.Name),
			}))
		}
	}
	if controllerutil.ContainsFinalizer(c, fleetmanagementv1alpha1.CollectorFinalizer) {
		return nil
	}
	s.attempts.beginHere(c.UID)
	return s.API.Available()
}

// Sync implements lifecycle.Syncer.
func (s *CollectorSyncer) Sync(ctx context.Context, c *fleetmanagementv1alpha1.Collector) (lifecycle.Outcome, error) {
	live, registered, err := s.look(c)
	switch {
	case err != nil:
		return lifecycle.Outcome{}, err
	case !registered:
		return s.unregistered(c), nil
	case s.isPending(c.Spec.ID) && s.attempts.await(c):
		return lifecycle.Outcome{}, lifecycle.ErrPending
	}
	rules, err := s.Tenancy.Rules(ctx, c.Namespace)
	if err == nil {
		err = forbidden(rules.Broken()) // and takes nothing away
	}
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	now := s.attempts.of(c)
	st, err := s.plan(ctx, c, live, now, rules)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	if err := s.advance(c, st, now); err != nil {
		now.showGiven(c, live)
		return lifecycle.Outcome{}, err
	}
	if wanted := (naming{c.Spec.Name, c.Spec.Enabled}); !wanted.standsIn(live) && st.mayName(c) {
		if st.misnamed = s.attempts.misnamed(c.UID, wanted, s.Clock.Now()); st.misnamed == nil {
			s.attempts.begin(c, st)
			s.namer.submit(c.Spec.ID, wanted)
			return lifecycle.Outcome{}, lifecycle.ErrPending
		}
	}
	return s.conclude(c, live, st, now), nil
}

// look returns what the last list told of the collector. Where a list is to come, it answers with lifecycle.ErrPending.
func (s *CollectorSyncer) look(c *fleetmanagementv1alpha1.Collector) (live fleetclient.Collector, registered bool, err error) {
	listed := !s.Inventory.Listed().IsZero()
	if live, registered = s.Inventory.Get(c.Spec.ID); listed && registered {
		return live, true, nil
	}
	if listed && (c.Status.Registered || !c.DeletionTimestamp.IsZero() || !s.attempts.askOnce(c.UID)) {
		return live, false, nil
	}
	return live, false, s.poller.ask(c)
}

func (s *CollectorSyncer) unregistered(c *fleetmanagementv1alpha1.Collector) lifecycle.Outcome {
	c.Status.Registered = false
	lifecycle.RemoveCondition(c, fleetmanagementv1alpha1.ConditionAttributesInvalid)
	return lifecycle.Outcome{
		Reason: fleetmanagementv1alpha1.ReasonNotRegistered, Status: metav1.ConditionFalse,
		Message: "Fleet Management does not know a collector with the ID of spec.id. It is looked at again when it registers.",
	}
}

// advance submits the operations of a step, and returns nil when there is nothing more to do or to wait for.
func (s *CollectorSyncer) advance(c *fleetmanagementv1alpha1.Collector, st step, now attempt) error {
	same := slices.EqualFunc(now.ops, st.ops, sameOp)
	switch {
	case s.namer.pending(c.Spec.ID):
		return lifecycle.ErrPending
	case s.batcher.Pending(c.Spec.ID):
		if !same {
			s.submit(c, st)
		}
		if s.batcher.Pending(c.Spec.ID) {
			return lifecycle.ErrPending
		}
		return nil
	case now.err != nil:
		s.attempts.told(c)
		return now.err
	case now.relist:
		s.attempts.told(c)
		return s.poller.ask(c)
	case len(st.ops) == 0:
		return nil
	case now.again && same:
		s.attempts.told(c)
		return &fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonSyncFailed, Err: errors.New(
			"the collector is not as it was read, says Fleet Management, and reads the same again")}
	}
	s.submit(c, st)
	return lifecycle.ErrPending
}

func (s *CollectorSyncer) submit(c *fleetmanagementv1alpha1.Collector, st step) {
	s.attempts.begin(c, st)
	s.batcher.Submit(c.Spec.ID, st.ops)
}

// isPending reports whether something is being done for a collector.
func (s *CollectorSyncer) isPending(id string) bool {
	return s.batcher.Pending(id) || s.namer.pending(id)
}

// done takes what the batcher did for a collector.
func (s *CollectorSyncer) done(id string, result bulk.Result) {
	switch {
	case result.Gone:
		s.Inventory.Drop(id)
	case result.Live != nil:
		s.Inventory.Put(*result.Live)
	case len(result.Applied) > 0:
		s.Inventory.Change(id, func(live fleetclient.Collector) fleetclient.Collector {
			live.RemoteAttributes = attributes.Apply(live.RemoteAttributes, result.Applied)
			return live
		})
	}
	s.attempts.finish(id, result, s.Clock.Now())
}

// wakeFor has the Collector looked at for which something was done.
func (s *CollectorSyncer) wakeFor(id string) {
	for _, key := range s.attempts.concerned(id) {
		s.queue.add(key)
	}
}

// sameID returns the Collectors of all namespaces with an ID. They are the cache's own: nothing of them may be changed.
func (s *CollectorSyncer) sameID(ctx context.Context, id string) ([]fleetmanagementv1alpha1.Collector, error) {
	var list fleetmanagementv1alpha1.CollectorList
	err := s.Client.List(ctx, &list, client.MatchingFields{indexCollectorID: id}, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, fmt.Errorf("listing the Collectors with the same spec.id: %w", err)
	}
	return list.Items, nil
}
