// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/crdgate"
	"github.com/candor-dev/candor/internal/signals"
)

type identityQueue = workqueue.TypedRateLimitingInterface[signals.Identity]

// SetupWithManager registers the controller. Reports are no source of its own: each gate feeds them in while their kind
// exists. wake takes identities from outside, whose timers run on a clock of their own.
func (r *ReportReconciler) SetupWithManager(mgr manager.Manager, options controller.TypedOptions[signals.Identity], wake <-chan event.TypedGenericEvent[signals.Identity]) error {
	r.started = make(chan struct{})
	r.missing, r.retries = map[signals.Identity]time.Time{}, map[signals.Identity]int{}
	ready := source.TypedFunc[signals.Identity](func(_ context.Context, queue identityQueue) error {
		r.queue = queue
		close(r.started)
		return nil
	})
	options.LogConstructor = func(id *signals.Identity) logr.Logger {
		log := mgr.GetLogger().WithValues("controller", "report")
		if id == nil {
			return log
		}
		return log.WithValues("identity", id.String())
	}
	b := builder.TypedControllerManagedBy[signals.Identity](mgr).Named("report").WithOptions(options).
		WatchesRawSource(ready).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &candorv1alpha1.Finding{}, onEach(r.ofFinding), predicate.TypedFuncs[*candorv1alpha1.Finding]{
			UpdateFunc: func(e event.TypedUpdateEvent[*candorv1alpha1.Finding]) bool {
				return e.ObjectOld.Generation != e.ObjectNew.Generation ||
					e.ObjectOld.Labels[candorv1alpha1.LabelOutcome] != e.ObjectNew.Labels[candorv1alpha1.LabelOutcome]
			},
		})).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &candorv1alpha1.SignalPolicy{}, onEach(r.ofPolicy), predicate.TypedFuncs[*candorv1alpha1.SignalPolicy]{
			UpdateFunc: func(e event.TypedUpdateEvent[*candorv1alpha1.SignalPolicy]) bool {
				return e.ObjectOld.Generation != e.ObjectNew.Generation
			},
		}))
	b = r.watchMutes(mgr, b)
	for _, kind := range slices.Sorted(maps.Keys(intermediates)) {
		b = b.WatchesRawSource(source.TypedKind(mgr.GetCache(), intermediate(kind), onEach(r.ofIntermediate(kind)), predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
			UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
				return ownershipChanged(e.ObjectOld, e.ObjectNew)
			},
		}))
	}
	if wake != nil {
		b = b.WatchesRawSource(source.TypedChannel(wake, handler.TypedFuncs[signals.Identity, signals.Identity]{
			GenericFunc: func(_ context.Context, e event.TypedGenericEvent[signals.Identity], queue identityQueue) {
				queue.Add(e.Object)
			},
		}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the report controller: %w", err)
	}
	return nil
}

// Feed watches the reports of a class in a cache of their own, until ctx ends.
func (r *ReportReconciler) Feed(ctx context.Context, class signals.Class, c cache.Cache) error {
	report := &unstructured.Unstructured{}
	report.SetGroupVersionKind(class.Kind)
	err := c.IndexField(ctx, report, indexResource, func(o client.Object) []string {
		return resourceKeys(class, o.(*unstructured.Unstructured))
	})
	if err != nil {
		return fmt.Errorf("indexing %s: %w", class.Kind.Kind, err)
	}
	queue, err := r.startedQueue(ctx)
	if err != nil {
		return err
	}
	if err := source.TypedKind(c, report, r.handler(class)).Start(ctx, queue); err != nil {
		return fmt.Errorf("watching %s: %w", class.Kind.Kind, err)
	}
	return nil
}

// handler has looked at what reports spoke of and speak of. Pods that are to be asked for again are forgotten before that, or the
// look could be over by then.
func (r *ReportReconciler) handler(class signals.Class) handler.TypedFuncs[*unstructured.Unstructured, signals.Identity] {
	turn := func(before, after []signals.Subject) {
		if class.AddsUp {
			r.pods.turn(before, after)
		}
	}
	arrived := func(ctx context.Context, before []signals.Subject, report *unstructured.Unstructured, q identityQueue) {
		after := r.read(ctx, class, report)
		turn(before, after)
		r.enqueue(ctx, class, after, q)
	}
	return handler.TypedFuncs[*unstructured.Unstructured, signals.Identity]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*unstructured.Unstructured], q identityQueue) {
			arrived(ctx, nil, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*unstructured.Unstructured], q identityQueue) {
			arrived(ctx, r.left(ctx, class, e.ObjectOld, q), e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*unstructured.Unstructured], q identityQueue) {
			turn(r.left(ctx, class, e.Object, q), nil)
		},
	}
}

// ProviderChanged looks again at every Finding and every report of a provider whose reports can now be told to be there or
// not: reports arrive while they are still being read for the first time, and until then they speak for nobody.
func (r *ReportReconciler) ProviderChanged(ctx context.Context, provider string, state crdgate.State) {
	if state.Phase != crdgate.Serving && state.Phase != crdgate.Absent {
		return
	}
	if state.Phase == crdgate.Absent {
		r.forgetAll(provider)
	}
	queue, err := r.startedQueue(ctx)
	if err != nil {
		return
	}
	class, _ := r.Providers.Classes.ByProvider(provider)
	for _, id := range r.identitiesOf(ctx, signals.Classes{class}, &client.ListOptions{}, &client.ListOptions{}) {
		if id.Provider == provider {
			queue.Add(id)
		}
	}
}

// startedQueue waits until the controller has a queue.
func (r *ReportReconciler) startedQueue(ctx context.Context) (identityQueue, error) {
	select {
	case <-r.started:
		return r.queue, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the report controller: %w", ctx.Err())
	}
}

