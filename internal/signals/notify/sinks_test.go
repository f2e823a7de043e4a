// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// aPolicy names the provider trivy, was made a number of days before the start, and has told its sinks of what there was then.
func aPolicy(name string, daysOld int, sinks ...candorv1alpha1.Sink) candorv1alpha1.SignalPolicy {
	p := candorv1alpha1.SignalPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, CreationTimestamp: metav1.NewTime(start.AddDate(0, 0, -daysOld))},
		Spec:       candorv1alpha1.SignalPolicySpec{Providers: []string{"trivy"}, MinSeverity: "HIGH", Sinks: sinks},
	}
	for _, s := range sinks {
		p.Status.Sinks = append(p.Status.Sinks, candorv1alpha1.SinkStatus{Name: s.Name, SummarisedAt: metav1.NewTime(start)})
	}
	return p
}

func aSink(name string, change ...func(*candorv1alpha1.Sink)) candorv1alpha1.Sink {
	s := candorv1alpha1.Sink{Name: name, Type: candorv1alpha1.SinkWebhook, URL: "https://hooks.example/" + name}
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestSinks(t *testing.T) {
	from := func(s candorv1alpha1.Severity) func(*candorv1alpha1.Sink) {
		return func(k *candorv1alpha1.Sink) { k.MinSeverity = s }
	}
	only := func(events ...candorv1alpha1.EventType) func(*candorv1alpha1.Sink) {
		return func(k *candorv1alpha1.Sink) { k.Events = events }
	}
	with := func(p candorv1alpha1.SignalPolicy, change func(*candorv1alpha1.SignalPolicy)) candorv1alpha1.SignalPolicy {
		change(&p)
		return p
	}
	high := Subject{Provider: "trivy", Severity: signals.High, FirstSeen: start.Add(time.Minute)}
	medium := high
	medium.Severity = signals.Medium
	old := high
	old.FirstSeen = start
	toldBefore := medium
	toldBefore.Told = []candorv1alpha1.Notification{entry("p/a", created, 1, sent)}

	for name, c := range map[string]struct {
		policies []candorv1alpha1.SignalPolicy
		subject  Subject
		event    candorv1alpha1.EventType
		sinks    []string
	}{
		"every sink of every policy, of the oldest first": {
			[]candorv1alpha1.SignalPolicy{aPolicy("young", 1, aSink("a")), aPolicy("old", 2, aSink("b"), aSink("a"))},
			high, created,
			[]string{"old/b", "old/a", "young/a"},
		},
		"of equally old policies the first by name": {
			[]candorv1alpha1.SignalPolicy{aPolicy("q", 1, aSink("a")), aPolicy("p", 1, aSink("a"))}, high, created, []string{"p/a", "q/a"},
		},
		"the address in spec.webhook is a sink of that name": {
			[]candorv1alpha1.SignalPolicy{with(aPolicy("p", 1, aSink("a")), func(p *candorv1alpha1.SignalPolicy) {
				p.Spec.Webhook = &candorv1alpha1.Webhook{URL: "https://hooks.example"}
				p.Status.Sinks = append(p.Status.Sinks, candorv1alpha1.SinkStatus{Name: LegacySink, SummarisedAt: metav1.NewTime(start)})
			})}, high, created, []string{"p/webhook", "p/a"},
		},
		"not of a policy that names another provider": {
			[]candorv1alpha1.SignalPolicy{with(aPolicy("p", 1, aSink("a")), func(p *candorv1alpha1.SignalPolicy) { p.Spec.Providers = []string{"trivy/config"} })},
			high, created, nil,
		},
		"not of a policy that is being deleted": {
			[]candorv1alpha1.SignalPolicy{with(aPolicy("p", 1, aSink("a")), func(p *candorv1alpha1.SignalPolicy) { p.DeletionTimestamp = &metav1.Time{Time: start} })},
			high, created, nil,
		},
		"not below the threshold of the policy":       {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a"))}, medium, created, nil},
		"at a milder threshold of the sink":           {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a", from("MEDIUM")), aSink("b"))}, medium, created, []string{"p/a"}},
		"not below a stricter threshold of the sink":  {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a", from("CRITICAL")))}, high, escalated, nil},
		"only of events that the sink wants":          {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a", only(ended)), aSink("b", only(ended, returned)))}, high, returned, []string{"p/b"}},
		"not of the creation of what was summed up":   {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a"))}, old, created, nil},
		"of whatever happens to it afterwards":        {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a"))}, old, escalated, []string{"p/a"}},
		"of the end of what it was told of":           {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a"), aSink("b"))}, toldBefore, ended, []string{"p/a"}},
		"not of the return of what became too mild":   {[]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a"))}, toldBefore, returned, nil},
		"nothing before there was one message of all": {[]candorv1alpha1.SignalPolicy{with(aPolicy("p", 1, aSink("a")), func(p *candorv1alpha1.SignalPolicy) { p.Status.Sinks = nil })}, high, created, nil},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Sinks(c.policies, c.subject, c.event)).To(Equal(c.sinks)) })
	}
}

func TestASinkIsFoundByTheNameInAnOutbox(t *testing.T) {
	g := NewWithT(t)
	policies := []candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a")), aPolicy("p.q", 1, aSink("a"), aSink("b"))}
	target, found := Find(policies, "p.q/b")
	g.Expect(found).To(BeTrue())
	g.Expect(target.Policy.Name).To(Equal("p.q"))
	g.Expect(target.Sink.URL).To(Equal("https://hooks.example/b"))
	for _, name := range []string{"p/b", "p", "p/", "/a", "q/a", ""} {
		_, found := Find(policies, name)
		g.Expect(found).To(BeFalse(), name)
	}
}

func TestWhatWaitsForASinkThatIsGoneIsForgotten(t *testing.T) {
	g := NewWithT(t)
	outbox := []candorv1alpha1.Notification{entry("p/a", created, 0, waiting), entry("p/gone", created, 0, waiting), entry("p/gone", ended, 0, sent)}
	g.Expect(list(WithoutGone(outbox, []candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a"))}))).To(Equal([]string{"p/a:Created@0", "p/gone:Resolved@0 sent"}))
	g.Expect(outbox).To(HaveLen(3), "what is handed in stays")
	g.Expect(outbox[1].Sink).To(Equal("p/gone"))
}

func TestTheCreationIsNotMissedWhileASinkSumsUp(t *testing.T) {
	summed := aPolicy("p", 1, aSink("a"), aSink("b"))
	notYet := aPolicy("q", 1, aSink("a"))
	notYet.Status.Sinks = nil
	at := func(d time.Duration, change ...func(*candorv1alpha1.Finding)) *candorv1alpha1.Finding {
		f := aFinding("HIGH", present, d)
		for _, c := range change {
			c(&f)
		}
		return &f
	}
	told := func(f *candorv1alpha1.Finding) {
		f.Status.Notified = []candorv1alpha1.Notification{entry("p/a", created, 1, waiting)}
	}
	for name, c := range map[string]struct {
		policies []candorv1alpha1.SignalPolicy
		finding  *candorv1alpha1.Finding
		after    time.Duration
		sinks    []string
		again    time.Duration
	}{
		"a sink that heard nothing of a new Finding hears of it": {[]candorv1alpha1.SignalPolicy{summed}, at(time.Minute, told), 2 * time.Minute, []string{"p/b"}, 0},
		"what a sink summed up is not missed":                    {[]candorv1alpha1.SignalPolicy{summed}, at(0), time.Minute, nil, 0},
		"a Finding that is not new is not":                       {[]candorv1alpha1.SignalPolicy{summed}, at(time.Minute), time.Hour, nil, 0},
		"a muted one is not":                                     {[]candorv1alpha1.SignalPolicy{summed}, at(time.Minute, mute), 2 * time.Minute, nil, 0},
		"one that ended is not":                                  {[]candorv1alpha1.SignalPolicy{summed}, at(time.Minute, func(f *candorv1alpha1.Finding) { f.Status.VerificationOutcome = resolved }), 2 * time.Minute, nil, 0},
		"a sink that is about to sum up is looked at again":      {[]candorv1alpha1.SignalPolicy{notYet}, at(time.Minute), time.Minute + 20*time.Second, nil, 40 * time.Second},
		"and not for ever":                                       {[]candorv1alpha1.SignalPolicy{notYet}, at(time.Minute), 3 * time.Minute, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			due, sinks, again := Unheard(c.policies, c.finding, start.Add(c.after))
			g.Expect(sinks).To(Equal(c.sinks))
			g.Expect(again).To(Equal(c.again))
			if len(sinks) > 0 {
				g.Expect(due).To(Equal(Occasion{Event: created, Fingerprint: "0123456789abcdef", Severity: "HIGH"}))
			}
		})
	}
}

func TestTheAddressOfARequest(t *testing.T) {
	for name, c := range map[string]struct{ sink, path, address string }{
		"a whole address stays":               {"https://hooks.example/services/T0/B0/x?a=b", "", "https://hooks.example/services/T0/B0/x?a=b"},
		"the path of an API is added":         {"http://alertmanager.monitoring:9093", "/api/v2/alerts", "http://alertmanager.monitoring:9093/api/v2/alerts"},
		"behind a prefix, and before a query": {"https://am.example/prefix/?tenant=a", "/api/v2/alerts", "https://am.example/prefix/api/v2/alerts?tenant=a"},
		"once where it is there":              {"https://am.example/api/v2/alerts/", "/api/v2/alerts", "https://am.example/api/v2/alerts/"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			sink, err := url.Parse(c.sink)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(Request{Path: c.path}.Address(sink).String()).To(Equal(c.address))
			g.Expect(sink.String()).To(Equal(c.sink), "what is handed in stays")
		})
	}
}
