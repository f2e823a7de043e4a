// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/fleet/tenant"
	"github.com/candor-dev/candor/internal/fleet/validation"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	// defaultDiscoveryPoll is how old a list may be for a discovery that does not say.
	defaultDiscoveryPoll = 5 * time.Minute
	// maxLookups is how many things one pass looks up by their ID, each by a request of its own.
	maxLookups = 50
	// goneFor is how long the next passes go by a lookup that found nothing.
	goneFor = time.Minute
)

// MirrorConfig is what the discoveries of both kinds are made of.
type MirrorConfig struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Metrics  *Metrics
	// Found takes what discoveries find and do.
	Found *mirror.Metrics
	// Tenancy bounds what a discovery makes, by its own namespace and by the target; nil bounds nothing.
	Tenancy *Tenancy
}

// discovered is what differs between the two kinds of discoveries. D is the discovery, and T is what Fleet Management holds.
type discovered[D lifecycle.Object, T any] interface {
	words() mirrorWords
	// available returns the fault that each call would get now, and bind keeps the calls of a context to the present stack.
	available() error
	bind(ctx context.Context) context.Context
	// read reads the spec.
	read(d D) (mirrorSpec[T], error)
	// list makes sure that a list is younger than age. It may return lifecycle.ErrPending, and calls again when there is one.
	list(ctx context.Context, d D, age time.Duration) error
	// listed is when that list came. all visits everything that was listed, and get finds one thing.
	listed() time.Time
	all(visit func(T) bool)
	get(id string) (T, bool)
	// lookUp asks Fleet Management for one thing, and stores it with what was listed. A thing that is gone is a NotFound fault.
	lookUp(ctx context.Context, id string) error
	// thing says what a plan has to know of a thing, but for its scope. allows reports whether the rules of a namespace let it be there.
	thing(t T) mirror.Thing
	allows(rules tenant.Rules, t T) bool
	// objects returns all objects of a namespace. They are the cache's own: nothing of them may be changed.
	objects(ctx context.Context, namespace string) ([]mirrored, error)
	// build makes an object of a thing, but for namespace, name and what says whose it is and what it stands for; empty makes one of nothing.
	build(d D, t T) client.Object
	empty() client.Object
	// shown reads findings out of the status, and show writes them.
	shown(d D) findings
	show(d D, f findings)
}

// mirrorSpec is the spec of a discovery as the loop follows it.
type mirrorSpec[T any] struct {
	namespace string
	// poll is how old a list may be.
	poll    time.Duration
	inScope func(T) bool
	removal fleetmanagementv1alpha1.RemovalPolicy
	// fresh is how old a list may be that objects are made of; zero for poll.
	fresh time.Duration
}

// mirrored is an object, and what a plan has to know of it.
type mirrored struct {
	mirror.Object
	ref client.Object
}

// mirrorMarks are the labels and annotations that say whose an object is and what it stands for.
type mirrorMarks struct{ labelName, labelNamespace, discoveredBy, id, stale string }

// mirrorWords are the names of a kind.
type mirrorWords struct {
	marks mirrorMarks
	// kind is that of the discovery, object that of what it makes, and thing what Fleet Management holds.
	kind, object, thing string
	// base is what a name begins with of which nothing can be kept.
	base string
	// listFailed and truncated are reasons of conditions, and the others those of events.
	listFailed, truncated               string
	created, deleted, rebound, inTheWay string
}

// mirrorLoop takes discoveries of one kind through their passes: list, plan, confirm, apply. Both kinds share it.
type mirrorLoop[D lifecycle.Object, T any] struct {
	MirrorConfig
	kind  discovered[D, T]
	queue ownQueue
	// recovered has all discoveries looked at. It holds one event at most.
	recovered chan event.GenericEvent

	mu sync.Mutex
	// remembered is what passes know of those before them, by the UID of the discovery.
	remembered map[types.UID]*mirrorMemory
}

// mirrorMemory is what a pass hands to the next one. A restart forgets it, which costs a few requests at most: a person is asked again
// who agreed to a removal that is not done.
type mirrorMemory struct {
	// word is what a person agreed to, and approved are the IDs that this let through.
	word     string
	approved map[string]bool
	// refused are things of which the API server takes no object, by their ID.
	refused map[string]refusedObject
	// gone are the IDs that lookups did not find since they began at goneFrom, for the list of goneList.
	gone               map[string]bool
	goneFrom, goneList time.Time
}

type refusedObject struct {
	until time.Time
	err   error
}

