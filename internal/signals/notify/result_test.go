// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

func TestBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		failures   int32
		retryAfter time.Duration
		wait       time.Duration
	}{
		"half a minute after the first failure":          {1, 0, 30 * time.Second},
		"twice as long after the second":                 {2, 0, time.Minute},
		"32 minutes after the seventh":                   {7, 0, 32 * time.Minute},
		"an hour after the eighth":                       {8, 0, time.Hour},
		"an hour after any number":                       {1 << 30, 0, time.Hour},
		"half a minute after none":                       {0, 0, 30 * time.Second},
		"as long as the receiver asks for":               {1, 10 * time.Minute, 10 * time.Minute},
		"not less than its own where it asks for less":   {4, time.Second, 4 * time.Minute},
		"an hour where the receiver asks for more":       {1, 48 * time.Hour, time.Hour},
		"its own where the receiver asks for the past":   {1, -time.Hour, 30 * time.Second},
		"a number of failures below zero is none at all": {-5, 0, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Backoff(c.failures, c.retryAfter)).To(Equal(c.wait)) })
	}
}

func TestRecord(t *testing.T) {
	one := entry("p/a", created, 0, waiting)
	failure := func(after time.Duration) Result { return Result{Key: Key(uid, one), At: start.Add(after)} }
	success := func(after time.Duration) Result {
		return Result{Key: Key(uid, one), At: start.Add(after), Delivered: true}
	}
	retryAt := func(after time.Duration, attempts int32) candorv1alpha1.Notification {
		n := one
		n.Attempts, n.NextAttempt = attempts, metav1.NewTime(start.Add(after))
		return n
	}
	as := func(n candorv1alpha1.Notification, state candorv1alpha1.NotificationState) candorv1alpha1.Notification {
		n.State, n.NextAttempt = state, metav1.Time{}
		return n
	}
	for name, c := range map[string]struct {
		from    candorv1alpha1.Notification
		results []Result
		to      candorv1alpha1.Notification
		givenUp bool
	}{
		"what was delivered is sent":                  {from: one, results: []Result{success(time.Second)}, to: as(one, sent)},
		"what failed is tried again half a minute on": {from: one, results: []Result{failure(time.Minute)}, to: retryAt(90*time.Second, 1)},
		"what failed twice waits longer":              {from: retryAt(90*time.Second, 1), results: []Result{failure(2 * time.Minute)}, to: retryAt(3*time.Minute, 2)},
		"a receiver that asks for time gets it": {
			from: one, results: []Result{{Key: Key(uid, one), At: start, RetryAfter: 7 * time.Minute}}, to: retryAt(7*time.Minute, 1),
		},
		"what failed and then was delivered is sent":        {from: one, results: []Result{failure(0), success(time.Minute)}, to: as(retryAt(0, 1), sent)},
		"what fails a day after it happened is given up":    {from: retryAt(0, 30), results: []Result{failure(Patience)}, to: as(retryAt(0, 31), hopeless), givenUp: true},
		"what fails just before that is tried once more":    {from: one, results: []Result{failure(Patience - time.Second)}, to: retryAt(Patience+29*time.Second, 1)},
		"a failure after a delivery changes nothing":        {from: as(one, sent), results: []Result{failure(time.Minute)}, to: as(one, sent)},
		"a failure of what was given up changes nothing":    {from: as(one, hopeless), results: []Result{failure(Patience)}, to: as(one, hopeless)},
		"a delivery of what was given up is a delivery":     {from: as(one, hopeless), results: []Result{success(Patience)}, to: as(one, sent)},
		"a result of something else changes nothing":        {from: one, results: []Result{{Key: "another", Delivered: true}}, to: one},
		"the number of attempts does not grow without end":  {from: retryAt(0, maxAttempts), results: []Result{failure(time.Minute)}, to: retryAt(61*time.Minute, maxAttempts)},
		"a time in another zone is stored as the same time": {from: one, results: []Result{{Key: Key(uid, one), At: start.In(time.FixedZone("", 7200))}}, to: retryAt(30*time.Second, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			from := []candorv1alpha1.Notification{c.from}
			recorded, failed := Record(from, uid, c.results)
			g.Expect(recorded).To(Equal([]candorv1alpha1.Notification{c.to}))
			g.Expect(failed).To(HaveLen(map[bool]int{true: 1}[c.givenUp]))
			g.Expect(from[0]).To(Equal(c.from), "what is handed in stays")
		})
	}
}

