// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	waiting  = candorv1alpha1.NotificationPending
	sent     = candorv1alpha1.NotificationSent
	hopeless = candorv1alpha1.NotificationFailed
)

// entry is one of an outbox: the minute in which it happened is its fingerprint too.
func entry(sink string, event candorv1alpha1.EventType, minute int, state candorv1alpha1.NotificationState) candorv1alpha1.Notification {
	return candorv1alpha1.Notification{
		Sink: sink, Event: event, Fingerprint: fmt.Sprintf("%016d", minute), State: state,
		At: metav1.NewTime(start.Add(time.Duration(minute) * time.Minute)),
	}
}

func occasion(event candorv1alpha1.EventType, minute int) Occasion {
	return Occasion{Event: event, Fingerprint: fmt.Sprintf("%016d", minute)}
}

// list says an outbox in words, such as "a:Created@0 sent".
func list(entries []candorv1alpha1.Notification) []string {
	said := make([]string, 0, len(entries))
	for _, n := range entries {
		word := fmt.Sprintf("%s:%s@%.0f", n.Sink, n.Event, n.At.Sub(start).Minutes())
		if n.State != waiting {
			word += " " + strings.ToLower(string(n.State))
		}
		said = append(said, word)
	}
	return said
}

func queueAt(minute int, notified []candorv1alpha1.Notification, due Occasion, sinks ...string) (queued, lost []candorv1alpha1.Notification) {
	return Queue(notified, due, sinks, start.Add(time.Duration(minute)*time.Minute))
}

func TestQueue(t *testing.T) {
	for name, c := range map[string]struct {
		notified []candorv1alpha1.Notification
		due      Occasion
		minute   int
		sinks    []string
		queued   []string
	}{
		"an event waits once for each sink": {
			due: occasion(created, 0), sinks: []string{"p/a", "p/b"}, queued: []string{"p/a:Created@0", "p/b:Created@0"},
		},
		"an event that waits already is not queued again": {
			notified: []candorv1alpha1.Notification{entry("p/a", created, 0, waiting)},
			due:      occasion(created, 0), minute: 5, sinks: []string{"p/a"}, queued: []string{"p/a:Created@0"},
		},
		"an event that was sent is not queued again": {
			notified: []candorv1alpha1.Notification{entry("p/a", escalated, 0, sent)},
			due:      occasion(escalated, 0), minute: 5, sinks: []string{"p/a"}, queued: []string{"p/a:Escalated@0 sent"},
		},
		"an event that nobody could be told of is queued again": {
			notified: []candorv1alpha1.Notification{entry("p/a", escalated, 0, hopeless)},
			due:      occasion(escalated, 0), minute: 5, sinks: []string{"p/a"}, queued: []string{"p/a:Escalated@5"},
		},
		"a mute of equal content that ends a second time is told of again": {
			notified: []candorv1alpha1.Notification{entry("p/a", unmuted, 0, sent)},
			due:      occasion(unmuted, 0), minute: 5, sinks: []string{"p/a"}, queued: []string{"p/a:SuppressionEnded@5"},
		},
		"the same event with other content is another one": {
			notified: []candorv1alpha1.Notification{entry("p/a", escalated, 0, sent)},
			due:      occasion(escalated, 1), minute: 1, sinks: []string{"p/a"}, queued: []string{"p/a:Escalated@0 sent", "p/a:Escalated@1"},
		},
		"nobody is told where no sink hears of it": {due: occasion(created, 0), queued: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := slices.Clone(c.notified)
			queued, lost := queueAt(c.minute, c.notified, c.due, c.sinks...)
			g.Expect(list(queued)).To(Equal(c.queued))
			g.Expect(lost).To(BeEmpty())
			g.Expect(c.notified).To(Equal(before), "what is handed in stays")
		})
	}
}

func TestWhatGoesWhereThereIsNoRoom(t *testing.T) {
	// full is an outbox of a sink that takes nothing, after what is given: its entries differ in nothing but the content.
	full := func(first ...candorv1alpha1.Notification) []candorv1alpha1.Notification {
		for i := len(first); i < MaxEntries; i++ {
			first = append(first, entry(fmt.Sprintf("p/other-%d", i), created, 50, waiting))
		}
		return first
	}
	for name, c := range map[string]struct {
		notified []candorv1alpha1.Notification
		gone     []string
		lost     []string
	}{
		"what was sent goes first, the oldest of it": {
			full(entry("p/a", created, 0, hopeless), entry("p/a", escalated, 1, sent), entry("p/b", created, 2, sent)),
			[]string{"p/a:Escalated@1 sent"},
			nil,
		},
		"then what nobody could be told of": {
			full(entry("p/a", created, 0, waiting), entry("p/a", escalated, 1, hopeless)), []string{"p/a:Escalated@1 failed"}, nil,
		},
		"then an end and the return after which it ended again": {
			full(entry("p/b", created, 0, waiting), entry("p/a", ended, 1, waiting), entry("p/a", returned, 2, waiting), entry("p/a", escalated, 3, waiting),
				entry("p/a", ended, 4, waiting)),
			[]string{"p/a:Resolved@1", "p/a:Recurred@2", "p/a:Escalated@3"},
			[]string{"p/a:Resolved@1", "p/a:Recurred@2", "p/a:Escalated@3"},
		},
		"then what a later entry of the same sink supersedes": {
			full(entry("p/b", created, 0, waiting), entry("p/a", created, 1, waiting), entry("p/a", escalated, 2, waiting)),
			[]string{"p/a:Created@1"},
			[]string{"p/a:Created@1"},
		},
		"then the oldest": {
			full(entry("p/b", created, 1, waiting), entry("p/a", created, 0, waiting)), []string{"p/a:Created@0"}, []string{"p/a:Created@0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			queued, lost := queueAt(60, c.notified, occasion(created, 60), "p/new")
			want := slices.DeleteFunc(list(c.notified), func(s string) bool { return slices.Contains(c.gone, s) })
			g.Expect(list(queued)).To(Equal(append(want, "p/new:Created@60")))
			g.Expect(list(lost)).To(ConsistOf(c.lost))
		})
	}
}

