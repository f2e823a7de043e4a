// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/openreports"
	"github.com/candor-dev/candor/test/builder"
)

func TestPodsAreRememberedWhileAReportNamesThem(t *testing.T) {
	pod := func(name string) signals.Subject {
		return signals.Subject{Namespace: "team-a", Kind: "Pod", Name: name}
	}
	web, gone, other := podOwner{kind: "ReplicaSet", name: "web-1"}, podOwner{gone: true}, signals.Subject{Namespace: "team-a", Kind: "Service", Name: "here"}
	for name, test := range map[string]struct {
		before, after []signals.Subject
		// here and lost say whether the pods of these names are still known; the first is there, and the second is not.
		here, lost bool
	}{
		"a report comes that names them":   {nil, []signals.Subject{pod("here"), pod("lost")}, true, false},
		"a report still names them":        {[]signals.Subject{pod("here"), pod("lost")}, []signals.Subject{pod("lost"), pod("here")}, true, false},
		"a report names one of them still": {[]signals.Subject{pod("here"), pod("lost")}, []signals.Subject{pod("here")}, true, false},
		"a report names none any more":     {[]signals.Subject{pod("here"), pod("lost")}, nil, false, false},
		"a report of others changes":       {[]signals.Subject{pod("web")}, nil, true, true},
		"a report is of another kind":      {[]signals.Subject{other}, nil, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var pods podOwners
			pods.remember("team-a", "here", web)
			pods.remember("team-a", "lost", gone)
			pods.turn(test.before, test.after)
			_, here := pods.of("team-a", "here")
			_, lost := pods.of("team-a", "lost")
			NewWithT(t).Expect([]bool{here, lost}).To(Equal([]bool{test.here, test.lost}))
			pods.forget()
			_, here = pods.of("team-a", "here")
			NewWithT(t).Expect(here).To(BeFalse())
		})
	}
}

// noPods has no pod, and says so when answer is closed.
type noPods struct {
	client.Reader
	answer chan struct{}
	asked  atomic.Int32
}

func (p *noPods) Get(_ context.Context, key types.NamespacedName, _ client.Object, _ ...client.GetOption) error {
	p.asked.Add(1)
	<-p.answer
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
}

func TestAPodIsAskedForOnceHoweverManyLookForIt(t *testing.T) {
	g := NewWithT(t)
	live := &noPods{answer: make(chan struct{})}
	o := owners{live: live, pods: &podOwners{}}
	var looks sync.WaitGroup
	for range 50 {
		looks.Go(func() {
			owner, err := o.learn(t.Context(), "team-a", "web-0")
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(owner.gone).To(BeTrue())
		})
	}
	g.Eventually(live.asked.Load).Should(BeEquivalentTo(1))
	close(live.answer)
	looks.Wait()
	g.Expect(live.asked.Load()).To(BeEquivalentTo(1))
	_, err := o.learn(t.Context(), "team-b", "web-0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live.asked.Load()).To(BeEquivalentTo(2), "of another namespace")
}

// watched is a queue that sees each identity as it is added.
type watched struct {
	identityQueue
	add func(signals.Identity)
}

func (q watched) Add(id signals.Identity) { q.add(id) }

func TestAPodThatWasNotThereIsForgottenBeforeTheLookThatAReportCauses(t *testing.T) {
	class := openreports.Reports()
	old := builder.OpenReport("team-a", "r", []any{}, builder.Scope("Pod", "db-0"))
	for name, change := range map[string]func(*ReportReconciler, identityQueue){
		"one that comes": func(r *ReportReconciler, q identityQueue) {
			r.handler(class).Create(t.Context(), event.TypedCreateEvent[*unstructured.Unstructured]{Object: old}, q)
		},
		"one that changes": func(r *ReportReconciler, q identityQueue) {
			r.handler(class).Update(t.Context(), event.TypedUpdateEvent[*unstructured.Unstructured]{ObjectOld: old, ObjectNew: old}, q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, known := &ReportReconciler{}, true
			r.pods.remember("team-a", "db-0", podOwner{gone: true})
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[signals.Identity]())
			change(r, watched{queue, func(id signals.Identity) { _, known = r.pods.of(id.Namespace, id.Name) }})
			NewWithT(t).Expect(known).To(BeFalse(), "the last look would believe that it is not there")
		})
	}
}
