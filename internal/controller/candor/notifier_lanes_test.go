// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

const window = 30 * time.Second

var (
	slack = sinkKey{"team-a", "default", "slack"}
	pager = sinkKey{"team-a", "default", "pager"}
	down  = &trouble{message: "It answers 500."}
	wrong = &trouble{misconfigured: true, message: "There is no Secret."}
)

func findingNamed(uid string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team-a", Name: uid}
}

// at returns parcels of a Finding with these keys, for a sink.
func at(sink sinkKey, uid string, since time.Time, keys ...string) []*parcel {
	var all []*parcel
	for _, key := range keys {
		all = append(all, &parcel{sink: sink, uid: types.UID(uid), event: notify.Event{Key: key, At: since}, since: since})
	}
	return all
}

func (l *lanes) put(sink sinkKey, uid string, since time.Time, keys ...string) {
	l.submit(types.UID(uid), findingNamed(uid), at(sink, uid, since, keys...))
}

// keysOf returns what the batches hold, in order.
func keysOf(batches []*batch) []string {
	var all []string
	for _, b := range batches {
		for _, p := range b.parcels {
			all = append(all, p.event.Key)
		}
		if b.message != nil {
			all = append(all, b.message.Key)
		}
	}
	return all
}

func (l *lanes) keysAt(now time.Time) []string {
	batches, _ := l.next(now)
	return keysOf(batches)
}

func (l *lanes) does(key sinkKey) health {
	h, _ := l.of(key)
	return h
}

func resultKeys(results []notify.Result) map[string]bool {
	all := map[string]bool{}
	for _, r := range results {
		all[r.Key] = r.Delivered
	}
	return all
}

func TestEventsWaitForTheWindowOrForTwenty(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	l.put(slack, "a", noon, "a1")
	l.put(slack, "b", noon.Add(10*time.Second), "b1")
	batches, wait := l.next(noon.Add(10 * time.Second))
	g.Expect(batches).To(BeEmpty())
	g.Expect(wait).To(Equal(20*time.Second), "the oldest decides")
	batches, _ = l.next(noon.Add(window))
	g.Expect(keysOf(batches)).To(Equal([]string{"a1", "b1"}))

	full := newLanes(window)
	for i := range 45 {
		full.put(slack, fmt.Sprint(i), noon, fmt.Sprintf("%02d", i))
	}
	batches, _ = full.next(noon)
	g.Expect(batches).To(HaveLen(1))
	g.Expect(keysOf(batches)).To(HaveLen(20))
	g.Expect(full.keysAt(noon)).To(BeEmpty(), "one batch a lane")
	full.done(batches[0], report{}, noon)
	second, _ := full.next(noon)
	g.Expect(keysOf(second)).To(HaveLen(20))
	full.done(second[0], report{}, noon)
	g.Expect(full.keysAt(noon)).To(BeEmpty(), "five wait for the window")
	g.Expect(full.keysAt(noon.Add(window))).To(HaveLen(5))
}

func TestASinkThatIsSlowHoldsNoOther(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	for i := range maxPosts + 4 {
		sink := slack
		sink.namespace = fmt.Sprint("team-", i)
		l.put(sink, fmt.Sprint(i), noon.Add(time.Duration(i)*time.Second), fmt.Sprint("key-", i))
	}
	later := noon.Add(time.Hour)
	running, _ := l.next(later)
	g.Expect(keysOf(running)).To(Equal([]string{"key-0", "key-1", "key-2", "key-3", "key-4", "key-5", "key-6", "key-7"}), "those that wait longest go first")
	g.Expect(l.keysAt(later)).To(BeEmpty())
	l.done(running[3], report{}, later)
	g.Expect(l.keysAt(later)).To(Equal([]string{"key-8"}))
}

func TestASinkWithManyEventsIsNotPassedOverForThoseWithFew(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	for i := range 25 {
		l.put(pager, fmt.Sprint("many-", i), noon, fmt.Sprint("many-", i))
	}
	for i := range maxPosts {
		sink := slack
		sink.namespace = fmt.Sprint("team-", i)
		l.put(sink, fmt.Sprint(i), noon.Add(time.Duration(i+1)*time.Second), fmt.Sprint("few-", i))
	}
	batches, _ := l.next(noon.Add(time.Hour))
	g.Expect(batches).To(HaveLen(maxPosts))
	g.Expect(batches[0].sinkKey).To(Equal(pager))
}

