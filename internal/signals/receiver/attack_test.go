// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/alertmanager"
	"github.com/candor-dev/candor/internal/signals/notify/cloudevents"
	"github.com/candor-dev/candor/internal/signals/notify/slack"
	"github.com/candor-dev/candor/internal/signals/notify/webhook"
)

func TestEventsWithTheSameDataSpeakOfTheirSubjects(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	ended := withoutID[:len(withoutID)-1] + `,"status":"resolved"}`
	send := func(subject, body string) string {
		r := request(body, bearing(token)...)
		for name, values := range attributes("Ce-Subject", subject) {
			r.Header[name] = values
		}
		return told(w.said(r))
	}
	g.Expect(send("CVE-1", withoutID)).To(HavePrefix("202"))
	g.Expect(send("CVE-2", withoutID)).To(HavePrefix("202"))
	g.Expect(send("CVE-2", ended)).To(HavePrefix("202"))
	g.Expect(send("CVE-1", withoutID)).To(HavePrefix("202"), "nothing else was said of it")
	g.Expect(send("CVE-2", withoutID)).To(HavePrefix("401"))
}

func TestASignalThatWasOvertakenIsLate(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	ended := replaced("status", `"resolved"`)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	send := func(seconds int, body string) string {
		return told(w.said(request(body, stamped(at(seconds), body)...)))
	}
	w.err = errDown
	g.Expect(send(1, firing)).To(HavePrefix("503"), "so the sender tries again")
	w.err, w.result = nil, Unchanged
	g.Expect(send(2, ended)).To(Equal(`202 {"result":"unchanged"}`), "since there is nothing that could remember it")
	w.result = Created
	g.Expect(send(1, firing)).To(Equal(`202 {"result":"late"}`))
	g.Expect(w.taken).To(HaveLen(1))
	g.Expect(w.received(FormCandor, Late)).To(Equal(1.0))
	g.Expect(send(2, firing)).To(Equal(`202 {"result":"created"}`), "within one second, the one that comes last counts")
	g.Expect(told(w.said(request(ended, plain(ended)...)))).To(HavePrefix("202"))
	g.Expect(send(1, firing)).To(HavePrefix("202"), "one without a time has no order")
}

func TestSlowSendersKeepNobodyOut(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	server := httptest.NewServer(w.Handler)
	defer server.Close()
	client, begun := server.Client(), strings.Repeat("x", smallBody+1)
	for i := range 2 * maxLarge { // half of them with more than others may have
		body, end := io.Pipe()
		r, err := http.NewRequest(http.MethodPost, server.URL+path, body)
		g.Expect(err).NotTo(HaveOccurred())
		go func() {
			if answer, err := client.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		}()
		defer end.Close()
		go func() { _, _ = io.WriteString(end, begun[:1+i%2*smallBody]) }()
	}
	g.Eventually(func() int { return len(w.reading) }).WithTimeout(time.Minute).Should(Equal(2 * maxLarge))
	g.Eventually(func() int { return len(w.large) }).WithTimeout(time.Minute).Should(Equal(maxLarge))
	g.Expect(told(w.said(request(firing, plain(firing)...)))).To(HavePrefix("202"))
	large := firing + strings.Repeat(" ", smallBody)
	g.Expect(told(w.said(request(large, plain(large)...)))).To(Equal(`503 {"error":"busy: try again"}`))
	g.Expect([]int{len(w.reading), len(w.large), len(w.slots)}).To(Equal([]int{2 * maxLarge, maxLarge, 0}), "what was answered left nothing behind")
}

func TestAnEscapedSlashIsNone(t *testing.T) {
	for _, target := range []string{"/webhook%2Fteam-a%2Fsignals", "/webhook/team-a%2fsignals", "/%77ebhook%2Fteam-a/signals"} {
		g, w := NewWithT(t), newWorld()
		r := httptest.NewRequest(http.MethodPost, target, nil)
		g.Expect(w.said(r).Code).To(Equal(http.StatusNotFound), target)
	}
}

func TestARefusalTakesItsTimeAndNothingElseDoes(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	w.wait = make(chan time.Time)
	g.Expect(told(w.said(request(firing, plain(firing)...)))).To(HavePrefix("202"))
	g.Expect(w.said(httptest.NewRequest(http.MethodGet, path, nil)).Code).To(Equal(http.StatusNotFound))
	refused := make(chan int, 2*maxReading)
	for range maxReading + 1 { // more than may be read or answered at once, since those who wait hold nothing
		go func() { refused <- w.said(request(firing)).Code }()
	}
	g.Eventually(func() float64 { return w.refused(ReasonUnsigned) + w.refused(ReasonBusy) }).WithTimeout(time.Minute).Should(Equal(maxReading + 1.0))
	g.Expect(told(w.said(request(firing, plain(firing)...)))).To(HavePrefix("202"))
	g.Expect(w.refused(ReasonUnsigned)).To(BeNumerically(">", 0))
	close(w.wait)
	for range int(w.refused(ReasonUnsigned)) {
		g.Eventually(refused).Should(Receive(Or(Equal(http.StatusUnauthorized), Equal(http.StatusServiceUnavailable))))
	}
}

// A sink and a receiver may share a Secret, and both sign alike.
func TestWhatCandorSendsIsNoSignal(t *testing.T) {
	event := notify.Event{
		Kind: notify.KindCreated, Namespace: "team-a", Finding: "a", Severity: "HIGH", Provider: "webhook", Key: "1", At: start,
		Resource: notify.Resource{Kind: "Deployment", Name: "web"}, Summary: firing,
	}
	messages := map[string]notify.Message{
		"an event": {Kind: notify.KindEvents, Events: []notify.Event{event}}, "a digest": {Kind: notify.KindDigest, Digest: &notify.Digest{}, Open: []notify.Event{event}},
		"the old form": {Kind: notify.KindEvents, Events: []notify.Event{event}, Sink: notify.LegacySink},
		"a summary":    {Kind: notify.KindSummary, Summary: &notify.Summary{}}, "a budget": {Kind: notify.KindBudget, Budget: &candorv1alpha1.BudgetStatus{}},
	}
	for form, render := range map[string]func(notify.Message) ([]notify.Request, error){
		"Webhook": webhook.Render, "CloudEvents": cloudevents.Render, "Slack": slack.Render,
		"Alertmanager": func(m notify.Message) ([]notify.Request, error) { return alertmanager.Render(m, notify.Options{}) },
	} {
		sent := 0
		for name, m := range messages {
			m.Namespace, m.Policy, m.At = "team-a", "default", start
			requests, err := render(m)
			if err != nil {
				continue // not every form has every kind
			}
			for _, r := range requests {
				sent++
				for _, contentType := range []string{r.ContentType, "application/json", "application/cloudevents+json"} {
					s, err := reading(http.Header{"Content-Type": {contentType}}, string(r.Body), proof{})
					NewWithT(t).Expect(err).To(HaveOccurred(), "%s as %s: %v", name, form, s)
				}
			}
		}
		NewWithT(t).Expect(sent).To(BeNumerically(">", 0), form)
	}
}
