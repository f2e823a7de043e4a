// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/receiver"
)

const (
	// takeTimeout bounds what it takes to keep one signal.
	takeTimeout = 10 * time.Second
	// takeTries bounds how often a signal is decided on anew because the Finding changed meanwhile.
	takeTries = 5
	// signalLanes is how many signals about different things are kept at once, at most.
	signalLanes = 64
	// ownerLasts is how long the owner of a pod is remembered, ownersKnown of how many pods.
	ownerLasts  = 10 * time.Minute
	ownersKnown = 4096
	// keptFactor bounds the Findings of a policy that have ended and are still kept, beside those that it may have.
	keptFactor = 10
)

// SignalStore keeps what other tools post, as Findings. Every replica has one, whoever leads, and two of them may take signals of
// one identity at the same time: each writes on what the API server holds and nothing else, by its resourceVersion.
type SignalStore struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
	// one lets a process decide on one signal of an identity at a time.
	one keymutex.KeyMutex
	// opening lets one Finding of a policy open at a time.
	opening keymutex.KeyMutex
	// pods remembers the workloads of pods.
	pods *cache.LRUExpireCache
}

// NewSignalStore returns one that reads from the cache of client where it can, and past it before it writes.
func NewSignalStore(c client.Client, live client.Reader, clk clock.PassiveClock) *SignalStore {
	return &SignalStore{
		client: c, live: live, clock: clk, one: keymutex.NewHashed(signalLanes), opening: keymutex.NewHashed(signalLanes),
		pods: cache.NewLRUExpireCacheWithClock(ownersKnown, clk),
	}
}

// Take implements receiver.Store.
func (s *SignalStore) Take(ctx context.Context, to types.NamespacedName, signal receiver.Signal) (receiver.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	p := posting{signal: signal, policy: &candorv1alpha1.SignalPolicy{}, now: s.clock.Now()}
	if err := s.client.Get(ctx, to, p.policy, client.DisableReadYourWritesConsistency); apierrors.IsNotFound(err) {
		return receiver.Filtered, nil
	} else if err != nil {
		return "", fmt.Errorf("reading SignalPolicy %s: %w", to, err)
	}
	if !policy.Receives(p.policy) {
		return receiver.Filtered, nil
	}
	kind, name, err := s.workload(ctx, to.Namespace, signal.Kind, signal.Name)
	if err != nil {
		return "", err
	}
	p.id = signals.PostedTo(to.Namespace, to.Name, signal.ID, kind, name, signal.Container)
	return s.keep(ctx, p)
}

// keep brings the Finding to say what the signal says. Most signals repeat what is known, which the cache tells; whatever is to be
// written is decided on by what the API server holds. So is an end of nothing: another replica may just have written what ends, and
// nobody says twice that it is over.
func (s *SignalStore) keep(ctx context.Context, p posting) (receiver.Result, error) {
	lane := p.id.Namespace + "/" + p.id.FindingName()
	s.one.LockKey(lane)
	defer func() { _ = s.one.UnlockKey(lane) }()
	f, err := s.find(ctx, s.client, p.id)
	if err != nil {
		return "", err
	}
	if known := p.decide(f); known.after == nil && (!p.signal.Resolved || known.result != receiver.Unchanged) {
		return known.result, nil
	}
	for range takeTries {
		if f, err = s.find(ctx, s.live, p.id); err != nil {
			return "", err
		}
		d := p.decide(f)
		if d.after == nil {
			return d.result, nil
		}
		result, err := s.store(ctx, p, f, d)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return result, err
		}
	}
	return "", fmt.Errorf("the Finding of %s changes faster than it can be written: %w", p.id, err)
}

// store writes what was decided on f, and returns what became of it. Findings of a policy open one after another, so that each is
// counted before the next.
func (s *SignalStore) store(ctx context.Context, p posting, f *candorv1alpha1.Finding, d decision) (receiver.Result, error) {
	if d.opens {
		lane := p.policy.Namespace + "/" + p.policy.Name
		s.opening.LockKey(lane)
		defer func() { _ = s.opening.UnlockKey(lane) }()
		if full, err := s.full(ctx, p); err != nil {
			return "", err
		} else if full {
			return receiver.Full, nil
		}
	}
	err := s.write(ctx, f, d)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return receiver.Filtered, nil
	}
	return d.result, err
}

