// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

const (
	// maxPosts is how many sinks are posted to at once, and maxPostsEach how many of a namespace.
	maxPosts, maxPostsEach = 8, 4
	// maxHalvings is after how many halvings one event is left of a batch.
	maxHalvings = 5
	// recheckEvery is how often it is looked whether a sink that nothing can be sent to has been mended.
	recheckEvery = time.Minute
)

// sinkKey names a sink of the cluster.
type sinkKey struct{ namespace, policy, sink string }

func (k sinkKey) policyName() types.NamespacedName {
	return types.NamespacedName{Namespace: k.namespace, Name: k.policy}
}

// parcel is an event of a Finding that a sink is to be told of.
type parcel struct {
	sink  sinkKey
	uid   types.UID
	kind  candorv1alpha1.EventType
	event notify.Event
	// since is when it was handed in.
	since time.Time
	// attempts is how often it was sent in vain.
	attempts int32
}

// company returns how many events go together with it at most: half as many after each failure, so that one that the receiver will
// not take does not take others with it.
func (p *parcel) company() int { return max(1, notify.MaxEvents>>min(p.attempts, maxHalvings)) }

// told is what is known of a Finding that people are told of.
type told struct {
	name types.NamespacedName
	// waiting are the places in lanes, and underway what is being posted, both by the key of the event.
	waiting  map[string]*list.Element
	underway map[string]bool
	// results are what became of events, until a pass has stored it.
	results map[string]notify.Result
}

func (t *told) empty() bool { return len(t.waiting)+len(t.underway)+len(t.results) == 0 }

// lane is what one sink waits for, and how it does.
type lane struct {
	sinkKey
	// sink is the sink as it was last handed in, and known is when it first was.
	sink  candorv1alpha1.Sink
	known time.Time
	// queue holds parcels, oldest first.
	queue *list.List
	// messages are about the whole policy; results are what became of them, until a pass has stored it.
	messages []candorv1alpha1.PolicyMessage
	results  map[string]notify.Result

	// served is when the last batch ended.
	served time.Time
	// until is when the sink may be posted to again, after so many failures in a row.
	until    time.Time
	failures int32
	// check says that it is to be looked whether anything can be sent at all.
	check  bool
	health health
}

// health is how a sink does.
type health struct {
	// state is empty while nothing was sent.
	state   candorv1alpha1.SinkState
	message string
	// sound says that there was nothing wrong with its address and its Secrets.
	sound bool
}

// batch is what one worker sends to one sink: a message about the policy, or events, or nothing, to check the sink.
type batch struct {
	sinkKey
	// spec is the sink as it was when the batch began.
	spec    candorv1alpha1.Sink
	message *candorv1alpha1.PolicyMessage
	parcels []*parcel
}

// report is what became of a batch.
type report struct {
	// gone says that there is no such sink any more, and ended that the manager ended before everything was sent.
	gone, ended bool
	// trouble is why not all of it was delivered; nil when it was.
	trouble *trouble
	// delivered and failed are the keys of events that were sent, with and without success. With a trouble, the rest was not.
	delivered, failed []string
}

// has reports whether a sink was told of an event.
func (r report) has(key string) bool {
	return r.trouble == nil && !r.gone && !r.ended || slices.Contains(r.delivered, key)
}

// trouble is why a sink could not be told.
type trouble struct {
	// misconfigured says that nothing can be sent until somebody changes something.
	misconfigured bool
	// message is for people. It holds no address.
	message string
	// retryAfter is what the receiver asked for; zero when it did not.
	retryAfter time.Duration
}

// lanes holds what waits to be sent, a lane a sink. It sends nothing, and takes the time from its callers.
type lanes struct {
	// window is how long an event waits for others to go with it.
	window time.Duration

	mu       sync.Mutex
	bySink   map[sinkKey]*lane
	findings map[types.UID]*told
	// underway is what is being sent, also to sinks that are gone.
	underway map[sinkKey]*batch
	// orphans are the Findings that waited for sinks that are gone.
	orphans []types.NamespacedName
}

func newLanes(window time.Duration) *lanes {
	return &lanes{window: window, bySink: map[sinkKey]*lane{}, findings: map[types.UID]*told{}, underway: map[sinkKey]*batch{}}
}

// submit makes parcels all that is to be sent about a Finding, in this order. What is being sent, and what was sent and is not
// stored yet, is left as it is.
func (l *lanes) submit(uid types.UID, name types.NamespacedName, parcels []*parcel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.findings[uid]
	if t == nil {
		if len(parcels) == 0 {
			return
		}
		t = &told{name: name, waiting: map[string]*list.Element{}, underway: map[string]bool{}, results: map[string]notify.Result{}}
		l.findings[uid] = t
	}
	since := map[string]time.Time{}
	for key, place := range t.waiting {
		since[key] = place.Value.(*parcel).since
		l.withdraw(t, key)
	}
	for _, p := range parcels {
		if _, known := t.results[p.event.Key]; known || t.underway[p.event.Key] {
			continue
		}
		if at, waited := since[p.event.Key]; waited {
			p.since = at
		}
		t.waiting[p.event.Key] = insert(l.lane(p.sink).queue, p)
	}
	l.tidy(uid)
}

// insert puts a parcel behind those that have waited as long as it has.
func insert(queue *list.List, p *parcel) *list.Element {
	for place := queue.Back(); place != nil; place = place.Prev() {
		if !place.Value.(*parcel).since.After(p.since) {
			return queue.InsertAfter(p, place)
		}
	}
	return queue.PushFront(p)
}

func (l *lanes) lane(key sinkKey) *lane {
	if l.bySink[key] == nil {
		l.bySink[key] = newLane(key)
	}
	return l.bySink[key]
}

func newLane(key sinkKey) *lane {
	return &lane{sinkKey: key, queue: list.New(), results: map[string]notify.Result{}}
}

func (l *lanes) withdraw(t *told, key string) {
	place := t.waiting[key]
	delete(t.waiting, key)
	l.bySink[place.Value.(*parcel).sink].queue.Remove(place)
}

func (l *lanes) tidy(uid types.UID) {
	if t := l.findings[uid]; t != nil && t.empty() {
		delete(l.findings, uid)
	}
}

// resultsOf returns what became of events of a Finding and is not stored yet.
func (l *lanes) resultsOf(uid types.UID) []notify.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.findings[uid]; t != nil {
		return inOrder(t.results)
	}
	return nil
}

func inOrder(results map[string]notify.Result) []notify.Result {
	all := make([]notify.Result, 0, len(results))
	for _, r := range results {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b notify.Result) int { return a.At.Compare(b.At) })
	return all
}

// stored forgets results that stand in the Finding's status now.
func (l *lanes) stored(uid types.UID, results []notify.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.findings[uid]
	if t == nil {
		return
	}
	for _, r := range results {
		delete(t.results, r.Key)
	}
	l.tidy(uid)
}

// forget drops what was to be sent about a Finding.
func (l *lanes) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.findings[uid]
	if t == nil {
		return
	}
	for key := range t.waiting {
		l.withdraw(t, key)
	}
	delete(l.findings, uid)
}

// unstored returns the Findings and the policies of which something became known that is not stored.
func (l *lanes) unstored() (findings, policies []types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.findings {
		if len(t.results) > 0 {
			findings = append(findings, t.name)
		}
	}
	for key, lane := range l.bySink {
		if len(lane.results) > 0 && !slices.Contains(policies, key.policyName()) {
			policies = append(policies, key.policyName())
		}
	}
	return findings, policies
}
