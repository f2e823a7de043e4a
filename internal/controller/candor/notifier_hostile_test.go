// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// offered hands in the sink slack with an address.
func (l *lanes) offered(address string, messages ...candorv1alpha1.PolicyMessage) {
	l.offer(slack.policyName(), []offering{{sink: candorv1alpha1.Sink{Name: slack.sink, URL: address}, messages: messages}}, noon)
}

func TestASinkThatIsMadeAgainHasOneBatchAtATime(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	summary := message(candorv1alpha1.EventCreated, "summary")
	l.offered("https://a.example", summary)
	old, _ := l.next(noon)
	g.Expect(keysOf(old)).To(Equal([]string{"summary"}))
	l.forgetPolicy(slack.policyName())
	l.offered("https://b.example", summary)
	l.put(slack, "a", noon, "a1")
	later := noon.Add(time.Hour)
	g.Expect(l.keysAt(later)).To(BeEmpty(), "the old one is being posted to yet")
	l.done(old[0], report{trouble: down}, later)
	g.Expect(l.does(slack)).To(BeZero(), "the new one is not to blame for the old one")
	batches, _ := l.next(later)
	g.Expect(keysOf(batches)).To(Equal([]string{"a1"}))
	g.Expect(l.keysAt(later)).To(BeEmpty())
	l.done(batches[0], report{}, later)
	g.Expect(l.underway).To(BeEmpty())
}

func TestASinkThatIsChangedWhileItIsPostedToIsCheckedAllTheSame(t *testing.T) {
	for name, r := range map[string]report{
		"after a success": {}, "after a failure": {trouble: down, failed: []string{"a1"}}, "after it could be sent nothing": {trouble: wrong},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newLanes(0)
			l.offered("https://a.example")
			l.put(slack, "a", noon, "a1")
			batches, _ := l.next(noon)
			g.Expect(keysOf(batches)).To(Equal([]string{"a1"}))
			l.offered("https://b.example")
			l.done(batches[0], r, noon)
			g.Expect(l.does(slack)).To(BeZero())
			checks, _ := l.next(noon)
			g.Expect(checks).To(HaveLen(1), "the new address is looked at now")
			l.done(checks[0], report{trouble: wrong}, noon)
			g.Expect(l.does(slack).state).To(Equal(candorv1alpha1.SinkMisconfigured))
		})
	}
}

func TestAMessageToAChangedSinkThatCouldBeSentNothingIsHandedInAgain(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	digest := message(candorv1alpha1.EventDigest, "digest")
	l.offered("https://a.example", digest)
	batches, _ := l.next(noon)
	l.offered("https://b.example", digest)
	_, policies := l.done(batches[0], report{trouble: wrong}, noon)
	g.Expect(policies).To(HaveLen(1), "its pass")
	l.offered("https://b.example", digest)
	g.Expect(l.keysAt(noon)).To(Equal([]string{"digest"}))
}

func TestFindingsThatWaitedForASinkThatIsGoneAreLookedAt(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	l.offered("https://a.example")
	l.put(slack, "a", noon, "a1")
	l.forgetPolicy(slack.policyName())
	g.Expect(l.orphaned()).To(Equal([]types.NamespacedName{findingNamed("a")}))
	g.Expect(l.orphaned()).To(BeEmpty())

	l.put(slack, "b", noon, "b1")
	batches, _ := l.next(noon)
	l.offered("https://b.example")
	findings, _ := l.done(batches[0], report{gone: true}, noon)
	g.Expect(findings).To(Equal([]types.NamespacedName{findingNamed("b")}), "there was none for a moment")
}

func TestAnEventThatAReceiverRefusesTakesNoOtherWithIt(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	type state struct {
		attempts int32
		next     time.Time
	}
	left := map[string]*state{}
	for i := range notify.MaxEvents {
		left[fmt.Sprintf("%02d", i)] = &state{}
	}
	const poison = "13"
	now := noon
	for ; now.Before(noon.Add(2*time.Hour)) && len(left) > 1; now = now.Add(10 * time.Second) {
		fresh := fmt.Sprint("fresh-", now.Unix())
		left[fresh] = &state{} // of a receiver that takes what else there is
		for key, s := range left {
			if !s.next.After(now) {
				parcels := at(slack, key, now, key)
				parcels[0].attempts = s.attempts
				l.submit(types.UID(key), findingNamed(key), parcels)
			}
		}
		batches, _ := l.next(now)
		keys, r := keysOf(batches), report{}
		if slices.Contains(keys, poison) {
			r = report{trouble: down, failed: keys}
		}
		for _, b := range batches {
			l.done(b, r, now)
		}
		for _, key := range keys {
			l.stored(types.UID(key), l.resultsOf(types.UID(key)))
			if r.trouble == nil {
				delete(left, key)
				continue
			}
			left[key].attempts++
			left[key].next = now.Add(notify.Backoff(left[key].attempts, 0))
		}
	}
	g.Expect(left).To(HaveKey(poison))
	delete(left, poison)
	for key, s := range left {
		g.Expect(s.attempts).To(BeNumerically("<", 5), "%s goes alone after so many", key)
		g.Expect(key).To(HavePrefix("fresh-"))
	}
}