func TestOfMoreSinksThanThereIsRoomForTheFirstHear(t *testing.T) {
	g := NewWithT(t)
	var sinks []string
	for i := range 27 {
		sinks = append(sinks, fmt.Sprintf("p/%02d", i))
	}
	queued, lost := queueAt(0, nil, occasion(created, 0), sinks...)
	g.Expect(queued).To(HaveLen(MaxEntries))
	g.Expect(lost).To(HaveLen(27 - MaxEntries))
	g.Expect(queued[0].Sink).To(Equal("p/00"))
	g.Expect(queued[15].Sink).To(Equal("p/15"))
	again, _ := queueAt(0, queued, occasion(created, 0), sinks...)
	g.Expect(again).To(Equal(queued), "and it is the same ones each time")
}

// anOutbox returns what any history may have left, with names of sinks up to the longest, and what is due now.
func anOutbox(r *rand.Rand) (notified []candorv1alpha1.Notification, due Occasion, sinks []string, minute int) {
	names := make([]string, 1+r.IntN(20))
	for i := range names {
		stuff := strings.Repeat(string([]rune{'a', '<', 'ü', '\u2028'}[r.IntN(4)]), r.IntN(90))
		names[i] = fmt.Sprintf("p%s/%d", stuff, i)
	}
	something := func() Occasion {
		all := []candorv1alpha1.EventType{created, escalated, returned, ended, unmuted}
		return Occasion{Event: all[r.IntN(len(all))], Fingerprint: fmt.Sprintf("%016d", r.IntN(3)), Occurrence: int32(r.IntN(3)), Severity: "CRITICAL", Before: "MEDIUM"}
	}
	some := func() []string {
		var picked []string
		for _, name := range names {
			if r.IntN(3) > 0 {
				picked = append(picked, name)
			}
		}
		return picked
	}
	for range r.IntN(12) {
		minute += r.IntN(2)
		notified, _ = queueAt(minute, notified, something(), some()...)
		for i := range notified {
			if notified[i].State == waiting {
				notified[i].State = []candorv1alpha1.NotificationState{waiting, waiting, sent, hopeless}[r.IntN(4)]
			}
		}
	}
	return notified, something(), some(), minute + r.IntN(2)
}

func TestQueueingTwiceIsQueueingOnce(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		notified, due, sinks, minute := anOutbox(r)
		once, _ := queueAt(minute, notified, due, sinks...)
		twice, lost := queueAt(minute, once, due, sinks...)
		if !slices.Equal(list(once), list(twice)) {
			t.Fatalf("seed %d: queueing %s for %q again changes\n%q into\n%q, losing %q", seed, due.Event, sinks, list(once), list(twice), list(lost))
		}
	}
}

func TestTheOutboxIsBounded(t *testing.T) {
	most := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		notified, due, sinks, minute := anOutbox(r)
		queued, _ := queueAt(minute, notified, due, sinks...)
		for i := range queued {
			if queued[i].State == waiting {
				queued[i].Attempts = int32(r.IntN(maxAttempts + 1))
			}
			result := Result{Key: Key("uid", queued[i]), At: queued[i].At.Add(time.Hour)}
			queued, _ = Record(queued, "uid", []Result{result})
		}
		text, err := json.Marshal(queued)
		if err != nil {
			t.Fatal(err)
		}
		if len(queued) > MaxEntries || len(text) > MaxBytes {
			t.Fatalf("seed %d: %d entries, %d bytes", seed, len(queued), len(text))
		}
		most = max(most, len(text))
	}
	NewWithT(t).Expect(most).To(BeNumerically(">", MaxBytes*3/4), "the names are long enough for the bound to matter")
}

func TestWhatWaitsIsKeptOrReportedLost(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		notified, due, sinks, minute := anOutbox(r)
		queued, lost := queueAt(minute, notified, due, sinks...)
		known := append(list(queued), list(lost)...)
		for _, said := range list(notified) {
			if !strings.Contains(said, " ") && !slices.Contains(known, said) {
				t.Fatalf("seed %d: %s is gone, and nobody says so", seed, said)
			}
		}
	}
}