func TestWhatIsHandedInAgainIsSentOnce(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	l.put(slack, "a", noon, "a1")
	l.put(slack, "a", noon.Add(20*time.Second), "a1", "a2")
	batches, wait := l.next(noon.Add(29 * time.Second))
	g.Expect(batches).To(BeEmpty())
	g.Expect(wait).To(Equal(time.Second), "it keeps its place")
	batches, _ = l.next(noon.Add(window))
	g.Expect(keysOf(batches)).To(Equal([]string{"a1", "a2"}))
	l.put(slack, "a", noon.Add(window), "a1", "a2")
	findings, _ := l.done(batches[0], report{}, noon.Add(window))
	g.Expect(findings).To(HaveEach(findingNamed("a")))
	l.put(slack, "a", noon.Add(window), "a1", "a2")
	g.Expect(l.keysAt(noon.Add(time.Hour))).To(BeEmpty(), "its result is not stored yet")
	results := l.resultsOf("a")
	g.Expect(resultKeys(results)).To(Equal(map[string]bool{"a1": true, "a2": true}))
	l.stored("a", results)
	g.Expect(l.resultsOf("a")).To(BeEmpty())
	g.Expect(l.findings).To(BeEmpty(), "nothing is kept")
}

func TestWhatIsNotHandedInAnyMoreIsNotSent(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	l.put(slack, "a", noon, "a1", "a2")
	l.put(slack, "a", noon, "a2")
	g.Expect(keysAndForget(l, "a")).To(Equal([]string{"a2"}))
	l.put(slack, "b", noon, "b1")
	l.forget("b")
	g.Expect(l.keysAt(noon)).To(BeEmpty())
	g.Expect(l.findings).To(BeEmpty())
}

func keysAndForget(l *lanes, uid string) []string {
	batches, _ := l.next(noon)
	for _, b := range batches {
		l.forget(types.UID(uid))
		l.done(b, report{}, noon)
	}
	return keysOf(batches)
}

func TestAFailureIsAResultAndPausesTheLane(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	now := noon
	for n, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		key := fmt.Sprint("a", n)
		l.put(slack, "a", now, key)
		batches, _ := l.next(now)
		g.Expect(keysOf(batches)).To(Equal([]string{key}))
		l.done(batches[0], report{trouble: down, failed: []string{key}}, now)
		results := l.resultsOf("a")
		g.Expect(results).To(Equal([]notify.Result{{Key: key, At: now}}))
		l.stored("a", results)
		l.put(slack, "b", now, "b1")
		_, wait := l.next(now)
		g.Expect(wait).To(Equal(pause))
		l.forget("b")
		now = now.Add(pause)
	}
	l.put(slack, "b", now, "b1")
	g.Expect(l.does(slack)).To(Equal(health{state: candorv1alpha1.SinkFailing, message: down.message, sound: true}))
	batches, _ := l.next(now)
	l.done(batches[0], report{}, now)
	g.Expect(l.does(slack)).To(Equal(health{state: candorv1alpha1.SinkActive, sound: true}))
	l.put(slack, "c", now, "c1")
	g.Expect(l.keysAt(now)).To(Equal([]string{"c1"}), "a success ends the pause")
}

func TestAReceiverSaysHowLongToWait(t *testing.T) {
	g := NewWithT(t)
	for asked, want := range map[time.Duration]time.Duration{time.Second: 30 * time.Second, 10 * time.Minute: 10 * time.Minute, 48 * time.Hour: time.Hour} {
		l := newLanes(0)
		l.put(slack, "a", noon, "a1")
		batches, _ := l.next(noon)
		l.done(batches[0], report{trouble: &trouble{retryAfter: asked}, failed: []string{"a1"}}, noon)
		g.Expect(l.resultsOf("a")[0].RetryAfter).To(Equal(asked))
		l.put(slack, "b", noon, "b1")
		_, wait := l.next(noon)
		g.Expect(wait).To(Equal(want))
	}
}

