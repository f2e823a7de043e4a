// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/go-openapi/strfmt"
	. "github.com/onsi/gomega"
	"github.com/prometheus/alertmanager/api/v2/models"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/render"
)

// alerts reads the alerts of a message as Alertmanager does, and has its own types check them.
func alerts(t *testing.T, m notify.Message, o notify.Options) models.PostableAlerts {
	t.Helper()
	g := NewWithT(t)
	requests, err := render.Requests(candorv1alpha1.SinkAlertmanager, m, o)
	g.Expect(err).NotTo(HaveOccurred())
	var all models.PostableAlerts
	for _, r := range requests {
		g.Expect(r.Path).To(Equal("/api/v2/alerts"))
		var posted models.PostableAlerts
		g.Expect(json.Unmarshal(r.Body, &posted)).To(Succeed())
		g.Expect(posted.Validate(strfmt.Default)).To(Succeed())
		g.Expect(len(posted)).To(BeNumerically("<=", 200))
		all = append(all, posted...)
	}
	for _, a := range all {
		if start := time.Time(a.StartsAt); !start.IsZero() {
			g.Expect(time.Time(a.EndsAt)).To(BeTemporally(">", start), "Alertmanager refuses an alert that ends before it starts")
		}
		for name, value := range a.Labels {
			g.Expect(value).NotTo(BeEmpty(), "Alertmanager drops the label %s", name)
		}
	}
	return all
}

func TestAlertmanagerTakesWhatItIsPosted(t *testing.T) {
	for name, m := range messages(finding) {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(alerts(t, m, notify.Options{})).NotTo(BeEmpty())
		})
	}
}

// firing follows alerts as Alertmanager does, by a clock that is 20 s behind ours: one is known by its labels and fires until
// its end. Of two ends that are in the future the later one counts.
func firing(posts ...models.PostableAlerts) map[string]time.Time {
	now := at.Add(-20 * time.Second)
	ends := map[string]time.Time{}
	for _, a := range slices.Concat(posts...) {
		labels, _ := json.Marshal(a.Labels)
		old, end := ends[string(labels)], time.Time(a.EndsAt)
		if end.After(now) && old.After(end) {
			end = old
		}
		ends[string(labels)] = end
	}
	maps.DeleteFunc(ends, func(_ string, end time.Time) bool { return !end.After(now) })
	return ends
}

func TestAnAlertFiresWhileTheFindingIsOpen(t *testing.T) {
	tell := func(events ...notify.Event) models.PostableAlerts {
		return alerts(t, notify.Message{Kind: notify.KindEvents, Namespace: "team-a", Policy: "default", At: at, Events: events}, notify.Options{Keep: 3 * time.Hour})
	}
	with := func(severity candorv1alpha1.Severity) func(*candorv1alpha1.Notification) {
		return func(n *candorv1alpha1.Notification) { n.Severity = severity }
	}
	medium := tell(event(finding(), candorv1alpha1.EventCreated, with("MEDIUM")))
	worse := tell(event(finding(), candorv1alpha1.EventEscalated, raised))
	over := tell(event(finding(became(candorv1alpha1.OutcomeResolved)), candorv1alpha1.EventResolved, with("LOW")))

	g := NewWithT(t)
	g.Expect(firing(medium)).To(HaveLen(1))
	for _, until := range firing(medium) {
		g.Expect(until).To(BeTemporally("==", at.Add(3*time.Hour)))
	}
	g.Expect(firing(medium, worse)).To(Equal(firing(worse)), "the milder alert ends")
	g.Expect(firing(worse)).To(HaveLen(1))
	g.Expect(firing(medium, worse, over)).To(BeEmpty(), "it ends whatever severity it had been told with")
	g.Expect(firing(tell(
		event(finding(), candorv1alpha1.EventResolved), event(finding(became(candorv1alpha1.OutcomeRecurred)), candorv1alpha1.EventRecurred, again),
	))).To(HaveLen(1), "an end and a return in one message leave it firing")
}

func TestADigestKeepsAlertsAliveAndPostsThemInBatches(t *testing.T) {
	g := NewWithT(t)
	m := messages(finding)["digest"]
	m.Open = many(450).Events
	for i := range m.Open {
		m.Open[i].Kind = notify.KindOpen
	}
	requests, err := render.Requests(candorv1alpha1.SinkAlertmanager, m, notify.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests).To(HaveLen(3))
	g.Expect(alerts(t, m, notify.Options{})).To(HaveLen(450))
	g.Expect(firing(alerts(t, m, notify.Options{}))).To(HaveLen(450))
	for _, r := range requests {
		g.Expect(r.Events).To(BeEmpty())
	}
}

func TestTheSDKOfCloudEventsReadsWhatItIsPosted(t *testing.T) {
	for name, m := range messages(finding) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			requests, err := render.Requests(candorv1alpha1.SinkCloudEvents, m, notify.Options{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(requests).NotTo(BeEmpty())
			for i, r := range requests {
				g.Expect(r.ContentType).To(Equal(cloudevents.ApplicationCloudEventsJSON))
				var e cloudevents.Event
				g.Expect(json.Unmarshal(r.Body, &e)).To(Succeed())
				g.Expect(e.Validate()).To(Succeed())
				g.Expect(e.ID()).To(Equal(r.Key))
				g.Expect(e.Source()).To(Equal("/namespaces/team-a/signalpolicies/default"))
				if m.Kind != notify.KindEvents {
					g.Expect(e.Time()).To(BeTemporally("==", at))
					continue
				}
				g.Expect(e.Subject()).To(Equal("trivy-fa8dd5a24c3a3453cefb"))
				var data notify.Event
				g.Expect(e.DataAs(&data)).To(Succeed())
				g.Expect(data).To(Equal(m.Events[i]))
			}
		})
	}
}

func TestADigestEndsTheAlertsOfWhatIsMutedOrMilder(t *testing.T) {
	g := NewWithT(t)
	with := func(name string, severity candorv1alpha1.Severity) notify.Event {
		e := notify.OpenEvent(finding())
		e.Finding, e.Severity = name, severity
		return e
	}
	digest := func(open, quiet []notify.Event) models.PostableAlerts {
		return alerts(t, notify.Message{
			Kind: notify.KindDigest, Namespace: "team-a", Policy: "default", Sink: "alerts", Key: "k", At: at,
			Digest: &notify.Digest{}, Open: open, Quiet: quiet,
		}, notify.Options{Keep: time.Hour})
	}
	before := digest([]notify.Event{with("same", "HIGH"), with("fell", "CRITICAL"), with("below", "HIGH"), with("muted", "CRITICAL")}, nil)
	after := digest([]notify.Event{with("same", "HIGH"), with("fell", "HIGH")}, []notify.Event{with("below", "MEDIUM"), with("muted", "")})
	g.Expect(firing(before)).To(HaveLen(4))
	fires := firing(before, after)
	g.Expect(fires).To(Equal(firing(digest([]notify.Event{with("same", "HIGH"), with("fell", "HIGH")}, nil))))
	g.Expect(fires).To(HaveLen(2))
}
