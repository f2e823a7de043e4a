// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// lease is one that was made some time ago and is held.
func lease(namespace string, age time.Duration, change ...func(*coordinationv1.LeaseSpec)) coordinationv1.Lease {
	l := coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("pod-of-" + namespace), LeaseDurationSeconds: new(int32(137)), RenewTime: &metav1.MicroTime{Time: now.Add(-time.Second)},
		},
	}
	for _, c := range change {
		c(&l.Spec)
	}
	return l
}

func released(s *coordinationv1.LeaseSpec) { s.HolderIdentity = new("") }
func expired(s *coordinationv1.LeaseSpec) {
	s.RenewTime = &metav1.MicroTime{Time: now.Add(-138 * time.Second)}
}
func empty(s *coordinationv1.LeaseSpec) { *s = coordinationv1.LeaseSpec{} }

func TestTheOldestHeldLeaseOfTheClusterWins(t *testing.T) {
	for name, test := range map[string]struct {
		leases []coordinationv1.Lease
		want   string
	}{
		"nobody":                              {nil, ""},
		"this one alone":                      {[]coordinationv1.Lease{lease("here", time.Hour)}, ""},
		"an older one":                        {[]coordinationv1.Lease{lease("here", time.Hour), lease("there", 2*time.Hour)}, "there"},
		"a younger one":                       {[]coordinationv1.Lease{lease("here", 2*time.Hour), lease("there", time.Hour)}, ""},
		"one where this one has no Lease yet": {[]coordinationv1.Lease{lease("there", time.Second)}, "there"},
		"the oldest of several":               {[]coordinationv1.Lease{lease("b", time.Hour), lease("here", time.Minute), lease("a", 2*time.Hour)}, "a"},
		"one of the same second, earlier by its name": {[]coordinationv1.Lease{lease("here", time.Hour), lease("a", time.Hour)}, "a"},
		"one of the same second, later by its name":   {[]coordinationv1.Lease{lease("here", time.Hour), lease("there", time.Hour)}, ""},
		"an older one that was given back":            {[]coordinationv1.Lease{lease("here", time.Hour), lease("there", 2*time.Hour, released)}, ""},
		"an older one that is not renewed":            {[]coordinationv1.Lease{lease("here", time.Hour), lease("there", 2*time.Hour, expired)}, ""},
		"an older one that says nothing":              {[]coordinationv1.Lease{lease("here", time.Hour), lease("there", 2*time.Hour, empty)}, ""},
		"a second oldest, since the oldest is gone":   {[]coordinationv1.Lease{lease("a", 3*time.Hour, expired), lease("b", 2*time.Hour), lease("here", time.Hour)}, "b"},
		"an older one, while this one's is not held":  {[]coordinationv1.Lease{lease("here", time.Hour, released), lease("there", 2*time.Hour)}, "there"},
		"a younger one, while this one's is not held": {[]coordinationv1.Lease{lease("here", 2*time.Hour, released), lease("there", time.Hour)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if l := senior(test.leases, "here", now); l != nil {
				got = l.Namespace
			}
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}

// cluster is one with Leases, and the lock of an installation in the namespace here.
func cluster(leases ...coordinationv1.Lease) (*Lock, *fake.Clientset, *[]string) {
	var objects []runtime.Object
	for i := range leases {
		objects = append(objects, &leases[i])
	}
	clients, said := fake.NewClientset(objects...), &[]string{}
	clients.PrependReactor("create", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		action.(clienttesting.CreateAction).GetObject().(*coordinationv1.Lease).CreationTimestamp = metav1.NewTime(now)
		return false, nil, nil
	})
	return &Lock{
		LeaseLock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "here", Name: Name}, Client: clients.CoordinationV1()},
		clock:     clocktesting.NewFakePassiveClock(now),
		Announce: func(err error) {
			if err == nil {
				err = errors.New("")
			}
			*said = append(*said, err.Error())
		},
		Log: funcr.New(func(_, line string) { *said = append(*said, line) }, funcr.Options{}),
	}, clients, said
}

func TestTheTimeoutOfTheLockIsThatOfNoOtherClient(t *testing.T) {
	g := NewWithT(t)
	cfg := &rest.Config{Host: "https://example.com", UserAgent: "candor/1"}
	_, err := New(cfg, "here", time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cfg).To(Equal(&rest.Config{Host: "https://example.com", UserAgent: "candor/1"}), "with a timeout, each watch of the manager ends after it")
}

func TestNobodyGetsOrKeepsTheLockWhileAnOlderOneIsHeld(t *testing.T) {
	g := NewWithT(t)
	lock, clients, said := cluster(lease("there", time.Hour))
	another := "another Candor works in the namespace there (Lease manager.candor.dev of 2026-11-30T11:00:00Z, held by pod-of-there), and two would rewrite " +
		"each other's Findings: remove one of them; this one works as soon as that Lease is no longer renewed"
	_, _, err := lock.Get(t.Context())
	g.Expect(err).To(MatchError(another))
	g.Expect(lock.Create(t.Context(), resourcelock.LeaderElectionRecord{})).To(MatchError(another))
	g.Expect(lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})).To(MatchError(another))
	g.Expect(lock.Check(nil)).To(MatchError(another))
	g.Expect(*said).To(Equal([]string{another}), "once")

	g.Expect(clients.CoordinationV1().Leases("there").Delete(t.Context(), Name, metav1.DeleteOptions{})).To(Succeed())
	_, _, err = lock.Get(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lock.Check(nil)).To(Succeed())
	g.Expect(*said).To(Equal([]string{another, ""}))
}

func TestALockWithoutTheRightToLookAroundWorksAsAnyOther(t *testing.T) {
	g := NewWithT(t)
	lock, clients, said := cluster(lease("there", time.Hour))
	clients.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), Name, nil)
	})
	g.Expect(lock.Create(t.Context(), resourcelock.LeaderElectionRecord{})).To(Succeed())
	g.Expect(lock.Check(nil)).To(Succeed())
	g.Expect(*said).To(HaveExactElements(ContainSubstring("Cannot look for another Candor in the cluster")))
}

func TestTheLastAnswerHoldsWhileTheAPIServerStumbles(t *testing.T) {
	g := NewWithT(t)
	lock, clients, said := cluster(lease("there", time.Hour))
	_, _, another := lock.Get(t.Context())
	g.Expect(another).To(MatchError(ContainSubstring("another Candor works")))
	clients.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewTooManyRequests("later", 1)
	})
	_, _, err := lock.Get(t.Context())
	g.Expect(err).To(Equal(another))
	g.Expect(lock.Create(t.Context(), resourcelock.LeaderElectionRecord{})).To(MatchError(another))
	g.Expect(lock.Check(nil)).To(MatchError(another))
	g.Expect(*said).NotTo(ContainElement(""), "nobody says that the other is gone")
}

func TestALeaderStaysWhileTheAPIServerStumbles(t *testing.T) {
	g := NewWithT(t)
	lock, clients, _ := cluster()
	clients.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("no"))
	})
	g.Expect(lock.Create(t.Context(), resourcelock.LeaderElectionRecord{})).To(Succeed())
	g.Expect(lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})).To(Succeed())
}
