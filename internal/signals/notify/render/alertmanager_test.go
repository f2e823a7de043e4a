// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/alertmanager/api/v2/models"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/render"
	"github.com/candor-dev/candor/test/needs"
)

// ahead is how far Candor's clock is ahead of Alertmanager's.
const ahead = 20 * time.Second

// alertmanager is one that runs.
type alertmanager struct {
	*testing.T
	WithT
	url string
}

// startAlertmanager runs an Alertmanager until the test ends.
func startAlertmanager(t *testing.T) *alertmanager {
	t.Helper()
	binary := needs.Variable(t, "ALERTMANAGER", "to an Alertmanager to post to, as make test does: make tool-alertmanager builds one and prints its path")
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	address := listener.Addr().String()
	g.Expect(listener.Close()).To(Succeed())
	config := filepath.Join(t.TempDir(), "alertmanager.yml")
	g.Expect(os.WriteFile(config, []byte("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"), 0o600)).To(Succeed())
	var log bytes.Buffer
	command := exec.CommandContext(t.Context(), binary, "--config.file="+config, "--storage.path="+t.TempDir(), "--web.listen-address="+address, "--cluster.listen-address=")
	command.Stdout, command.Stderr = &log, &log
	g.Expect(command.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = command.Wait() // the end of the test's context has killed it
		if t.Failed() {
			t.Log(log.String())
		}
	})
	a := &alertmanager{T: t, WithT: *g, url: "http://" + address}
	g.Eventually(func() error { return a.get("/-/ready", nil) }).WithTimeout(time.Minute).Should(Succeed())
	return a
}

// get asks for a page, and reads it as JSON into into unless that is nil.
func (a *alertmanager) get(path string, into any) error {
	answer, err := http.Get(a.url + path)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// post sends a message as a sink of Candor does.
func (a *alertmanager) post(m notify.Message) {
	a.Helper()
	m.Namespace, m.Policy, m.Sink, m.Key, m.At = "team-a", "default", "alerts", "k", time.Now().Add(ahead)
	requests, err := render.Requests(candorv1alpha1.SinkAlertmanager, m, notify.Options{})
	a.Expect(err).NotTo(HaveOccurred())
	for _, r := range requests {
		answer, err := http.Post(a.url+r.Path, r.ContentType, bytes.NewReader(r.Body))
		a.Expect(err).NotTo(HaveOccurred())
		a.Expect(answer).To(HaveHTTPStatus(http.StatusOK), string(r.Body))
		a.Expect(answer.Body.Close()).To(Succeed())
	}
}

// events tells of a Finding's events, each of which was half a minute ago.
func (a *alertmanager) events(events ...notify.Event) {
	a.Helper()
	for i := range events {
		events[i].At = time.Now().Add(ahead - 30*time.Second)
	}
	a.post(notify.Message{Kind: notify.KindEvents, Events: events})
}

// firing returns the Findings of which there are alerts, with their severities.
func (a *alertmanager) firing() []string {
	a.Helper()
	var alerts models.GettableAlerts
	a.Expect(a.get("/api/v2/alerts?active=true", &alerts)).To(Succeed())
	names := []string{}
	for _, alert := range alerts {
		names = append(names, alert.Labels["finding"]+" "+alert.Labels["severity"])
	}
	slices.Sort(names)
	return names
}

// now returns an open Finding that shows a severity; none is that of one which is muted as a whole.
func now(name string, severity candorv1alpha1.Severity) notify.Event {
	e := notify.OpenEvent(finding())
	e.Finding, e.Severity = name, severity
	return e
}

func TestARealAlertmanagerFiresForWhatIsOpen(t *testing.T) {
	a := startAlertmanager(t)
	told := func(name string, kind candorv1alpha1.EventType, severity, before candorv1alpha1.Severity) notify.Event {
		e := event(finding(), kind, func(n *candorv1alpha1.Notification) { n.Severity, n.Before = severity, before })
		e.Finding = name
		return e
	}
	created := func(name string, severity candorv1alpha1.Severity) notify.Event {
		return told(name, candorv1alpha1.EventCreated, severity, "")
	}
	a.events(created("falls", "CRITICAL"), created("rises", "MEDIUM"), created("muted", "HIGH"), created("below", "HIGH"), created("ends", "LOW"))
	a.Eventually(a.firing).Should(Equal([]string{"below high", "ends low", "falls critical", "muted high", "rises medium"}))

	a.events(told("rises", candorv1alpha1.EventEscalated, "HIGH", "MEDIUM"), told("ends", candorv1alpha1.EventResolved, "LOW", ""))
	a.Eventually(a.firing).Should(Equal([]string{"below high", "falls critical", "muted high", "rises high"}))

	open := []notify.Event{now("falls", "HIGH"), now("rises", "HIGH"), now("new", "CRITICAL")}
	a.post(notify.Message{Kind: notify.KindDigest, Digest: &notify.Digest{}, Open: open, Quiet: []notify.Event{now("muted", ""), now("below", "MEDIUM")}})
	a.Eventually(a.firing).Should(Equal([]string{"falls high", "new critical", "rises high"}))

	a.events(told("muted", candorv1alpha1.EventSuppressionEnded, "HIGH", ""), told("falls", candorv1alpha1.EventEscalated, "CRITICAL", "HIGH"))
	a.Eventually(a.firing).Should(Equal([]string{"falls critical", "muted high", "new critical", "rises high"}), "an alert that ended fires again")
}

func TestARealAlertmanagerTakesEveryMessage(t *testing.T) {
	a := startAlertmanager(t)
	for _, m := range messages(finding) {
		a.post(m)
	}
}