func newMirrorLoop[D lifecycle.Object, T any](config MirrorConfig, kind discovered[D, T]) *mirrorLoop[D, T] {
	return &mirrorLoop[D, T]{MirrorConfig: config, kind: kind, recovered: make(chan event.GenericEvent, 1), remembered: map[types.UID]*mirrorMemory{}}
}

// Recovered says that credentials are taken again, or changed: all discoveries are looked at. It does not block.
func (l *mirrorLoop[D, T]) Recovered() {
	select {
	case l.recovered <- event.GenericEvent{Object: l.kind.empty()}:
	default: // one event stands already
	}
}

// Settled implements lifecycle.Settler: what there is to do depends on what Fleet Management holds.
func (l *mirrorLoop[D, T]) Settled(D) (time.Duration, bool) { return 0, false }

// Gate implements lifecycle.Gater.
func (l *mirrorLoop[D, T]) Gate(_ context.Context, d D) error {
	l.tally(d)
	if _, err := l.kind.read(d); err != nil {
		return &fault.Fault{Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonInvalidConfig, Err: err}
	}
	return l.kind.available()
}

// Sync implements lifecycle.Syncer.
func (l *mirrorLoop[D, T]) Sync(ctx context.Context, d D) (lifecycle.Outcome, error) {
	p := &mirrorPass[D, T]{mirrorLoop: l, d: d, memory: l.remember(d)}
	outcome, err := p.run(l.kind.bind(ctx))
	l.tally(d)
	if errors.Is(err, fleetclient.ErrOtherStack) {
		return lifecycle.Outcome{}, lifecycle.ErrPending // what changed the stack wakes everybody
	}
	return outcome, err
}

// mirrorPass is one pass over a discovery.
type mirrorPass[D lifecycle.Object, T any] struct {
	*mirrorLoop[D, T]
	d    D
	spec mirrorSpec[T]
	// rules are those of the discovery's own namespace and of the target.
	rules  []tenant.Rules
	memory *mirrorMemory
	// refs are the objects of the target namespace by their name.
	refs map[string]client.Object
}

func (p *mirrorPass[D, T]) run(ctx context.Context) (lifecycle.Outcome, error) {
	var err error
	if p.spec, err = p.kind.read(p.d); err != nil {
		return lifecycle.Outcome{}, err
	}
	if err := p.list(ctx, p.spec.poll); err != nil {
		return lifecycle.Outcome{}, err
	}
	p.memory.outdate(p.kind.listed(), p.Clock.Now())
	if err := p.bind(ctx); err != nil {
		return lifecycle.Outcome{}, err
	}
	plan, err := p.plan(ctx)
	if err == nil && p.spec.fresh > 0 && p.creates(plan) {
		if err := p.list(ctx, p.spec.fresh); err != nil {
			return lifecycle.Outcome{}, err
		}
		plan, err = p.plan(ctx)
	}
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	more, unanswered := p.confirm(ctx, plan.Confirm)
	if len(plan.Confirm) > 0 {
		if plan, err = p.plan(ctx); err != nil {
			return lifecycle.Outcome{}, err
		}
	}
	done := p.apply(ctx, plan)
	done.more = done.more || more
	if done.err == nil {
		done.err = unanswered
	}
	return p.conclude(plan, done)
}

// bind reads the rules of both namespaces: who is bound in his own must not have another one filled.
func (p *mirrorPass[D, T]) bind(ctx context.Context) error {
	for _, namespace := range slices.Compact([]string{p.d.GetNamespace(), p.spec.namespace}) {
		rules, err := p.Tenancy.Rules(ctx, namespace)
		switch {
		case apierrors.IsNotFound(err) && namespace == p.spec.namespace:
			return p.noNamespace()
		case err != nil:
			return err
		}
		p.rules = append(p.rules, rules)
	}
	return nil
}

// allows reports whether the rules let an object of a thing be made.
func (p *mirrorPass[D, T]) allows(t T) bool {
	return !slices.ContainsFunc(p.rules, func(rules tenant.Rules) bool { return !p.kind.allows(rules, t) })
}

// list makes sure that a list is younger than age. What keeps others from listing, too, keeps its reason.
func (p *mirrorPass[D, T]) list(ctx context.Context, age time.Duration) error {
	err := p.kind.list(ctx, p.d, age)
	var f *fault.Fault
	if err == nil || errors.Is(err, lifecycle.ErrPending) || errors.Is(err, fleetclient.ErrOtherStack) {
		return err
	}
	if errors.As(err, &f) && f.Reason != fleetmanagementv1alpha1.ReasonSyncFailed {
		return err
	}
	failed := *fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed)
	words := p.kind.words()
	failed.Reason, failed.Err = words.listFailed, fmt.Errorf("listing the %ss of Fleet Management: %w", words.thing, err)
	return &failed
}