func TestWhatASinkIsToldStaysInOrder(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	l.put(slack, "a", noon, "created")
	batches, _ := l.next(noon)
	l.put(slack, "a", noon, "created", "resolved")
	l.done(batches[0], report{trouble: down, failed: []string{"created"}}, noon)
	later := noon.Add(time.Hour)
	g.Expect(l.keysAt(later)).To(BeEmpty(), "the later event waits for the pass that hands in the first one again")
	l.stored("a", l.resultsOf("a"))
	l.put(slack, "a", later, "created", "resolved")
	g.Expect(l.keysAt(later)).To(Equal([]string{"created", "resolved"}))
}

func TestOfABatchThatBrokeOffTheRestKeepsItsPlace(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	for _, uid := range []string{"a", "b", "c", "d"} {
		l.put(slack, uid, noon, uid+"1")
	}
	l.put(slack, "e", noon.Add(time.Second), "e1")
	batches, _ := l.next(noon.Add(window))
	l.done(batches[0], report{trouble: down, delivered: []string{"a1"}, failed: []string{"b1"}}, noon.Add(window))
	g.Expect(resultKeys(l.resultsOf("a"))).To(Equal(map[string]bool{"a1": true}))
	g.Expect(resultKeys(l.resultsOf("b"))).To(Equal(map[string]bool{"b1": false}))
	g.Expect(l.resultsOf("c")).To(BeEmpty())
	g.Expect(l.keysAt(noon.Add(2 * window))).To(Equal([]string{"c1", "d1", "e1"}))
}

func TestWhatTheEndOfTheManagerInterruptsIsNoFailure(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	l.offer(slack.policyName(), []offering{{sink: candorv1alpha1.Sink{Name: slack.sink}}}, noon)
	l.put(slack, "a", noon, "a1")
	l.put(slack, "b", noon, "b1")
	batches, _ := l.next(noon)
	findings, policies := l.done(batches[0], report{ended: true, delivered: []string{"a1"}}, noon)
	g.Expect(findings).To(Equal([]types.NamespacedName{findingNamed("a")}))
	g.Expect(policies).To(BeEmpty())
	g.Expect(l.resultsOf("b")).To(BeEmpty())
	g.Expect(l.does(slack)).To(BeZero())
}

func TestNothingIsCountedForASinkThatNothingCanBeSentTo(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	l.put(slack, "a", noon, "a1")
	now := noon
	for now.Before(noon.Add(notify.Patience)) {
		batches, _ := l.next(now)
		g.Expect(keysOf(batches)).To(Equal([]string{"a1"}))
		findings, policies := l.done(batches[0], report{trouble: wrong}, now)
		g.Expect(findings).To(BeEmpty())
		g.Expect(len(policies)).To(BeNumerically("<=", 1))
		_, wait := l.next(now)
		g.Expect(wait).To(Equal(recheckEvery))
		now = now.Add(wait)
	}
	batches, _ := l.next(now)
	findings, _ := l.done(batches[0], report{trouble: wrong}, now)
	g.Expect(findings).To(Equal([]types.NamespacedName{findingNamed("a")}), "a day later it is given up")
	g.Expect(resultKeys(l.resultsOf("a"))).To(Equal(map[string]bool{"a1": false}))
}

func TestANewSinkIsCheckedAndAChangedOneAgainAtOnce(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	policy := slack.policyName()
	sink := candorv1alpha1.Sink{Name: slack.sink, Type: candorv1alpha1.SinkSlack, URL: "https://a.example"}
	l.offer(policy, []offering{{sink: sink}}, noon)
	batches, _ := l.next(noon)
	g.Expect(batches).To(HaveLen(1))
	_, policies := l.done(batches[0], report{trouble: wrong}, noon)
	g.Expect(policies).To(Equal([]types.NamespacedName{policy}))
	l.offer(policy, []offering{{sink: sink}}, noon)
	batches, wait := l.next(noon)
	g.Expect(batches).To(BeEmpty())
	g.Expect(wait).To(Equal(recheckEvery))

	sink.URL = "https://b.example"
	l.offer(policy, []offering{{sink: sink}}, noon)
	batches, _ = l.next(noon)
	g.Expect(batches).To(HaveLen(1))
	l.done(batches[0], report{}, noon)
	g.Expect(l.does(slack)).To(Equal(health{sound: true}), "nothing was sent, so nothing is known but that it could be")
	g.Expect(l.keysAt(noon)).To(BeEmpty())
}