func TestReceiversThatAreSlowHoldUpNobodyElses(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(0)
	hostile := func(n int) sinkKey { return sinkKey{"hostile", fmt.Sprint("policy-", n), "tar"} }
	for n := range 3 * maxPosts {
		for i := range 1000 {
			uid := fmt.Sprint(n, "-", i)
			l.put(hostile(n), uid, noon, uid)
		}
	}
	now := noon.Add(time.Minute)
	running, _ := l.next(now)
	g.Expect(running).To(HaveLen(maxPostsEach), "of one namespace")
	for n := range 3 {
		sink := slack
		sink.namespace = fmt.Sprint("team-", n)
		l.put(sink, fmt.Sprint(n), now, fmt.Sprint("key-", n))
	}
	g.Expect(l.keysAt(now)).To(ConsistOf("key-0", "key-1", "key-2"), "others have room at once")

	// A second namespace takes the rest. Whoever has been served goes to the end of the line.
	crowd := newLanes(0)
	for n := range 3 * maxPosts {
		for i := range 1000 {
			uid := fmt.Sprint(n, "-", i)
			key := hostile(n)
			key.namespace = fmt.Sprint("hostile-", n%2)
			crowd.put(key, uid, noon, uid)
		}
	}
	running, _ = crowd.next(now)
	g.Expect(running).To(HaveLen(maxPosts))
	crowd.put(slack, "a", now, "a1")
	rounds := 0
	for ; rounds < 10; rounds++ {
		now = now.Add(200 * time.Second)
		for _, b := range running {
			crowd.done(b, report{}, now)
		}
		if running, _ = crowd.next(now); slices.Contains(keysOf(running), "a1") {
			break
		}
	}
	g.Expect(rounds).To(BeNumerically("<=", 3), "not after 1,000 events of each")
}

// Of 40 sinks in 20 namespaces none answers, and each waits for 30 events at first.
func TestSinksThatAreAllDownCostLittle(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	type waiting struct {
		sink     sinkKey
		attempts int32
		next     time.Time
	}
	const sinks = 40
	events := map[string]*waiting{}
	for n := range sinks {
		sink := sinkKey{fmt.Sprint("team-", n/2), "default", fmt.Sprint("sink-", n%2)}
		for i := range 30 {
			events[fmt.Sprint(n, "-", i)] = &waiting{sink: sink}
		}
	}
	hand := func(key string, now time.Time) {
		parcels := at(events[key].sink, key, now, key)
		parcels[0].attempts, parcels[0].event.At = events[key].attempts, noon
		l.submit(types.UID(key), findingNamed(key), parcels)
	}
	for key := range events {
		hand(key, noon)
	}
	var running []*batch
	posts, writes, most := map[int]int{}, map[int]int{}, 0
	const step = postTimeout
	for now := noon; now.Before(noon.Add(30 * time.Hour)); now = now.Add(step) {
		hour := int(now.Sub(noon) / time.Hour)
		for _, b := range running {
			keys := keysOf([]*batch{b})
			posts[hour]++
			l.done(b, report{trouble: down, failed: keys}, now)
		}
		for key, e := range events {
			uid := types.UID(key)
			if results := l.resultsOf(uid); len(results) > 0 {
				writes[hour]++
				l.stored(uid, results)
				e.attempts, e.next = e.attempts+1, now.Add(notify.Backoff(e.attempts+1, 0))
				if overdue(noon, now) {
					delete(events, key)
				}
			} else if !e.next.IsZero() && !e.next.After(now) {
				e.next = time.Time{}
				hand(key, now)
			}
		}
		running, _ = l.next(now)
		most = max(most, len(running))
	}
	g.Expect(most).To(Equal(maxPosts))
	for hour := 2; hour < 24; hour++ {
		g.Expect(posts[hour]).To(BeNumerically("<=", 2*sinks), "hour %d", hour)
		g.Expect(writes[hour]).To(BeNumerically("<=", 5*sinks), "hour %d", hour)
	}
	g.Expect(events).To(BeEmpty(), "a day later they are given up")
	g.Expect(l.findings).To(BeEmpty())
	g.Expect(posts[29] + writes[29]).To(BeZero())
	t.Logf("posts in the hours of a day: %v; writes: %v", posts, writes)
}
