// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals/suppression"
)

// crowded is the key of Findings that may not name everything that mutes them. No Suppression has this name.
const crowded = "*"

// Mutes reads the Suppressions of each namespace once, and again after one of them or the longest mute changed. Every controller
// that asks it says so by Forget, before it enqueues what the change concerns: what was asked for earlier is asked for again.
type Mutes struct {
	Reader client.Reader

	mu       sync.Mutex
	compiled map[string]*suppression.Scopes
	// forgotten counts the changes, so that what was read before one is not kept after it.
	forgotten uint64
}

// NewMutes returns one that has read nothing.
func NewMutes(reader client.Reader) *Mutes {
	return &Mutes{Reader: reader, compiled: map[string]*suppression.Scopes{}}
}

// Of returns the Suppressions of a namespace.
func (m *Mutes) Of(ctx context.Context, namespace string) (*suppression.Scopes, error) {
	m.mu.Lock()
	scopes, forgotten := m.compiled[namespace], m.forgotten
	m.mu.Unlock()
	if scopes != nil {
		return scopes, nil
	}
	longest, err := longestMute(ctx, m.Reader)
	if err != nil {
		return nil, err
	}
	var list candorv1alpha1.SuppressionList
	err = m.Reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, fmt.Errorf("listing the Suppressions of %s: %w", namespace, err)
	}
	scopes = suppression.Compile(list.Items, longest)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forgotten == forgotten {
		m.compiled[namespace] = scopes
	}
	return scopes, nil
}

// Forget has the Suppressions of a namespace read again.
func (m *Mutes) Forget(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.compiled, namespace)
	m.forgotten++
}

// ForgetAll has all Suppressions read again.
func (m *Mutes) ForgetAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.compiled)
	m.forgotten++
}

// after returns a function that forgets, and then finds what a change of a Suppression or of the OperatingPolicy concerns.
func (m *Mutes) after(find handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		if namespace := o.GetNamespace(); namespace != "" {
			m.Forget(namespace)
		} else {
			m.ForgetAll()
		}
		return find(ctx, o)
	}
}

func longestMute(ctx context.Context, reader client.Reader) (time.Duration, error) {
	operating, err := operatingPolicy(ctx, reader)
	return suppression.Longest(operating), err
}

// muters returns the keys by which a Finding is found from what mutes its entries.
func muters(f *candorv1alpha1.Finding) []string {
	if f.Spec.Evidence == nil || len(f.Spec.Evidence.MutedBy) == 0 {
		return nil
	}
	names := f.Spec.Evidence.MutedBy
	if suppression.Crowded(names) {
		return append([]string{crowded}, names...)
	}
	return names
}

// mutedBy maps a Suppression to the Findings that say so when it mutes them: by their fingerprint or workload, or by its name
// where it mutes entries, which the report controller writes.
func mutedBy(c client.Client) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list candorv1alpha1.FindingList
		return lifecycle.Requests(ctx, c, &list, client.InNamespace(o.GetNamespace()), findingsOf(o.(*candorv1alpha1.Suppression)))
	}
}

// findingsOf returns the index by which the Findings of a Suppression are found.
func findingsOf(s *candorv1alpha1.Suppression) client.MatchingFields {
	switch {
	case !suppression.Whole(s):
		return client.MatchingFields{indexMutedBy: s.Name}
	case s.Spec.Fingerprint == "" && s.Spec.Workload != nil:
		return client.MatchingFields{indexWorkload: objectKey(s.Spec.Workload.Kind, s.Spec.Workload.Name)}
	default:
		return client.MatchingFields{indexFingerprint: s.Spec.Fingerprint}
	}
}

// suppressionsOf maps a Finding to the Suppressions that mute it, or that did.
func suppressionsOf(m *Mutes) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		f := o.(*candorv1alpha1.Finding)
		scopes, err := m.Of(ctx, f.Namespace)
		if err != nil {
			logf.FromContext(ctx).Error(err, "Cannot tell which Suppressions an event concerns")
			return nil
		}
		facts := suppression.FactsOf(f)
		// The suppression controller finds Findings by the fingerprint that stands in their status.
		facts.Fingerprint = f.Status.Fingerprint
		var all []reconcile.Request
		var named []string
		if f.Spec.Evidence != nil {
			named = f.Spec.Evidence.MutedBy
		}
		for _, name := range scopes.Concerning(facts, named) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: f.Namespace, Name: name}})
		}
		return all
	}
}

func everySuppression(c client.Client) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list candorv1alpha1.SuppressionList
		return lifecycle.Requests(ctx, c, &list)
	}
}

// longestDiffers passes the changes of an OperatingPolicy that decide how long Suppressions mute.
var longestDiffers = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return bounds(e.Object) },
	DeleteFunc: func(e event.DeleteEvent) bool { return bounds(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*candorv1alpha1.OperatingPolicy)
		after, also := e.ObjectNew.(*candorv1alpha1.OperatingPolicy)
		return ok && also && suppression.Longest(before) != suppression.Longest(after)
	},
}

func bounds(o client.Object) bool {
	p, ok := o.(*candorv1alpha1.OperatingPolicy)
	return ok && suppression.Longest(p) != 0
}

// nobody is concerned by a change that only has to be known.
func nobody(context.Context, client.Object) []reconcile.Request { return nil }
