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

// due returns since when, or from when on, a lane may go on, and whether it waits for anything.
func (l *lanes) due(lane *lane, now time.Time) (time.Time, bool) {
	ready, waits := l.eventsDue(lane)
	switch {
	case l.underway[lane.sinkKey] != nil:
		return time.Time{}, false
	case lane.check:
		ready = lane.known
	case len(lane.messages) > 0:
		if ready = lane.messages[0].At.Time; ready.After(now) {
			ready = now // it fell due by a clock that was ahead
		}
	case !waits:
		return time.Time{}, false
	}
	if lane.until.After(ready) {
		return lane.until, true
	}
	return ready, true
}

// eventsDue returns when the events of a lane go, and whether there are any: those of a full message go at once.
func (l *lanes) eventsDue(lane *lane) (time.Time, bool) {
	switch first := lane.queue.Front(); {
	case first == nil:
		return time.Time{}, false
	case lane.queue.Len() >= notify.MaxEvents:
		return first.Value.(*parcel).since, true
	default:
		return first.Value.(*parcel).since.Add(l.window), true
	}
}

// next returns what is to be sent now, and how long to wait for more; zero waits for somebody to say so. A sink has one batch at
// a time. Those that have waited longest since their last one go first, however much they wait for, and a namespace leaves room to
// others, so that slow receivers hold up nobody else's.
func (l *lanes) next(now time.Time) (batches []*batch, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	type candidate struct {
		lane  *lane
		since time.Time
	}
	var ready []candidate
	for _, lane := range l.bySink {
		due, waits := l.due(lane, now)
		switch {
		case !waits:
		case due.After(now):
			wait = earliest(wait, due.Sub(now))
		default:
			if lane.served.After(due) {
				due = lane.served
			}
			ready = append(ready, candidate{lane, due})
		}
	}
	slices.SortFunc(ready, func(a, b candidate) int { return a.since.Compare(b.since) })
	posts := map[string]int{}
	for key := range l.underway {
		posts[key.namespace]++
	}
	for _, c := range ready {
		if len(l.underway) < maxPosts && posts[c.lane.namespace] < maxPostsEach {
			posts[c.lane.namespace]++
			batches = append(batches, l.take(c.lane, now))
		}
	}
	return batches, wait
}

// take begins a batch: the first message, which goes alone, or the oldest events, or nothing but the check.
func (l *lanes) take(lane *lane, now time.Time) *batch {
	b := &batch{sinkKey: lane.sinkKey, spec: lane.sink}
	l.underway[lane.sinkKey] = b
	if len(lane.messages) > 0 {
		first := lane.messages[0]
		b.message, lane.messages = &first, lane.messages[1:]
		return b
	}
	if due, waits := l.eventsDue(lane); !waits || due.After(now) {
		return b
	}
	for most := notify.MaxEvents; lane.queue.Len() > 0; {
		p := lane.queue.Front().Value.(*parcel)
		if most = min(most, p.company()); len(b.parcels) >= most {
			break
		}
		lane.queue.Remove(lane.queue.Front())
		t := l.findings[p.uid]
		delete(t.waiting, p.event.Key)
		t.underway[p.event.Key] = true
		b.parcels = append(b.parcels, p)
	}
	return b
}

// done ends a batch. It returns the Findings and the policies for which something is known that is not stored.
func (l *lanes) done(b *batch, r report, now time.Time) (findings, policies []types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.underway, b.sinkKey)
	lane := l.bySink[b.sinkKey]
	if lane != nil && r.gone {
		l.drop(lane)
		lane = nil
	}
	if lane == nil {
		lane = newLane(b.sinkKey) // nobody finds it, and what was sent is known of the Findings
	}
	lane.served = now
	if settle(lane, b, r, now) {
		policies = append(policies, b.policyName())
	}
	findings = l.deal(lane, b, r, now)
	if r.trouble != nil {
		findings = append(findings, l.giveUp(lane, now)...)
	}
	return findings, policies
}

