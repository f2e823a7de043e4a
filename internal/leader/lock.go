// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader lets one Candor work in a cluster: one of the replicas of an installation, as everywhere, and one of several
// installations, which have their Leases in namespaces of their own.
package leader

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=manager.candor.dev,verbs=list

// Name is that of the Lease.
const Name = "manager.candor.dev"

// Lock is the Lease of this installation, which nobody gets or keeps while an older Lease of that name is held in another
// namespace. After each write it looks again, so that of two installations that start at once the younger gives way.
type Lock struct {
	*resourcelock.LeaseLock
	clock clock.PassiveClock

	// Announce is told of another Candor, once for each change, and nil when it is gone. It must not call a method of the Lock.
	Announce func(problem error)
	Log      logr.Logger

	mu      sync.Mutex
	problem error
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns the lock of an installation. A request for it that takes longer than timeout fails.
func New(cfg *rest.Config, namespace string, timeout time.Duration) (*Lock, error) {
	cfg = rest.CopyConfig(cfg) // a timeout would end the watches of whoever else uses it
	cfg.UserAgent, cfg.Timeout = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())+"/leader-election", timeout
	leases, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating a client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding a name for this replica: %w", err)
	}
	return &Lock{clock: clock.RealClock{}, LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}}, nil
}

// Record makes changes of the leader events on the Lease.
func (l *Lock) Record(recorder events.EventRecorder) {
	l.LockConfig.EventRecorder = recordings{recorder}
}

// recordings gives what leader election says to the newer API for events.
type recordings struct{ events.EventRecorder }

// Eventf implements resourcelock.EventRecorder.
func (r recordings) Eventf(lease runtime.Object, kind, reason, format string, args ...any) {
	r.EventRecorder.Eventf(lease, nil, kind, reason, reason, format, args...)
}

// Check implements healthz.Checker: an installation that must not work is not ready.
func (l *Lock) Check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.alone(ctx); err != nil {
		return nil, nil, err
	}
	return l.LeaseLock.Get(ctx)
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.LeaseLock.Create(ctx, record); err != nil {
		return err
	}
	return l.alone(ctx)
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.LeaseLock.Update(ctx, record); err != nil {
		return err
	}
	return l.alone(ctx)
}

// alone returns an error that names the installation which is to work in place of this one. Without the right to ask there is
// none, and while nobody answers, the last answer holds: leader election within the installation must not depend on it, and one
// that waits must not start because the API server stumbles.
func (l *Lock) alone(ctx context.Context) error {
	list, err := l.Client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String(),
	})
	if err != nil {
		l.Log.Error(err, "Cannot look for another Candor in the cluster")
		if !apierrors.IsForbidden(err) {
			return l.Check(nil)
		}
		return l.noted(nil)
	}
	if other := senior(list.Items, l.LeaseMeta.Namespace, l.clock.Now()); other != nil {
		return l.noted(fmt.Errorf("another Candor works in the namespace %s (Lease %s of %s, held by %s), and two would rewrite each other's Findings: "+
			"remove one of them; this one works as soon as that Lease is no longer renewed",
			other.Namespace, other.Name, other.CreationTimestamp.UTC().Format(time.RFC3339), *other.Spec.HolderIdentity))
	}
	return l.noted(nil)
}

func (l *Lock) noted(problem error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fmt.Sprint(problem) != fmt.Sprint(l.problem) {
		l.Announce(problem)
	}
	l.problem = problem
	return problem
}

// senior returns the oldest Lease that is held elsewhere and older than that of a namespace, nil for none. The API server sets
// the age, so nobody can make a Lease that is older than one that is there.
func senior(leases []coordinationv1.Lease, namespace string, now time.Time) *coordinationv1.Lease {
	var own, oldest *coordinationv1.Lease
	for i := range leases {
		switch lease := &leases[i]; {
		case lease.Namespace == namespace:
			own = lease
		case held(lease, now) && older(lease, oldest):
			oldest = lease
		}
	}
	if oldest == nil || !older(oldest, own) {
		return nil
	}
	return oldest
}

func held(lease *coordinationv1.Lease, now time.Time) bool {
	s := lease.Spec
	if ptr.Deref(s.HolderIdentity, "") == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second))
}

// older orders Leases by age, and those of one second by namespace; every Lease is older than none.
func older(a, b *coordinationv1.Lease) bool {
	if b == nil || a.CreationTimestamp.Before(&b.CreationTimestamp) {
		return true
	}
	return a.CreationTimestamp.Equal(&b.CreationTimestamp) && a.Namespace < b.Namespace
}
