// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/internal/signals/notify"
)

func TestWhyASinkWasNotReachedHoldsNothingOfItsAddress(t *testing.T) {
	n := &Notifier{Timeout: 10 * time.Second, AllowSetting: "CANDOR_NOTIFICATION_ALLOW_CIDRS"}
	for name, test := range map[string]struct {
		err           error
		want          string
		misconfigured bool
	}{
		"a closed network": {netguard.ErrDisallowed, "Its address is in a network that is closed: use a public one, or have an administrator open the network with CANDOR_NOTIFICATION_ALLOW_CIDRS.", true},
		"a redirect":       {egress.ErrRedirect, "It redirects, which is not followed: use the address that answers itself.", false},
		"a certificate": {
			&tls.CertificateVerificationError{Err: x509.HostnameError{Host: "canary.example", Certificate: &x509.Certificate{}}},
			"Its certificate is not trusted: an administrator can add a certificate with --notification-ca-bundle.", false,
		},
		"no such name":       {&net.DNSError{Name: "canary.example", IsNotFound: true}, "Its name does not exist.", false},
		"no answer":          {context.DeadlineExceeded, "It did not answer within 10s.", false},
		"a refusal":          {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "It refuses the connection.", false},
		"something else":     {errors.New("EOF"), "The connection to it failed.", false},
		"a resolver is down": {&net.DNSError{Name: "canary.example", Err: "server misbehaving"}, "The connection to it failed.", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := n.unreached(&url.Error{Op: "Post", URL: "https://canary.example/token", Err: test.err})
			NewWithT(t).Expect(*got).To(Equal(trouble{misconfigured: test.misconfigured, message: test.want}))
		})
	}
}

// tuned returns a policy with one sink, and what is stored about it.
func tuned(sink candorv1alpha1.Sink, status candorv1alpha1.SinkStatus) notify.Target {
	p := &candorv1alpha1.SignalPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "default", UID: "policy"}}
	p.Spec.Providers, p.Spec.Sinks, p.Status.Sinks = []string{"trivy"}, []candorv1alpha1.Sink{sink}, []candorv1alpha1.SinkStatus{status}
	return notify.Target{Policy: p, Sink: sink}
}

func TestADigestFallsDueByWhatIsStored(t *testing.T) {
	since := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }
	webhook := candorv1alpha1.Sink{Name: "hook", Type: candorv1alpha1.SinkWebhook}
	alerts := candorv1alpha1.Sink{Name: "hook", Type: candorv1alpha1.SinkAlertmanager}
	only := func(s candorv1alpha1.Sink, events ...candorv1alpha1.EventType) candorv1alpha1.Sink {
		s.Events = events
		return s
	}
	const hour = time.Hour
	for name, test := range map[string]struct {
		sink  candorv1alpha1.Sink
		every time.Duration
		last  metav1.Time
		due   bool
		wait  time.Duration
	}{
		"the first time only begins it":          {webhook, 24 * hour, metav1.Time{}, false, 24 * hour},
		"not yet":                                {webhook, 24 * hour, since(23 * hour), false, hour},
		"now":                                    {webhook, 24 * hour, since(24 * hour), true, 24 * hour},
		"long ago":                               {webhook, 24 * hour, since(99 * hour), true, 24 * hour},
		"turned off":                             {webhook, 0, since(99 * hour), false, 0},
		"not wanted":                             {only(webhook, candorv1alpha1.EventCreated), 24 * hour, since(99 * hour), false, 0},
		"alerts are kept alive without":          {alerts, 0, since(24 * hour), true, 24 * hour},
		"alerts are kept alive where unwanted":   {only(alerts, candorv1alpha1.EventCreated), 24 * hour, since(24 * hour), true, 24 * hour},
		"no alert fires, and no digest is asked": {only(alerts, candorv1alpha1.EventResolved), 24 * hour, since(99 * hour), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			st := candorv1alpha1.SinkStatus{Name: "hook", SummarisedAt: since(999 * hour), LastDigest: test.last}
			s := &SignalPolicySyncer{DigestInterval: test.every}
			g.Expect(s.schedule(&st, tuned(test.sink, st), nil, false, noon)).To(Equal(test.wait))
			if !test.due {
				g.Expect(st.Pending).To(BeEmpty())
				return
			}
			g.Expect(st.Pending).To(HaveLen(1))
			g.Expect(st.Pending[0].Event).To(Equal(candorv1alpha1.EventDigest))
			g.Expect(st.Pending[0].Since.Time).To(BeTemporally("==", test.last.Time))
			g.Expect(st.LastDigest.Time).To(BeTemporally("==", noon))
			before := st.DeepCopy()
			s.schedule(&st, tuned(test.sink, st), nil, false, noon)
			g.Expect(&st).To(Equal(before), "a second pass changes nothing")
		})
	}
}