// settle writes how the sink does, unless it has been changed meanwhile, and what became of a message. It reports whether the
// policy has something to store.
func settle(lane *lane, b *batch, r report, now time.Time) bool {
	before, changed := lane.health, !equality.Semantic.DeepEqual(lane.sink, b.spec)
	switch {
	case r.gone, r.ended:
		return false
	case changed:
	case r.trouble == nil:
		lane.check, lane.until, lane.failures, lane.health.sound = false, time.Time{}, 0, true
		if b.message != nil || len(b.parcels) > 0 || before.state == candorv1alpha1.SinkMisconfigured {
			lane.health = health{state: candorv1alpha1.SinkActive, sound: true}
		}
	case r.trouble.misconfigured:
		lane.check, lane.until = true, now.Add(recheckEvery)
		lane.health = health{state: candorv1alpha1.SinkMisconfigured, message: r.trouble.message}
	default:
		lane.check, lane.failures = false, lane.failures+1
		lane.until = now.Add(notify.Backoff(lane.failures, r.trouble.retryAfter))
		lane.health = health{state: candorv1alpha1.SinkFailing, message: r.trouble.message, sound: true}
	}
	if b.message != nil {
		if r.trouble == nil || !r.trouble.misconfigured || !notify.Lasts(*b.message) && overdue(b.message.At.Time, now) {
			lane.results[b.message.Key] = resultOf(b.message.Key, r.trouble, now)
			return true
		}
		if changed {
			return true // it is handed in again
		}
		lane.messages = slices.Insert(lane.messages, 0, *b.message)
	}
	return before != lane.health
}

// overdue reports whether an event has been tried for as long as any is.
func overdue(at, now time.Time) bool { return !now.Before(at.Add(notify.Patience)) }

func resultOf(key string, t *trouble, now time.Time) notify.Result {
	result := notify.Result{Key: key, Delivered: t == nil, At: now}
	if t != nil {
		result.RetryAfter = t.retryAfter
	}
	return result
}

// deal gives each event of a batch its result, or its place in the lane back where nothing was sent. It returns the Findings
// that have results, and those that nobody sends what they wait for any more. Of a Finding of which something failed, nothing else goes to this sink before its pass says so: what a sink
// is told stays in order.
func (l *lanes) deal(lane *lane, b *batch, r report, now time.Time) (findings []types.NamespacedName) {
	var back []*parcel
	failed := map[types.UID]bool{}
	for _, p := range b.parcels {
		t, key := l.findings[p.uid], p.event.Key
		if t == nil {
			continue // deleted meanwhile
		}
		delete(t.underway, key)
		switch {
		case r.has(key):
			t.results[key] = resultOf(key, nil, now)
			findings = append(findings, t.name)
		case slices.Contains(r.failed, key):
			failed[p.uid], t.results[key] = true, resultOf(key, r.trouble, now)
			findings = append(findings, t.name)
		case l.bySink[b.sinkKey] == lane:
			back = append(back, p)
		default:
			findings = append(findings, t.name)
		}
	}
	for uid := range failed {
		for key, place := range l.findings[uid].waiting {
			if place.Value.(*parcel).sink == b.sinkKey {
				l.withdraw(l.findings[uid], key)
			}
		}
	}
	for _, p := range slices.Backward(back) {
		if t := l.findings[p.uid]; !failed[p.uid] && t.waiting[p.event.Key] == nil {
			t.waiting[p.event.Key] = lane.queue.PushFront(p)
		}
	}
	for _, p := range b.parcels {
		l.tidy(p.uid)
	}
	return findings
}

// giveUp ends the wait of the events that nobody could be told of for a day.
func (l *lanes) giveUp(lane *lane, now time.Time) (findings []types.NamespacedName) {
	for place := lane.queue.Front(); place != nil; {
		p, next := place.Value.(*parcel), place.Next()
		if overdue(p.event.At, now) {
			t := l.findings[p.uid]
			l.withdraw(t, p.event.Key)
			t.results[p.event.Key] = notify.Result{Key: p.event.Key, At: now}
			findings = append(findings, t.name)
		}
		place = next
	}
	return findings
}
