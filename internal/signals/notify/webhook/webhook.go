// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook writes messages as JSON of our own: for sinks of the type Webhook, and for the address in spec.webhook, which
// takes one event a request in the form of the existing Candor.
package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

const contentType = "application/json"

// envelope is what every body begins with.
type envelope struct {
	Kind      notify.Kind `json:"kind"`
	Namespace string      `json:"namespace"`
	Policy    string      `json:"policy"`
	Key       string      `json:"key"`
	At        time.Time   `json:"at"`
}

// Render returns the requests for a message.
func Render(m notify.Message) ([]notify.Request, error) {
	m = m.Clean()
	head := envelope{Kind: m.Kind, Namespace: m.Namespace, Policy: m.Policy, Key: m.Key, At: m.At.UTC()}
	switch {
	case m.Kind == notify.KindEvents && m.Sink == notify.LegacySink:
		return eachAlone(m.Events)
	case m.Kind == notify.KindEvents:
		return together(head, m.Events)
	case m.Kind == notify.KindDigest && m.Digest != nil:
		return one(m.Key, struct {
			envelope
			*notify.Digest
		}{head, m.Digest})
	case m.Kind == notify.KindSummary && m.Summary != nil:
		return one(m.Key, struct {
			envelope
			*notify.Summary
		}{head, m.Summary})
	case m.Kind == notify.KindBudget && m.Budget != nil:
		return one(m.Key, struct {
			envelope
			Budget *candorv1alpha1.BudgetStatus `json:"budget"`
		}{head, m.Budget})
	default:
		return nil, notify.Unknown(m)
	}
}

func eachAlone(events []notify.Event) ([]notify.Request, error) {
	var requests []notify.Request
	for _, e := range events {
		alone, err := one(e.Key, e, e.Key)
		if err != nil {
			return nil, err
		}
		requests = append(requests, alone...)
	}
	return requests, nil
}

func together(head envelope, events []notify.Event) ([]notify.Request, error) {
	var requests []notify.Request
	for batch := range slices.Chunk(events, notify.MaxEvents) {
		head.Key = notify.BatchKey(batch)
		body := struct {
			envelope
			Events []notify.Event `json:"events"`
		}{head, batch}
		part, err := one(head.Key, body, notify.Keys(batch)...)
		if err != nil {
			return nil, err
		}
		requests = append(requests, part...)
	}
	return requests, nil
}

func one(key string, body any, events ...string) ([]notify.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("writing a message as JSON: %w", err)
	}
	return []notify.Request{{ContentType: contentType, Body: text, Key: key, Events: events}}, nil
}