func TestWhatIsStoredOfASinkStaysUntilSomethingIsKnown(t *testing.T) {
	const (
		waiting       = candorv1alpha1.SinkWaiting
		active        = candorv1alpha1.SinkActive
		failing       = candorv1alpha1.SinkFailing
		misconfigured = candorv1alpha1.SinkMisconfigured
	)
	for name, test := range map[string]struct {
		stored candorv1alpha1.SinkState
		synced bool
		now    health
		want   candorv1alpha1.SinkState
	}{
		"a new sink waits":                       {"", false, health{}, waiting},
		"a new sink that is wrong says so":       {waiting, false, health{state: misconfigured}, misconfigured},
		"after the first sync it is active":      {waiting, true, health{}, active},
		"after a restart it goes on failing":     {failing, true, health{sound: true}, failing},
		"until something is delivered":           {failing, true, health{state: active, sound: true}, active},
		"after a restart it is still wrong":      {misconfigured, true, health{}, misconfigured},
		"until it is found right":                {misconfigured, true, health{sound: true}, active},
		"what is mended before the sync waits":   {misconfigured, false, health{sound: true}, waiting},
		"what is delivered before it waits, too": {waiting, false, health{state: active, sound: true}, waiting},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &SignalPolicySyncer{Notifier: (&Notifier{}).Init()}
			if test.now != (health{}) {
				s.Notifier.lanes.lane(slack).health = test.now
			}
			st := candorv1alpha1.SinkStatus{Name: slack.sink, State: test.stored, Message: "as stored"}
			if test.synced {
				st.SummarisedAt = metav1.NewTime(noon)
			}
			s.judgeSink(&st, slack.namespace, slack.policy)
			g.Expect(st.State).To(Equal(test.want))
		})
	}
}

func TestTheFirstSyncIsOverWhenAllIsReadAndQuiet(t *testing.T) {
	finding := func(age time.Duration) candorv1alpha1.Finding {
		f := candorv1alpha1.Finding{}
		f.Status.FirstSeen = metav1.NewTime(noon.Add(-age))
		return f
	}
	for name, test := range map[string]struct {
		known    time.Duration
		findings []candorv1alpha1.Finding
		wait     time.Duration
	}{
		"a sink that nobody knew":        {-1, nil, notify.QuietFor},
		"one that is known for a moment": {10 * time.Second, nil, 20 * time.Second},
		"one that is known for long":     {time.Hour, nil, 0},
		"a Finding that is new":          {time.Hour, []candorv1alpha1.Finding{finding(time.Hour), finding(5 * time.Second)}, 25 * time.Second},
		"a Finding that nobody looked at yet": {
			time.Hour, []candorv1alpha1.Finding{{}}, notify.QuietFor,
		},
		"Findings that are old": {time.Hour, []candorv1alpha1.Finding{finding(time.Hour), finding(30 * time.Second)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &SignalPolicySyncer{Notifier: (&Notifier{}).Init(), Providers: &Providers{}}
			sink := candorv1alpha1.Sink{Name: slack.sink, Type: candorv1alpha1.SinkSlack}
			if test.known >= 0 {
				s.Notifier.lanes.offer(slack.policyName(), []offering{{sink: sink}}, noon.Add(-test.known))
			}
			wait, settled := s.firstSync(tuned(sink, candorv1alpha1.SinkStatus{}), test.findings, noon)
			g.Expect(settled).To(Equal(test.wait == 0))
			if !settled {
				g.Expect(wait).To(Equal(test.wait))
			}
		})
	}
}