// plan reads what there is and plans.
func (p *mirrorPass[D, T]) plan(ctx context.Context) (mirror.Plan, error) {
	words := p.kind.words()
	all, err := p.kind.objects(ctx, p.spec.namespace)
	if err != nil {
		return mirror.Plan{}, &fault.Fault{
			Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonUpsertFailed, Err: fmt.Errorf("listing the %ss of %s: %w", words.object, p.spec.namespace, err),
		}
	}
	in := mirror.Input{
		Self: mirror.Key{Namespace: p.d.GetNamespace(), Name: p.d.GetName()}, Delete: p.spec.removal == fleetmanagementv1alpha1.RemovalDelete,
		Empty: words.base, Gone: p.memory.gone, Approval: p.d.GetAnnotations()[fleetmanagementv1alpha1.AnnotationApproveRemoval], Approved: p.memory.approved,
		Objects: make([]mirror.Object, 0, len(all)),
	}
	p.refs = make(map[string]client.Object, len(all))
	for _, o := range all {
		in.Objects = append(in.Objects, o.Object)
		p.refs[o.Name] = o.ref
	}
	p.kind.all(func(t T) bool {
		thing := p.kind.thing(t)
		thing.InScope = p.spec.inScope(t) && p.allows(t)
		in.Things = append(in.Things, thing)
		return true
	})
	plan := mirror.Make(in)
	p.memory.word, p.memory.approved = in.Approval, plan.Approved
	return plan, nil
}

// confirm looks up whether things exist that no list showed. It reports whether some are left for the next pass, and why it ended
// early: what was not answered is not gone.
func (p *mirrorPass[D, T]) confirm(ctx context.Context, ids []string) (more bool, err error) {
	for i, id := range ids {
		if i == maxLookups {
			return true, nil
		}
		err := p.kind.lookUp(ctx, id)
		f := (*fault.Fault)(nil)
		switch {
		case err == nil:
		case errors.As(err, &f) && f.Kind == fault.NotFound:
			p.memory.gone[id] = true
		default:
			return false, p.unanswered(id, err)
		}
	}
	return false, nil
}

// unanswered is a lookup that failed.
func (p *mirrorPass[D, T]) unanswered(id string, err error) error {
	f := *fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed)
	if f.Reason == fleetmanagementv1alpha1.ReasonSyncFailed {
		f.Reason = fleetmanagementv1alpha1.ReasonStaleProcessingFailed
	}
	f.Err = fmt.Errorf("looking up whether %s %q is gone, of which no list tells: %w", p.kind.words().thing, id, err)
	return &f
}

// remember returns the memory of a discovery. What was let through holds for as long as the person's word stands.
func (l *mirrorLoop[D, T]) remember(d D) *mirrorMemory {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.remembered[d.GetUID()]
	if m == nil {
		m = &mirrorMemory{refused: map[string]refusedObject{}}
		l.remembered[d.GetUID()] = m
	}
	if m.word != d.GetAnnotations()[fleetmanagementv1alpha1.AnnotationApproveRemoval] {
		m.approved = nil
	}
	return m
}

// outdate forgets what lookups did not find before the present list, or too long ago.
func (m *mirrorMemory) outdate(listed, now time.Time) {
	if m.gone == nil || !m.goneList.Equal(listed) || now.Sub(m.goneFrom) >= goneFor {
		m.gone, m.goneFrom, m.goneList = map[string]bool{}, now, listed
	}
}

// forget drops what is known of a discovery that is gone.
func (l *mirrorLoop[D, T]) forget(d client.Object) {
	l.Found.Forget(l.kind.words().kind, mirror.Key{Namespace: d.GetNamespace(), Name: d.GetName()})
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.remembered, d.GetUID())
}

// tally counts what the status of a discovery tells.
func (l *mirrorLoop[D, T]) tally(d D) {
	f := l.kind.shown(d)
	l.Found.Found(l.kind.words().kind, mirror.Key{Namespace: d.GetNamespace(), Name: d.GetName()}, mirror.Tally{
		Managed: f.managed, Stale: f.staleTotal, OutOfScope: f.outOfScope, Conflicts: f.conflictsTotal,
	})
}

// readPoll reads spec.pollInterval.
func readPoll(text string) (time.Duration, error) {
	if text == "" {
		return defaultDiscoveryPoll, nil
	}
	poll, err := time.ParseDuration(text)
	if err != nil || poll < validation.MinPollInterval {
		return 0, fmt.Errorf("spec.pollInterval is %q: set it to a duration of at least %s, such as 5m", text, validation.MinPollInterval)
	}
	return poll, nil
}
