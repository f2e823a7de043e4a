// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// MaxEvents is how many events one request carries, in the forms that carry several.
const MaxEvents = 20

// Kind is what a payload is called.
type Kind string

// Kinds. The first three and Digest are those of the existing Candor.
const (
	KindCreated          Kind = "FindingCreated"
	KindResolved         Kind = "FindingResolved"
	KindRecurred         Kind = "FindingRecurred"
	KindEscalated        Kind = "FindingEscalated"
	KindSuppressionEnded Kind = "FindingSuppressionEnded"
	// KindOpen is a Finding that is open when a digest or a summary tells of it.
	KindOpen Kind = "FindingOpen"

	// KindEvents is a message of events.
	KindEvents  Kind = "Events"
	KindDigest  Kind = "Digest"
	KindSummary Kind = "Summary"
	KindBudget  Kind = "BudgetExhausted"
)

var kinds = map[candorv1alpha1.EventType]Kind{
	candorv1alpha1.EventCreated: KindCreated, candorv1alpha1.EventResolved: KindResolved, candorv1alpha1.EventRecurred: KindRecurred,
	candorv1alpha1.EventEscalated: KindEscalated, candorv1alpha1.EventSuppressionEnded: KindSuppressionEnded,
}

// Message is what one sink is told at once. Of Events, Digest, Summary and Budget it has the one that its kind says.
type Message struct {
	Kind      Kind
	Namespace string
	Policy    string
	// Sink is the name of the sink in its policy.
	Sink string
	// Key is that of a message about the whole policy. Events have their own.
	Key string
	// At is when the requests are made.
	At time.Time

	Events  []Event
	Digest  *Digest
	Summary *Summary
	Budget  *candorv1alpha1.BudgetStatus

	// Open are the open Findings, with a digest or a summary, for a receiver that is told of them again and again to keep them.
	Open []Event
	// Quiet are the open Findings that the sink is not to hear of now and may have been told of, with a digest or a summary, for a
	// receiver that would keep what it was told. One that is muted as a whole has no severity.
	Quiet []Event
}

// Options are what the form of a message depends on besides.
type Options struct {
	// Keep is how long an alert stands that is not posted again, three times the interval of the digest; 72 h where it is zero.
	Keep time.Duration
}

// Request is one POST.
type Request struct {
	// Path is added to that of the sink's address; empty where the address is whole.
	Path        string
	ContentType string
	Body        []byte
	// Key is the same each time that the same is sent.
	Key string
	// Events are the keys of the events that are told of when it succeeds; none for a message about the whole policy.
	Events []string
}

// Address returns where a request to a sink goes. An address that ends with the path of the request already is whole.
func (r Request) Address(sink *url.URL) *url.URL {
	if r.Path == "" || strings.HasSuffix(strings.TrimSuffix(sink.Path, "/"), r.Path) {
		return sink
	}
	return sink.JoinPath(r.Path)
}

// Keys returns the keys of events.
func Keys(events []Event) []string {
	keys := make([]string, 0, len(events))
	for _, e := range events {
		keys = append(keys, e.Key)
	}
	return keys
}

// Unknown is the error of a form that does not know what a message says.
func Unknown(m Message) error {
	return fmt.Errorf("a message of kind %q does not hold what its kind says, or no sink knows it", m.Kind)
}
