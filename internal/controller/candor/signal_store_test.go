// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/receiver"
)

// lagging is a store whose cache has not heard of any Finding yet.
func lagging(t *testing.T, objects ...client.Object) (*SignalStore, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(candorv1alpha1.AddToScheme(scheme)).To(Succeed())
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, receivingPolicy())...).Build()
	cache := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, finding := o.(*candorv1alpha1.Finding); finding {
				return apierrors.NewNotFound(candorv1alpha1.GroupVersion.WithResource("findings").GroupResource(), key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	return NewSignalStore(cache, server, clocktesting.NewFakePassiveClock(noon.Add(time.Second))), server
}

func TestAnEndIsNotLostWhileTheCacheLags(t *testing.T) {
	g := NewWithT(t)
	f := standing(candorv1alpha1.ObservedPresent)
	s, server := lagging(t, f)
	end := receiver.Signal{Severity: "HIGH", Kind: "Deployment", Name: "web", ID: "disk", Resolved: true}
	g.Expect(s.Take(t.Context(), door, end)).To(Equal(receiver.Resolved), "another replica has just written what ends")
	g.Expect(server.Get(t.Context(), client.ObjectKeyFromObject(f), f)).To(Succeed())
	g.Expect(f.Spec.Observed).To(Equal(candorv1alpha1.ObservedCleared))
	g.Expect(s.Take(t.Context(), door, end)).To(Equal(receiver.Unchanged))
}
