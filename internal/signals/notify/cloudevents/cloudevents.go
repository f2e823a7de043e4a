// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudevents writes messages as CloudEvents 1.0 in structured mode, one event a request.
package cloudevents

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/candor-dev/candor/internal/signals/notify"
)

const contentType = "application/cloudevents+json"

// types are the types of events. The version is that of the form of their data.
var types = map[notify.Kind]string{
	notify.KindCreated:          "dev.candor.finding.created.v1",
	notify.KindEscalated:        "dev.candor.finding.escalated.v1",
	notify.KindRecurred:         "dev.candor.finding.recurred.v1",
	notify.KindResolved:         "dev.candor.finding.resolved.v1",
	notify.KindSuppressionEnded: "dev.candor.finding.suppressionended.v1",
	notify.KindDigest:           "dev.candor.policy.digest.v1",
	notify.KindSummary:          "dev.candor.policy.summary.v1",
	notify.KindBudget:           "dev.candor.policy.budgetexhausted.v1",
}

// event is a CloudEvent as JSON.
type event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data"`
}

// Render returns the requests for a message.
func Render(m notify.Message) ([]notify.Request, error) {
	m = m.Clean()
	switch {
	case m.Kind == notify.KindEvents:
		var requests []notify.Request
		for _, e := range m.Events {
			r, err := request(m, event{ID: e.Key, Type: types[e.Kind], Subject: e.Finding, Time: e.At, Data: e})
			if err != nil {
				return nil, err
			}
			r.Events = []string{e.Key}
			requests = append(requests, r)
		}
		return requests, nil
	case m.Kind == notify.KindDigest && m.Digest != nil:
		return alone(m, m.Digest)
	case m.Kind == notify.KindSummary && m.Summary != nil:
		return alone(m, m.Summary)
	case m.Kind == notify.KindBudget && m.Budget != nil:
		return alone(m, m.Budget)
	default:
		return nil, notify.Unknown(m)
	}
}

func alone(m notify.Message, data any) ([]notify.Request, error) {
	r, err := request(m, event{ID: m.Key, Type: types[m.Kind], Time: m.At, Data: data})
	return []notify.Request{r}, err
}

func request(m notify.Message, e event) (notify.Request, error) {
	if e.Type == "" {
		return notify.Request{}, notify.Unknown(m)
	}
	e.SpecVersion, e.DataContentType, e.Time = "1.0", "application/json", e.Time.UTC()
	e.Source = "/namespaces/" + url.PathEscape(m.Namespace) + "/signalpolicies/" + url.PathEscape(m.Policy)
	body, err := json.Marshal(e)
	if err != nil {
		return notify.Request{}, fmt.Errorf("writing a CloudEvent as JSON: %w", err)
	}
	return notify.Request{ContentType: contentType, Body: body, Key: e.ID}, nil
}