func TestWhatIsReadyIsSentInOrder(t *testing.T) {
	g := NewWithT(t)
	later := func(n candorv1alpha1.Notification, minute int) candorv1alpha1.Notification {
		n.NextAttempt = metav1.NewTime(start.Add(time.Duration(minute) * time.Minute))
		return n
	}
	outbox := []candorv1alpha1.Notification{
		entry("p/a", created, 0, sent),
		later(entry("p/a", escalated, 1, waiting), 10),
		entry("p/b", escalated, 1, waiting),
		entry("p/a", ended, 2, waiting),
		later(entry("p/b", ended, 2, waiting), 5),
		later(entry("p/c", ended, 2, hopeless), 3),
	}
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	g.Expect(list(Ready(outbox, at(4)))).To(Equal([]string{"p/b:Escalated@1"}), "an end is not told before what it ends")
	g.Expect(NextAttempt(outbox, at(4))).To(BeTemporally("==", at(5)))
	g.Expect(list(Ready(outbox, at(5)))).To(Equal([]string{"p/b:Escalated@1", "p/b:Resolved@2"}))
	g.Expect(NextAttempt(outbox, at(5))).To(BeTemporally("==", at(10)))
	g.Expect(list(Ready(outbox, at(10)))).To(HaveLen(4))
	g.Expect(NextAttempt(outbox, at(10))).To(BeZero(), "the rest is on its way")
	g.Expect(Ready(nil, at(0))).To(BeEmpty())
}

func TestAKeyTellsEventsApart(t *testing.T) {
	g := NewWithT(t)
	base := entry("p/a", created, 0, waiting)
	// printf 'u\0Created\00000000000000000\00\0p/a' | sha256sum, the first 32 digits
	g.Expect(Key("u", base)).To(Equal("e627efd4063c637f4ee1026ccb3901f7"))

	keys := map[string]string{Key("u", base): "the first", Key("v", base): "another Finding"}
	for name, change := range map[string]func(*candorv1alpha1.Notification){
		"another event": func(n *candorv1alpha1.Notification) { n.Event = ended }, "another sink": func(n *candorv1alpha1.Notification) { n.Sink = "p/b" },
		"other content": func(n *candorv1alpha1.Notification) { n.Fingerprint = "x" }, "another occurrence": func(n *candorv1alpha1.Notification) { n.Occurrence = 1 },
		"the end of a mute":         func(n *candorv1alpha1.Notification) { n.Event = unmuted },
		"the end of a later mute":   func(n *candorv1alpha1.Notification) { n.Event = unmuted; n.At = metav1.NewTime(start.Add(time.Hour)) },
		"a sink that ends alike":    func(n *candorv1alpha1.Notification) { n.Fingerprint, n.Sink = "0", "0\x00p/a" },
		"an event that ends longer": func(n *candorv1alpha1.Notification) { n.Event = "Created\x000000000000000000" },
	} {
		n := base
		change(&n)
		keys[Key("u", n)] = name
	}
	g.Expect(keys).To(HaveLen(10))

	attempted := base
	attempted.Attempts, attempted.State, attempted.NextAttempt, attempted.At = 3, sent, metav1.NewTime(start), metav1.NewTime(start.Add(time.Hour))
	g.Expect(Key("u", attempted)).To(Equal(Key("u", base)), "whatever becomes of it")
}

func TestASignatureCoversTheTimeAndTheBody(t *testing.T) {
	g := NewWithT(t)
	at := time.Unix(1_700_000_000, 0)
	r := Request{ContentType: "application/json", Body: []byte(`{"kind":"Digest"}`), Key: "0123"}
	h := r.Headers([]byte("s3cret"), at)
	// printf '1700000000.{"kind":"Digest"}' | openssl dgst -sha256 -hmac s3cret
	g.Expect(h.Get(HeaderSignature)).To(Equal("sha256=a3cad9a2ad435b1e61cf74a01fab31b8460709fb62d73cd9522664b93bde0ee2"))
	g.Expect(h.Get(HeaderTimestamp)).To(Equal("1700000000"))
	g.Expect(h.Get(HeaderKey)).To(Equal("0123"))
	g.Expect(h.Get("Content-Type")).To(Equal("application/json"))
	g.Expect(Signature([]byte("s3cret"), at.Add(time.Second), r.Body)).NotTo(Equal(h.Get(HeaderSignature)))
	g.Expect(Signature([]byte("s3cret"), at, []byte(`{}`))).NotTo(Equal(h.Get(HeaderSignature)))
	g.Expect(Signature([]byte("other"), at, r.Body)).NotTo(Equal(h.Get(HeaderSignature)))

	unsigned := r.Headers(nil, at)
	g.Expect(unsigned.Values(HeaderSignature)).To(BeEmpty())
	g.Expect(unsigned.Values(HeaderTimestamp)).To(BeEmpty())
	g.Expect(unsigned.Get(HeaderKey)).To(Equal("0123"))
}
