// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates objects.
func (c *Cluster) Create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		Expect(c.Client.Create(ctx, o)).To(Succeed())
	}
}

// CreateNamespace creates a namespace. Nothing here finishes its deletion, so DeleteAll empties it when the spec ends.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// DeleteAll deletes all objects of these kinds in a namespace, finalizers or not; the empty one stands for the whole cluster. Of a
// kind that is not installed there are none.
func (c *Cluster) DeleteAll(ctx context.Context, namespace string, kinds ...schema.GroupVersionKind) {
	GinkgoHelper()
	in := client.InNamespace(namespace)
	for _, kind := range kinds {
		list, one := &metav1.PartialObjectMetadataList{}, &metav1.PartialObjectMetadata{}
		list.SetGroupVersionKind(kind)
		one.SetGroupVersionKind(kind)
		err := c.Client.List(ctx, list, in)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			c.release(ctx, kind, &list.Items[i])
		}
		Expect(c.Client.DeleteAllOf(ctx, one, in)).To(Succeed())
	}
}

// release takes the finalizers off an object.
func (c *Cluster) release(ctx context.Context, kind schema.GroupVersionKind, o *metav1.PartialObjectMetadata) {
	GinkgoHelper()
	if len(o.Finalizers) == 0 {
		return
	}
	o.SetGroupVersionKind(kind)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`))
	Expect(client.IgnoreNotFound(c.Client.Patch(ctx, o, patch))).To(Succeed())
}

// Events returns the events of a namespace.
func (c *Cluster) Events(ctx context.Context, namespace string) []eventsv1.Event {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(c.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

// EventNotes returns the notes of the events of a reason, sorted.
func (c *Cluster) EventNotes(ctx context.Context, namespace, reason string) []string {
	GinkgoHelper()
	var notes []string
	for _, e := range c.Events(ctx, namespace) {
		if e.Reason == reason {
			notes = append(notes, e.Note)
		}
	}
	slices.Sort(notes)
	return notes
}