func TestACheckLetsNoEventGoEarly(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	l.put(slack, "a", noon, "a1")
	l.offer(slack.policyName(), []offering{{sink: candorv1alpha1.Sink{Name: slack.sink}}}, noon)
	batches, _ := l.next(noon)
	g.Expect(batches).To(HaveLen(1))
	g.Expect(keysOf(batches)).To(BeEmpty())
	l.done(batches[0], report{}, noon)
	g.Expect(l.keysAt(noon.Add(window))).To(Equal([]string{"a1"}))
}

func message(event candorv1alpha1.EventType, key string) candorv1alpha1.PolicyMessage {
	return candorv1alpha1.PolicyMessage{Event: event, Key: key, At: metav1.NewTime(noon)}
}

func TestAMessageAboutThePolicyGoesFirstAndAlone(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	policy := slack.policyName()
	offer := func(messages ...candorv1alpha1.PolicyMessage) {
		l.offer(policy, []offering{{sink: candorv1alpha1.Sink{Name: slack.sink}, messages: messages}, {sink: candorv1alpha1.Sink{Name: pager.sink}}}, noon)
	}
	l.put(slack, "a", noon, "a1")
	summary, digest := message(candorv1alpha1.EventCreated, "summary"), message(candorv1alpha1.EventDigest, "digest")
	offer(summary, digest)
	batches, _ := l.next(noon)
	g.Expect(keysOf(batches)).To(Equal([]string{"summary"}))
	offer(summary, digest)
	first := batches[0]
	if first.sinkKey != slack {
		first = batches[1]
	}
	_, policies := l.done(first, report{}, noon)
	g.Expect(policies).To(Equal([]types.NamespacedName{policy}))
	offer(summary, digest)
	g.Expect(l.keysAt(noon)).To(Equal([]string{"digest"}), "the summary was sent, and that is not stored yet")
	results := l.messageResults(policy)
	g.Expect(results).To(HaveKey(slack.sink))
	g.Expect(results[slack.sink]).To(Equal([]notify.Result{{Key: "summary", Delivered: true, At: noon}}))
	l.messagesStored(policy, results)
	g.Expect(l.messageResults(policy)).To(BeEmpty())
}

func TestASinkThatIsGoneTakesNothingWithIt(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	policy := slack.policyName()
	l.offer(policy, []offering{{sink: candorv1alpha1.Sink{Name: slack.sink}}, {sink: candorv1alpha1.Sink{Name: pager.sink}}}, noon)
	l.submit("a", findingNamed("a"), append(at(slack, "a", noon, "s"), at(pager, "a", noon, "p")...))
	l.offer(policy, []offering{{sink: candorv1alpha1.Sink{Name: pager.sink}}}, noon)
	batches, _ := l.next(noon)
	g.Expect(keysOf(batches)).To(Equal([]string{"p"}))
	l.forgetPolicy(policy)
	findings, policies := l.done(batches[0], report{}, noon)
	g.Expect(findings).To(Equal([]types.NamespacedName{findingNamed("a")}), "what was sent is known of the Finding")
	g.Expect(policies).To(Or(BeEmpty(), HaveLen(1)))
	g.Expect(l.bySink).To(BeEmpty())

	l.put(slack, "b", noon, "b1")
	batches, _ = l.next(noon)
	l.done(batches[0], report{gone: true}, noon)
	g.Expect(l.resultsOf("b")).To(BeEmpty())
	g.Expect(l.bySink).To(BeEmpty())
	g.Expect(l.underway).To(BeEmpty())
}