func (s *SignalStore) find(ctx context.Context, reader client.Reader, id signals.Identity) (*candorv1alpha1.Finding, error) {
	var f candorv1alpha1.Finding
	err := reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.FindingName()}, &f)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the Finding of %s: %w", id, err)
	}
	return &f, nil
}

// write stores what was decided on f, which is nil where the Finding is new. Entries are muted in the same write, so that nobody
// is told of what is muted.
func (s *SignalStore) write(ctx context.Context, f *candorv1alpha1.Finding, d decision) error {
	if len(d.evidence.Entries) > 0 {
		// Nobody tells the Mutes of a replica that does not lead of a change: these are read for this write.
		scopes, err := NewMutes(s.client).Of(ctx, d.after.Namespace)
		if err != nil {
			return err
		}
		muteEntries(scopes, d.after, d.evidence, policy.Ask{MinRank: d.evidence.Worst}, s.clock.Now())
	}
	if f != nil {
		err := s.client.Patch(ctx, d.after, client.MergeFromWithOptions(f, client.MergeFromWithOptimisticLock{}))
		if err != nil {
			return fmt.Errorf("writing Finding %s/%s: %w", f.Namespace, f.Name, err)
		}
		return nil
	}
	if err := s.client.Create(ctx, d.after); err != nil {
		return fmt.Errorf("creating Finding %s/%s: %w", d.after.Namespace, d.after.Name, err)
	}
	return nil
}

// full reports whether one Finding more would be one too many. The cache holds what this replica wrote.
func (s *SignalStore) full(ctx context.Context, p posting) (bool, error) {
	var all candorv1alpha1.FindingList
	err := s.client.List(ctx, &all, client.InNamespace(p.id.Namespace), client.MatchingFields{indexPosted: p.policy.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("counting the Findings of SignalPolicy %s/%s: %w", p.id.Namespace, p.policy.Name, err)
	}
	return crowd(all.Items, p.policy).full(p.policy), nil
}

// crowding is how many Findings the signals of a policy have made.
type crowding struct{ standing, kept int }

// crowd counts those of one policy among Findings of its namespace.
func crowd(findings []candorv1alpha1.Finding, p *candorv1alpha1.SignalPolicy) (c crowding) {
	for i := range findings {
		if f := &findings[i]; signals.IdentityOf(f).Policy() == p.Name {
			c.kept++
			if !finished(f) {
				c.standing++
			}
		}
	}
	return c
}

// full reports whether there may be no more. Those that ended are kept for a while, and are bounded too: signals that fire and
// resolve under ever new ids would fill the API server.
func (c crowding) full(p *candorv1alpha1.SignalPolicy) bool {
	most := policy.MaxFindings(p)
	return c.standing >= most || c.kept >= keptFactor*most
}

// workload returns the top owner of a pod, as far as it can be known, and other objects as they are.
func (s *SignalStore) workload(ctx context.Context, namespace, kind, name string) (topKind, topName string, err error) {
	if kind != podKind {
		return kind, name, nil
	}
	pod := types.NamespacedName{Namespace: namespace, Name: name}
	if known, ok := s.pods.Get(pod); ok {
		top := known.(signals.Subject)
		return top.Kind, top.Name, nil
	}
	o := owners{cached: s.live, live: s.live, pods: &podOwners{}}
	owner, err := o.learn(ctx, namespace, name)
	if apierrors.IsForbidden(err) || err == nil && owner.gone {
		return kind, name, nil
	} else if err != nil {
		return "", "", err
	}
	top, known, err := o.top(ctx, signals.Class{Provider: signals.Posted, AddsUp: true}, signals.Subject{Namespace: namespace, Kind: kind, Name: name})
	if err != nil {
		return "", "", err
	}
	if known {
		s.pods.Add(pod, signals.Subject{Kind: top.Kind, Name: top.Name}, ownerLasts)
	}
	return top.Kind, top.Name, nil
}
