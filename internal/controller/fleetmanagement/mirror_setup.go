// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// mirrorSetup is what differs between the controllers of the two kinds of discoveries.
type mirrorSetup[D lifecycle.Object] struct {
	name string
	// object and list are empty ones of the kind.
	object D
	list   client.ObjectList
	// target is the namespace in which a discovery makes objects, and succeeded when it last went well.
	target    func(D) string
	succeeded func(D) *metav1.Time
}

func setupMirror[D lifecycle.Object, T any](mgr manager.Manager, options controller.Options, l *mirrorLoop[D, T], s mirrorSetup[D], wakes []Wake) error {
	b := builderFor(mgr, options, s.name, s.object, wakes, annotationsDiffer(fleetmanagementv1alpha1.AnnotationApproveRemoval)).
		Watches(s.object, handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ requests) { l.forget(e.Object) }}).
		WatchesRawSource(l.queue.source()).
		WatchesRawSource(source.Channel(l.recovered, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			return lifecycle.Requests(ctx, l.Client, s.list.DeepCopyObject().(client.ObjectList))
		})))
	b = l.Tenancy.watch(b, func(ctx context.Context, namespace string) []reconcile.Request {
		return s.boundBy(ctx, l.Client, namespace)
	})
	return complete(b, reconcilerFor(mgr, l.Clock, l, l.kind.words().kind, "", l.Metrics, s.succeeded), s.name)
}

// CountPipelineDiscoveries has scrapes count PipelineDiscoveries, once this replica leads.
func (m *Metrics) CountPipelineDiscoveries(mgr manager.Manager) {
	m.scrape.count(tally{kind: "PipelineDiscovery", list: &fleetmanagementv1alpha1.PipelineDiscoveryList{}, reader: mgr.GetCache(), leads: mgr.Elected()})
}

// CountCollectorDiscoveries has scrapes count CollectorDiscoveries, once this replica leads.
func (m *Metrics) CountCollectorDiscoveries(mgr manager.Manager) {
	m.scrape.count(tally{kind: "CollectorDiscovery", list: &fleetmanagementv1alpha1.CollectorDiscoveryList{}, reader: mgr.GetCache(), leads: mgr.Elected()})
}

// boundBy returns the discoveries that are in a namespace, or make objects there.
func (s mirrorSetup[D]) boundBy(ctx context.Context, reader client.Reader, namespace string) []reconcile.Request {
	list := s.list.DeepCopyObject().(client.ObjectList)
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the discoveries that a namespace concerns")
		return nil
	}
	var all []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if d := o.(D); s.target(d) == namespace || d.GetNamespace() == namespace {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(d)})
		}
		return nil
	})
	return all
}

// mirroredOf reads what labels and annotations tell of an object.
func mirroredOf(o client.Object, marks mirrorMarks) mirrored {
	annotations := o.GetAnnotations()
	return mirrored{ref: o, Object: mirror.Object{
		Name: o.GetName(), Owner: madeBy(o, marks), ID: annotations[marks.id],
		Stale: annotations[marks.stale] == enabledValue, Leaving: !o.GetDeletionTimestamp().IsZero(),
	}}
}

// madeBy returns the discovery that made an object; zero for none. The existing operator has made objects without the label of the
// namespace, and a label may hold less than a name: the annotation tells all of it.
func madeBy(o client.Object, marks mirrorMarks) mirror.Key {
	name, namespace := o.GetLabels()[marks.labelName], o.GetLabels()[marks.labelNamespace]
	if name == "" {
		return mirror.Key{}
	}
	byNamespace, byName, told := strings.Cut(o.GetAnnotations()[marks.discoveredBy], "/")
	if told && mirror.LabelValue(byName) == name && (namespace == "" || namespace == byNamespace) {
		return mirror.Key{Namespace: byNamespace, Name: byName}
	}
	return mirror.Key{Namespace: namespace, Name: name}
}

// number is a count as a status holds it.
func number(n int) int32 { return int32(n) } //nolint:gosec // what a stack or a namespace holds does not reach 2^31
