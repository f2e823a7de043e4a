// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"
	"strings"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// LegacySink is the name of the sink that spec.webhook is.
const LegacySink = "webhook"

// Target is a sink of a policy.
type Target struct {
	Policy *candorv1alpha1.SignalPolicy
	Sink   candorv1alpha1.Sink
}

// String returns the name of the target in an outbox.
func (t Target) String() string { return t.Policy.Name + "/" + t.Sink.Name }

// Wants reports whether the sink hears of events of a type.
func (t Target) Wants(event candorv1alpha1.EventType) bool {
	return len(t.Sink.Events) == 0 || slices.Contains(t.Sink.Events, event)
}

// Threshold returns the mildest rank that the sink hears of: its own, or that of its policy.
func (t Target) Threshold() signals.Rank {
	if own := signals.RankOf(string(t.Sink.MinSeverity)); own != signals.Unknown {
		return own
	}
	return policy.Threshold(t.Policy)
}

// Status returns what is stored about the sink; nil before the first time.
func (t Target) Status() *candorv1alpha1.SinkStatus {
	for i := range t.Policy.Status.Sinks {
		if s := &t.Policy.Status.Sinks[i]; s.Name == t.Sink.Name {
			return s
		}
	}
	return nil
}

// Targets returns the sinks of a policy: that of spec.webhook, then the others in their order. A policy that is being deleted
// has none.
func Targets(p *candorv1alpha1.SignalPolicy) []Target {
	if !p.DeletionTimestamp.IsZero() {
		return nil
	}
	var targets []Target
	if p.Spec.Webhook != nil {
		sink := candorv1alpha1.Sink{Name: LegacySink, Type: candorv1alpha1.SinkWebhook, URL: p.Spec.Webhook.URL}
		targets = append(targets, Target{Policy: p, Sink: sink})
	}
	for _, sink := range p.Spec.Sinks {
		targets = append(targets, Target{Policy: p, Sink: sink})
	}
	return targets
}

// Find returns the sink that an entry of an outbox names, if the policies have it.
func Find(policies []candorv1alpha1.SignalPolicy, name string) (Target, bool) {
	policyName, _, _ := strings.Cut(name, "/")
	for i := range policies {
		if policies[i].Name != policyName {
			continue
		}
		for _, target := range Targets(&policies[i]) {
			if target.String() == name {
				return target, true
			}
		}
	}
	return Target{}, false
}

// Subject is the Finding that sinks are to hear of.
type Subject struct {
	Provider  string
	Severity  signals.Rank
	FirstSeen time.Time
	// Told is its outbox. Who was told of it hears of its end too, however mild it became.
	Told []candorv1alpha1.Notification
}

// SubjectOf reads a Finding.
func SubjectOf(f *candorv1alpha1.Finding) Subject {
	return Subject{
		Provider: f.Spec.Source.Provider, Severity: shown(&f.Status), FirstSeen: f.Status.FirstSeen.Time, Told: f.Status.Notified,
	}
}

// Sinks returns the names of the sinks that hear of an event of a Finding: those of every policy that names its provider,
// where its severity meets the threshold of the sink and the sink wants events of the type. The oldest policy comes first. A
// sink that has not told of what there was before it hears nothing yet, and nothing of the creation of what it told of then.
func Sinks(policies []candorv1alpha1.SignalPolicy, s Subject, event candorv1alpha1.EventType) []string {
	var names []string
	for _, i := range byAge(policies) {
		p := &policies[i]
		if !slices.Contains(p.Spec.Providers, s.Provider) {
			continue
		}
		for _, target := range Targets(p) {
			if target.hears(s, event) {
				names = append(names, target.String())
			}
		}
	}
	return names
}

func (t Target) hears(s Subject, event candorv1alpha1.EventType) bool {
	status := t.Status()
	if status == nil || status.SummarisedAt.IsZero() || !t.Wants(event) {
		return false
	}
	switch event {
	case candorv1alpha1.EventCreated:
		return s.Severity >= t.Threshold() && s.FirstSeen.After(status.SummarisedAt.Time)
	case candorv1alpha1.EventResolved:
		return s.Severity >= t.Threshold() || s.toldTo(t.String())
	default:
		return s.Severity >= t.Threshold()
	}
}

func (s Subject) toldTo(sink string) bool {
	return slices.ContainsFunc(s.Told, func(n candorv1alpha1.Notification) bool { return n.Sink == sink })
}

// lateFor is how long after a Finding was first seen its creation may turn out to be unheard of.
const lateFor = 10 * QuietFor

// Unheard returns the sinks that should have heard of the creation of an open Finding and did not, with what they are to hear,
// and how long to wait before asking again; zero is never. A sink that tells of what there was for the first time, at the very
// moment when a Finding is new, may have been read before that and have counted before the Finding: neither would tell of it. The
// same goes for a sink that did so by a clock that was ahead, until that is put right.
func Unheard(policies []candorv1alpha1.SignalPolicy, f *candorv1alpha1.Finding, now time.Time) (due Occasion, sinks []string, again time.Duration) {
	s, state := SubjectOf(f), Of(&f.Status)
	age := now.Sub(s.FirstSeen)
	if state.Muted || !verify.Open(state.Outcome) || age.Abs() >= lateFor {
		return due, nil, 0
	}
	sinks = slices.DeleteFunc(Sinks(policies, s, candorv1alpha1.EventCreated), s.toldTo)
	if unsummarised(policies, s.Provider, now) {
		again = max(0, 2*QuietFor-age)
	}
	return state.occasion(candorv1alpha1.EventCreated), sinks, again
}

func unsummarised(policies []candorv1alpha1.SignalPolicy, provider string, now time.Time) bool {
	return slices.ContainsFunc(policies, func(p candorv1alpha1.SignalPolicy) bool {
		return slices.Contains(p.Spec.Providers, provider) && slices.ContainsFunc(Targets(&p), func(t Target) bool {
			status := t.Status()
			return status == nil || status.SummarisedAt.IsZero() || status.SummarisedAt.After(now)
		})
	})
}

// byAge returns the places of policies, oldest first, of equally old ones the first by name.
func byAge(policies []candorv1alpha1.SignalPolicy) []int {
	places := make([]int, len(policies))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		if c := policies[a].CreationTimestamp.Compare(policies[b].CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(policies[a].Name, policies[b].Name)
	})
	return places
}

// WithoutGone returns an outbox without what waits for sinks that no policy has any more. What was sent stays, so that a sink
// that comes back is not told twice. What is handed in is not changed.
func WithoutGone(notified []candorv1alpha1.Notification, policies []candorv1alpha1.SignalPolicy) []candorv1alpha1.Notification {
	return slices.DeleteFunc(slices.Clone(notified), func(n candorv1alpha1.Notification) bool {
		_, found := Find(policies, n.Sink)
		return pending(n) && !found
	})
}
