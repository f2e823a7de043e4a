// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/inventory"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=pipelines,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=pipelines/status,verbs=update

const (
	// defaultPoll is how old the inventory may be where no poll keeps it young.
	defaultPoll = 5 * time.Minute
	// failedListFor is how long nobody lists again after a list failed.
	failedListFor = 10 * time.Second
	// duplicateRecheck is how soon a loser looks again, should nobody wake it.
	duplicateRecheck = 10 * time.Minute
	enabledValue     = "true"
)

// PipelineAPI is what the pipeline controller asks of Fleet Management. The list is asked for by the inventory.
type PipelineAPI interface {
	// Available returns the fault that each call would get now; nil when calls are made.
	Available() error
	// Bind returns what tells the present stack from others, and a context whose calls go to no other one.
	Bind(ctx context.Context) (bound context.Context, stack string)
	GetPipeline(ctx context.Context, id string) (fleetclient.Pipeline, error)
	PipelineID(ctx context.Context, name string) (string, error)
	CreatePipeline(ctx context.Context, p fleetclient.Pipeline) (fleetclient.Pipeline, error)
	UpdatePipeline(ctx context.Context, p fleetclient.Pipeline) (fleetclient.Pipeline, error)
	ValidatePipeline(ctx context.Context, p fleetclient.Pipeline) error
	DeletePipeline(ctx context.Context, id string) error
}

// PipelineConfig is what a PipelineSyncer is made of.
type PipelineConfig struct {
	Client client.Client
	// Reader reads from the API server, past the cache.
	Reader    client.Reader
	API       PipelineAPI
	Inventory *inventory.Inventory[fleetclient.Pipeline]
	Recorder  events.EventRecorder
	Clock     clock.WithTicker
	Metrics   *Metrics
	// Cluster is the ID of this cluster in stamps and names.
	Cluster string
	// NameScope is one of the name scopes; it holds for Pipelines that say nothing else.
	NameScope string
	// Tenancy says what may be done where; nil allows all.
	Tenancy *Tenancy
	// DriftPolicy holds for Pipelines that say nothing else.
	DriftPolicy fleetmanagementv1alpha1.DriftPolicy
	// DriftInterval is the time between two polls; zero for no poll.
	DriftInterval time.Duration
	// GCOrphans deletes pipelines whose object is gone.
	GCOrphans bool
	// ValidateBeforeApply has Fleet Management check contents, by a request of its own, before they are written.
	ValidateBeforeApply bool
}

// PipelineSyncer makes pipelines in Fleet Management what Pipelines ask for.
type PipelineSyncer struct {
	PipelineConfig
	queue ownQueue
	// recovered and listed hold one signal at most.
	recovered, listed chan struct{}

	mu sync.Mutex
	// refused holds what Fleet Management refused for good, by the UID of the Pipeline.
	refused map[types.UID]refusedWrite
}

// NewPipelineSyncer returns a PipelineSyncer.
func NewPipelineSyncer(config PipelineConfig) *PipelineSyncer {
	return &PipelineSyncer{PipelineConfig: config, recovered: make(chan struct{}, 1), listed: make(chan struct{}, 1), refused: map[types.UID]refusedWrite{}}
}

// NewPipelineInventory returns the inventory of pipelines that list returns. It is content with a list that a poll keeps young; an
// interval of zero means that there is no poll.
func NewPipelineInventory(list func(context.Context) ([]fleetclient.Pipeline, error), c clock.PassiveClock, interval time.Duration) *inventory.Inventory[fleetclient.Pipeline] {
	age := defaultPoll
	if interval > 0 {
		// A pass never lists what the next poll is about to list.
		age = 2 * interval
	}
	return &inventory.Inventory[fleetclient.Pipeline]{
		List: patient(list, c), Clock: c, MaxAge: age,
		ID:   func(p fleetclient.Pipeline) string { return p.ID },
		Name: func(p fleetclient.Pipeline) string { return p.Name },
		Owner: func(p fleetclient.Pipeline) string {
			owner, _ := pipelines.StampOf(p)
			return string(owner.UID)
		},
	}
}

// patient returns list, which after a failure repeats it for a while instead of asking again: each of a thousand Pipelines wants a
// list, and a server that is down or hangs is not helped by that. It is called by one goroutine at a time.
func patient(list func(context.Context) ([]fleetclient.Pipeline, error), c clock.PassiveClock) func(context.Context) ([]fleetclient.Pipeline, error) {
	var failed error
	var since time.Time
	return func(ctx context.Context) ([]fleetclient.Pipeline, error) {
		if failed != nil && c.Since(since) < failedListFor {
			return nil, failed
		}
		all, err := list(ctx)
		failed = nil
		// What has a time to wait for is held back by the client, and what this process gave up says nothing of the server.
		if err != nil && fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed).Kind == fault.Retry && ctx.Err() == nil && !errors.Is(err, fleetclient.ErrOtherStack) {
			failed, since = err, c.Now()
		}
		return all, err
	}
}

