// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/inventory"
	"github.com/candor-dev/candor/internal/fleet/source"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// A Secret with credentials is read where a Role of its namespace lets the operator: there is no right on Secrets here.
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=externalattributesyncs,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=externalattributesyncs/status,verbs=update

const (
	// countEvery is the least time between two writes of a status that tell of nothing but Collectors that came and went.
	countEvery = time.Minute
	// listedRecheck is how soon a sync is looked at again while collectors are not listed yet.
	listedRecheck = 5 * time.Second
)

// Sources opens what a sync fetches from.
type Sources interface {
	// Open returns the source that a spec describes, and a name for the server or database that it asks, without anything secret.
	// secret is the content of the Secret that the spec names, nil where it names none. An error is a fault. The caller closes the
	// source.
	Open(spec fleetmanagementv1alpha1.ExternalSource, secret map[string][]byte) (s source.Source, target string, err error)
}

// ExternalSyncConfig is what an ExternalSyncSyncer is made of.
type ExternalSyncConfig struct {
	// Client reads from a cache, and Secrets does not: it reads only what a sync names.
	Client, Secrets client.Reader
	Sources         Sources
	// Inventory is that of the collector controller, which lists.
	Inventory *inventory.Inventory[fleetclient.Collector]
	Selectors *Selectors
	// Tenancy says what may be asked for where; nil allows all.
	Tenancy *Tenancy
	// Claims is where the collector controller finds what was fetched.
	Claims *extsync.Store
	// Wake has Collectors of a namespace looked at, by the IDs of their collectors.
	Wake func(ctx context.Context, namespace string, ids []string)
	// SecretSelector says which Secrets may be used; nil for all.
	SecretSelector labels.Selector
	// TargetRate bounds the fetches a second from one server or database, TargetBurst how many may come at once. A rate of 0 bounds
	// nothing.
	TargetRate  float64
	TargetBurst int
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Metrics     *Metrics
}

// ExternalSyncSyncer fetches records when they are due and says which attributes they give to which collector. That collectors get
// them is the collector controller's doing: this one never calls Fleet Management.
type ExternalSyncSyncer struct {
	ExternalSyncConfig
	targets  extsync.Targets
	memories memories
}

// NewExternalSyncSyncer returns an ExternalSyncSyncer.
func NewExternalSyncSyncer(config ExternalSyncConfig) *ExternalSyncSyncer {
	return &ExternalSyncSyncer{ExternalSyncConfig: config, targets: extsync.Targets{Rate: config.TargetRate, Burst: config.TargetBurst}}
}

// Settled implements lifecycle.Settler: what is given changes with the Collectors. A pass that has nothing to do fetches nothing.
func (*ExternalSyncSyncer) Settled(*fleetmanagementv1alpha1.ExternalAttributeSync) (time.Duration, bool) {
	return 0, false
}

// syncPass is one look at a sync.
type syncPass struct {
	*fleetmanagementv1alpha1.ExternalAttributeSync
	memory   *syncMemory
	schedule extsync.Schedule
	now      time.Time
	// fingerprint is that of the spec.
	fingerprint string
	// listed says that it is known which collectors there are; live are the Collectors of those, by ID, and meant the IDs of those
	// that the selector means.
	listed bool
	live   map[string]*fleetmanagementv1alpha1.Collector
	meant  map[string]bool
	// looked says that records were asked for in this pass, and later is how long that, or a count, has to wait.
	looked bool
	later  time.Duration
	// given is what collectors get after this pass, and changed are the IDs of those that get something else than before. fresh says
	// that something was fetched that is not given yet, and apply that it is to be.
	given        extsync.Claims
	changed      []string
	fresh, apply bool
	// loss is what would be taken away, nil where that was not looked at, and held says that this is too much. left says that some
	// collector would have something afterwards.
	loss       *extsync.Loss
	held, left bool
	// counted says that the status tells of other numbers than before, and hadDuplicates that it told of duplicates.
	counted, hadDuplicates bool
}

