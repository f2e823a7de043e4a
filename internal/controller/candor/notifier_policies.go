// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// offering is a sink of a policy, with the messages about the policy that are to be sent to it now.
type offering struct {
	sink     candorv1alpha1.Sink
	messages []candorv1alpha1.PolicyMessage
}

// offer makes offerings all the sinks of a policy, and their messages all that is to be sent about it. A sink that is new or
// changed is checked, and may be posted to again at once.
func (l *lanes) offer(policy types.NamespacedName, offerings []offering, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	offered := map[sinkKey]bool{}
	for _, o := range offerings {
		key := sinkKey{policy.Namespace, policy.Name, o.sink.Name}
		offered[key] = true
		lane := l.lane(key)
		if lane.known.IsZero() || !equality.Semantic.DeepEqual(lane.sink, o.sink) {
			if lane.known.IsZero() {
				lane.known = now
			}
			lane.sink, lane.check, lane.until, lane.failures, lane.health = o.sink, true, time.Time{}, 0, health{}
		}
		lane.messages = slices.DeleteFunc(slices.Clone(o.messages), func(m candorv1alpha1.PolicyMessage) bool {
			_, known := lane.results[m.Key]
			return known || l.posting(key, m.Key)
		})
	}
	for key, lane := range l.bySink {
		if key.policyName() == policy && !offered[key] {
			l.drop(lane)
		}
	}
}

// forgetPolicy drops the sinks of a policy.
func (l *lanes) forgetPolicy(policy types.NamespacedName) {
	l.offer(policy, nil, time.Time{})
}

// posting reports whether a message is being sent.
func (l *lanes) posting(key sinkKey, message string) bool {
	b := l.underway[key]
	return b != nil && b.message != nil && b.message.Key == message
}

// drop forgets a sink, and what waits for it: Findings take it out of their statuses by themselves, or hand it in again where
// there is such a sink after all.
func (l *lanes) drop(lane *lane) {
	for lane.queue.Len() > 0 {
		p := lane.queue.Front().Value.(*parcel)
		l.orphans = append(l.orphans, l.findings[p.uid].name)
		l.withdraw(l.findings[p.uid], p.event.Key)
		l.tidy(p.uid)
	}
	delete(l.bySink, lane.sinkKey)
}

// orphaned returns, once, the Findings that waited for sinks that are gone.
func (l *lanes) orphaned() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	orphans := l.orphans
	l.orphans = nil
	return orphans
}

// messageResults returns what became of the messages about a policy and is not stored yet, by the name of the sink.
func (l *lanes) messageResults(policy types.NamespacedName) map[string][]notify.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	results := map[string][]notify.Result{}
	for key, lane := range l.bySink {
		if key.policyName() == policy && len(lane.results) > 0 {
			results[key.sink] = inOrder(lane.results)
		}
	}
	return results
}

// messagesStored forgets results that stand in the policy's status now.
func (l *lanes) messagesStored(policy types.NamespacedName, results map[string][]notify.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sink, stored := range results {
		lane := l.bySink[sinkKey{policy.Namespace, policy.Name, sink}]
		for i := range stored {
			if lane != nil {
				delete(lane.results, stored[i].Key)
			}
		}
	}
}

// of returns how a sink does, and since when it is known here; zero for one that is not.
func (l *lanes) of(key sinkKey) (health, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lane := l.bySink[key]; lane != nil {
		return lane.health, lane.known
	}
	return health{}, time.Time{}
}