// Recovered says that credentials are taken again, or changed: what is known may be that of another stack and is forgotten when it
// returns, everything is listed anew, and what waits is looked at. It does not block.
func (s *PipelineSyncer) Recovered() {
	s.Inventory.Forget()
	signal(s.recovered)
}

// Settled implements lifecycle.Settler. Whether there is something to do depends on what Fleet Management holds, which is known
// without a call.
func (s *PipelineSyncer) Settled(*fleetmanagementv1alpha1.Pipeline) (time.Duration, bool) {
	return 0, false
}

// Gate implements lifecycle.Gater: a Pipeline that must not write, or cannot, leaves nothing behind and needs no finalizer.
func (s *PipelineSyncer) Gate(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	if !pipelines.IsMirror(p) {
		if err := pipelines.CheckHolds(p); err != nil {
			return &fault.Fault{Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonValidationError, Err: fmt.Errorf("nothing is sent, since %w", err)}
		}
		if err := s.Tenancy.checkMatchers(ctx, p.Namespace, p.Spec.Matchers); err != nil {
			return err
		}
		if err := s.refuseDuplicate(ctx, p); err != nil {
			return err
		}
	}
	if controllerutil.ContainsFinalizer(p, fleetmanagementv1alpha1.PipelineFinalizer) {
		return nil
	}
	return s.API.Available()
}

// refuseDuplicate returns a fault when an older Pipeline asks for the same name.
func (s *PipelineSyncer) refuseDuplicate(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	name := s.name(p)
	all, err := s.indexed(ctx, indexPipelineName, name)
	if err != nil {
		return err
	}
	for i := range all {
		if other := &all[i]; other.UID != p.UID && !pipelines.IsMirror(other) && goesFirst(other, p) {
			return &fault.Fault{
				Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonDuplicateName, After: duplicateRecheck,
				Err: fmt.Errorf("the older Pipeline %s/%s asks for the name %q too: %s", other.Namespace, other.Name, name, duplicateRemedy(p)),
			}
		}
	}
	return nil
}

// duplicateRemedy says what to do about a Pipeline whose name another one has. A copy of a pipeline that is managed already was made by a
// discovery, and keeps the name that it has there.
func duplicateRemedy(p *fleetmanagementv1alpha1.Pipeline) string {
	if p.Annotations[fleetmanagementv1alpha1.AnnotationPipelineID] == "" {
		return "choose another spec.name"
	}
	return "that one manages the pipeline, so set the annotation " + fleetmanagementv1alpha1.AnnotationImportMode + " of this one to " +
		fleetmanagementv1alpha1.ImportModeReadOnly + ", or delete one of the two"
}

// goesFirst reports which of two Pipelines has a name that both want: the older one. Of two that were created within the same second it is the one that stands for a
// pipeline already.
func goesFirst(a, b *fleetmanagementv1alpha1.Pipeline) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) && (a.Status.ID == "") != (b.Status.ID == "") {
		return a.Status.ID != ""
	}
	return older(a, b)
}

// Sync implements lifecycle.Syncer.
func (s *PipelineSyncer) Sync(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) (lifecycle.Outcome, error) {
	outcome, err := s.sync(s.enter(ctx, p), p)
	if errors.Is(err, fleetclient.ErrOtherStack) {
		return lifecycle.Outcome{}, lifecycle.ErrPending // what changed the stack wakes everybody
	}
	return outcome, err
}

// enter keeps a pass to the present stack. What the status says of another one means nothing there: an ID is that of a stranger.
func (s *PipelineSyncer) enter(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) context.Context {
	ctx, stack := s.API.Bind(ctx)
	if stack == "" {
		return ctx
	}
	if p.Status.Stack != "" && p.Status.Stack != stack {
		p.Status = fleetmanagementv1alpha1.PipelineStatus{ObservedGeneration: p.Status.ObservedGeneration, Conditions: p.Status.Conditions}
		lifecycle.RemoveCondition(p, fleetmanagementv1alpha1.ConditionDrifted)
		lifecycle.RemoveCondition(p, fleetmanagementv1alpha1.ConditionValidated)
	}
	p.Status.Stack = stack
	return ctx
}

func (s *PipelineSyncer) sync(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) (lifecycle.Outcome, error) {
	if pipelines.IsMirror(p) {
		return s.mirror(ctx, p)
	}
	pass := &pipelinePass{PipelineSyncer: s, p: p}
	pass.notePaused()
	if p.Annotations[fleetmanagementv1alpha1.AnnotationDryRun] == enabledValue {
		return pass.dryRun(ctx)
	}
	lifecycle.RemoveCondition(p, fleetmanagementv1alpha1.ConditionValidated)
	if p.Spec.Paused {
		return pass.held(fleetmanagementv1alpha1.ReasonPaused, "spec.paused holds back what the spec asks for."), nil
	}
	if err := s.Inventory.Ensure(ctx); err != nil {
		return lifecycle.Outcome{}, err
	}
	if err := s.recognise(ctx, p); err != nil {
		return lifecycle.Outcome{}, err
	}
	return pass.run(ctx)
}