// read counts a report that cannot be used, or something in it, and returns what it speaks of all the same: what it said before no
// longer holds.
func (r *ReportReconciler) read(ctx context.Context, class signals.Class, report *unstructured.Unstructured) []signals.Subject {
	subjects, err := class.Subjects(report)
	var drop *signals.Drop
	if errors.As(err, &drop) {
		r.Metrics.dropped(class.Provider, drop.Reason)
		log := logf.FromContext(ctx).WithValues("kind", class.Kind.Kind, "report", client.ObjectKeyFromObject(report).String())
		if drop.Reason == signals.DropScanJob || drop.Reason == signals.DropOwnReport {
			log = log.V(1)
		}
		log.Info("A report cannot be used, or not all of it", "reason", drop.Reason, "detail", drop.Detail)
	}
	return subjects
}

func (r *ReportReconciler) left(ctx context.Context, class signals.Class, report *unstructured.Unstructured, q identityQueue) []signals.Subject {
	subjects, _ := class.Subjects(report)
	r.enqueue(ctx, class, subjects, q)
	return subjects
}

func (r *ReportReconciler) enqueue(ctx context.Context, class signals.Class, subjects []signals.Subject, q identityQueue) {
	for _, subject := range subjects {
		id, _, err := r.owners().top(ctx, class, subject)
		if err != nil {
			logf.FromContext(ctx).Error(err, "Cannot look for the owner of a report")
		}
		q.Add(id)
	}
}

// onEach enqueues what a function finds for each object that came, changed or went.
func onEach[T client.Object](find func(context.Context, T) []signals.Identity) handler.TypedEventHandler[T, signals.Identity] {
	return handler.TypedEnqueueRequestsFromMapFunc(find)
}

// ofFinding returns the identity of a Finding, unless another Finding has that name.
func (r *ReportReconciler) ofFinding(_ context.Context, f *candorv1alpha1.Finding) []signals.Identity {
	id := signals.IdentityOf(f)
	if _, ours := r.Providers.Classes.ByProvider(id.Provider); !ours && id.Provider != signals.Posted || id.FindingName() != f.Name {
		return nil
	}
	return []signals.Identity{id}
}

// ofPolicy returns every identity of a policy's namespace: a changed policy may ask for more or for less.
func (r *ReportReconciler) ofPolicy(ctx context.Context, p *candorv1alpha1.SignalPolicy) []signals.Identity {
	ids := r.identitiesOf(ctx, r.Providers.Classes, client.InNamespace(p.Namespace), client.InNamespace(p.Namespace))
	return ids
}

// ofIntermediate returns the identities that a ReplicaSet or a Job has to do with: what its own reports say may now be
// said of its controller.
func (r *ReportReconciler) ofIntermediate(kind string) func(context.Context, *metav1.PartialObjectMetadata) []signals.Identity {
	return func(ctx context.Context, object *metav1.PartialObjectMetadata) []signals.Identity {
		workload := objectKey(kind, object.Name)
		if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
			workload = objectKey(owner.Kind, owner.Name)
		}
		ids := r.identitiesOf(ctx, r.Providers.Classes,
			listOptions{client.InNamespace(object.Namespace), client.MatchingFields{indexResource: objectKey(kind, object.Name)}},
			listOptions{client.InNamespace(object.Namespace), client.MatchingFields{indexWorkload: workload}})
		return append(ids, r.podsUnder(kind, object)...)
	}
}

// podsUnder returns the pods of a ReplicaSet or a Job that reports speak of in place of their workload.
func (r *ReportReconciler) podsUnder(kind string, object *metav1.PartialObjectMetadata) []signals.Identity {
	var ids []signals.Identity
	for _, pod := range r.pods.under(object.Namespace, kind, object.Name) {
		for _, class := range r.Providers.Classes {
			if class.AddsUp {
				ids = append(ids, signals.Identity{Provider: class.Provider, Namespace: object.Namespace, Kind: podKind, Name: pod})
			}
		}
	}
	return ids
}

type listOptions []client.ListOption

// ApplyToList implements client.ListOption.
func (o listOptions) ApplyToList(to *client.ListOptions) {
	for _, option := range o {
		option.ApplyToList(to)
	}
}

// identitiesOf returns the identities of the chosen reports of some classes, and of the chosen Findings, each once.
func (r *ReportReconciler) identitiesOf(ctx context.Context, classes signals.Classes, ofReports, ofFindings client.ListOption) []signals.Identity {
	ids := map[signals.Identity]struct{}{}
	for _, class := range classes {
		reader, serving := r.Providers.Reader(class.Provider)
		if !serving {
			continue
		}
		list := listOf(class)
		if err := reader.List(ctx, list, ofReports, client.UnsafeDisableDeepCopy); err != nil {
			logf.FromContext(ctx).Error(err, "Cannot list reports", "kind", class.Kind.Kind)
		}
		for i := range list.Items {
			subjects, _ := class.Subjects(&list.Items[i])
			for _, subject := range subjects {
				if id, _, err := r.owners().top(ctx, class, subject); err == nil {
					ids[id] = struct{}{}
				}
			}
		}
	}
	var findings candorv1alpha1.FindingList
	if err := r.Client.List(ctx, &findings, ofFindings, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list Findings")
	}
	for i := range findings.Items {
		for _, id := range r.ofFinding(ctx, &findings.Items[i]) {
			ids[id] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(ids))
}

// ownershipChanged tells the few changes of a ReplicaSet or Job that matter here from its many status writes.
func ownershipChanged(before, after *metav1.PartialObjectMetadata) bool {
	return revisionNumber(before) != revisionNumber(after) ||
		!equality.Semantic.DeepEqual(metav1.GetControllerOfNoCopy(before), metav1.GetControllerOfNoCopy(after))
}