// Sync implements lifecycle.Syncer.
func (s *ExternalSyncSyncer) Sync(ctx context.Context, o *fleetmanagementv1alpha1.ExternalAttributeSync) (lifecycle.Outcome, error) {
	p, err := s.begin(ctx, o)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	if p.due() {
		s.fetch(ctx, p)
		if ctx.Err() != nil {
			return lifecycle.Outcome{}, lifecycle.ErrPending
		}
	}
	s.weigh(p)
	p.count()
	p.show()
	return s.conclude(ctx, p)
}

// begin reads what a pass goes by. Its errors are about the spec: what was given stays.
func (s *ExternalSyncSyncer) begin(ctx context.Context, o *fleetmanagementv1alpha1.ExternalAttributeSync) (*syncPass, error) {
	terminal := func(reason string, err error) error {
		o.Status.NextSyncTime = nil
		return &fault.Fault{Kind: fault.Terminal, Reason: reason, Err: err}
	}
	schedule, err := extsync.ParseSchedule(o.Spec.Schedule, o.Spec.TimeZone)
	if err != nil {
		return nil, terminal(fleetmanagementv1alpha1.ReasonInvalidSchedule, fmt.Errorf("spec.%w", err))
	}
	if _, err := s.Selectors.of(o); err != nil {
		return nil, terminal(fleetmanagementv1alpha1.ReasonValidationError, fmt.Errorf("spec.selector cannot be used: %w", err))
	}
	if ref := o.Spec.Source.SecretRef; ref != nil && ref.Namespace != "" && ref.Namespace != o.Namespace {
		return nil, terminal(fleetmanagementv1alpha1.ReasonSecretUnreadable, fmt.Errorf(
			"spec.source.secretRef.namespace is %s: only a Secret of the namespace of the object, %s, is read", ref.Namespace, o.Namespace))
	}
	if err := s.allowed(ctx, o); err != nil {
		return nil, err
	}
	p := &syncPass{ExternalAttributeSync: o, memory: s.memories.of(o), schedule: schedule, now: s.Clock.Now(), hadDuplicates: o.Status.Duplicates > 0}
	p.fingerprint = extsync.Fingerprint(o.Spec)
	p.memory.correct(p.now, schedule.Interval(p.now))
	p.listed = !s.Inventory.Listed().IsZero()
	if p.listed {
		if err = s.match(ctx, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// allowed returns a fault if the rules of the namespace do not let the selector be used: nothing is fetched then, or given.
func (s *ExternalSyncSyncer) allowed(ctx context.Context, o *fleetmanagementv1alpha1.ExternalAttributeSync) error {
	rules, err := s.Tenancy.Rules(ctx, o.Namespace)
	if err != nil {
		return err
	}
	return forbidden(rules.CheckSelector(o.Spec.Selector.Matchers, o.Spec.Selector.CollectorIDs))
}

// match finds the Collectors whose collector is registered, and those that the selector means. They are the cache's own: nothing of them
// may be changed.
func (s *ExternalSyncSyncer) match(ctx context.Context, p *syncPass) error {
	o := p.ExternalAttributeSync
	selector, err := s.Selectors.of(o)
	if err != nil {
		return err
	}
	var list fleetmanagementv1alpha1.CollectorList
	if err := s.Client.List(ctx, &list, client.InNamespace(o.Namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return &fault.Fault{
			Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonListFailed, Err: fmt.Errorf("listing the Collectors of %s: %w", o.Namespace, err),
		}
	}
	p.live, p.meant = map[string]*fleetmanagementv1alpha1.Collector{}, map[string]bool{}
	for i := range list.Items {
		c := &list.Items[i]
		live, registered := s.Inventory.Get(c.Spec.ID)
		if !registered || !c.DeletionTimestamp.IsZero() {
			continue
		}
		p.live[c.Spec.ID] = c
		if selector.meets(factsOfLive(live, c.Status.AttributeOwners)) {
			p.meant[c.Spec.ID] = true
		}
	}
	return nil
}