// pipelinePass is one pass over a Pipeline that is no mirror.
type pipelinePass struct {
	*PipelineSyncer
	p *fleetmanagementv1alpha1.Pipeline
	// passed is the hash of what Fleet Management said in this pass that it would take.
	passed string
	// then is what to say once the status is stored.
	then []func()
}

func (s *pipelinePass) say(kind, reason, message string) {
	s.then = append(s.then, func() { lifecycle.Announce(s.Recorder, s.p, kind, reason, message) })
}

// conclude returns an outcome that says what the pass did. Where the pass has an event of its own, the verdict needs none.
func (s *pipelinePass) conclude(o lifecycle.Outcome) lifecycle.Outcome {
	then := s.then
	o.Silent = o.Silent || len(then) > 0
	o.Then = func() {
		for _, say := range then {
			say()
		}
	}
	return o
}

func (s *pipelinePass) notePaused() {
	if !s.p.Spec.Paused {
		if meta.IsStatusConditionTrue(s.p.Status.Conditions, fleetmanagementv1alpha1.ConditionPaused) {
			s.say(corev1.EventTypeNormal, fleetmanagementv1alpha1.EventResumed, "The Pipeline is no longer paused.")
		}
		lifecycle.RemoveCondition(s.p, fleetmanagementv1alpha1.ConditionPaused)
		return
	}
	const message = "The Pipeline is paused: nothing is created or changed until spec.paused is false. A deletion goes on."
	if lifecycle.SetCondition(s.p, s.Clock.Now(), metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: fleetmanagementv1alpha1.ReasonPaused, Message: message,
	}) {
		s.say(corev1.EventTypeNormal, fleetmanagementv1alpha1.ReasonPaused, message)
	}
}

// dryRun has Fleet Management check what the spec asks for, once a generation.
func (s *pipelinePass) dryRun(ctx context.Context) (lifecycle.Outcome, error) {
	last := meta.FindStatusCondition(s.p.Status.Conditions, fleetmanagementv1alpha1.ConditionValidated)
	if last == nil || last.ObservedGeneration != s.p.Generation {
		verdict := metav1.Condition{
			Type: fleetmanagementv1alpha1.ConditionValidated, Status: metav1.ConditionTrue, Reason: fleetmanagementv1alpha1.ReasonValid,
			Message: "Fleet Management would take the pipeline.",
		}
		if err := s.API.ValidatePipeline(ctx, s.want()); err != nil {
			f := fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed)
			if f.Kind != fault.Terminal {
				return lifecycle.Outcome{}, err
			}
			verdict.Status, verdict.Reason, verdict.Message = metav1.ConditionFalse, f.Reason, err.Error()
		}
		lifecycle.SetCondition(s.p, s.Clock.Now(), verdict)
	}
	return s.held(fleetmanagementv1alpha1.ReasonDryRun, "The annotation "+fleetmanagementv1alpha1.AnnotationDryRun+" holds back what the spec asks for."), nil
}

// held concludes a pass that neither writes nor looks: what was applied before is still so, unless it was already known to differ.
func (s *pipelinePass) held(reason, message string) lifecycle.Outcome {
	if s.p.Status.ID != "" && s.p.Status.SyncedHash == pipelines.Hash(s.want()) {
		drifted := meta.FindStatusCondition(s.p.Status.Conditions, fleetmanagementv1alpha1.ConditionDrifted)
		switch {
		case drifted == nil:
			return s.conclude(lifecycle.Outcome{
				Reason: fleetmanagementv1alpha1.ReasonSynced, Message: "Pipeline " + s.p.Status.ID + " was synced before. " + message, Silent: true,
			})
		case drifted.Reason == fleetmanagementv1alpha1.ReasonRemoteModified:
			return s.conclude(lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonSynced, Message: driftedMessage(s.p.Status.ID), Silent: true})
		}
	}
	// What is paused has an event of its own.
	silent := reason == fleetmanagementv1alpha1.ReasonPaused
	return s.conclude(lifecycle.Outcome{Reason: reason, Message: message, Status: metav1.ConditionFalse, Silent: silent})
}

func (s *pipelinePass) want() fleetclient.Pipeline { return pipelines.Desired(s.p, s.name(s.p)) }

func standsMessage(id string) string {
	return "Pipeline " + id + " stands in Fleet Management as the spec asks for."
}

func driftedMessage(id string) string {
	return "Pipeline " + id + " was synced and somebody else changed it since: see Drifted."
}

func (s *PipelineSyncer) name(p *fleetmanagementv1alpha1.Pipeline) string {
	return pipelines.EffectiveName(p, s.NameScope, s.Cluster)
}

func (s *PipelineSyncer) owner(p *fleetmanagementv1alpha1.Pipeline) pipelines.Owner {
	return pipelines.Owner{Cluster: s.Cluster, Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
