// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sinkserver

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/models"
)

// contentTypes are what each form is posted as.
var contentTypes = map[Form]string{
	Webhook: "application/json", Legacy: "application/json", Slack: "application/json", Alertmanager: "application/json",
	CloudEvents: "application/cloudevents+json",
}

var key = regexp.MustCompile(`^[0-9a-f]{32}$`)

// read reads a request, and says what is wrong with it.
func read(r *http.Request, body []byte, options Options) *Request {
	form, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	request := &Request{Form: Form(form), Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	wrong := func(format string, parts ...any) {
		request.Problems = append(request.Problems, fmt.Sprintf(format, parts...))
	}
	if r.Method != http.MethodPost {
		wrong("method %s", r.Method)
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if want, known := contentTypes[request.Form]; !known {
		wrong("path %s is that of no form", r.URL.Path)
		return request
	} else if err != nil || media != want {
		wrong("content type %q", r.Header.Get("Content-Type"))
	}
	if !key.MatchString(request.Key()) {
		wrong("Idempotency-Key %q", request.Key())
	}
	if options.Token != "" && r.URL.Query().Get("token") != options.Token {
		wrong("the token is wrong")
	}
	if options.SigningKey != "" && !signed(r.Header, body, options.SigningKey) {
		wrong("the signature is wrong")
	}
	if !utf8.Valid(body) {
		wrong("the body is not UTF-8")
	}
	readers[request.Form](request, wrong)
	return request
}

// signed verifies a signature as a receiver does.
func signed(header http.Header, body []byte, signingKey string) bool {
	mac := hmac.New(sha256.New, []byte(signingKey))
	mac.Write([]byte(header.Get("X-Candor-Timestamp") + "."))
	mac.Write(body)
	return hmac.Equal([]byte("sha256="+hex.EncodeToString(mac.Sum(nil))), []byte(header.Get("X-Candor-Signature")))
}

var readers = map[Form]func(r *Request, wrong func(string, ...any)){
	Webhook: readWebhook, Legacy: readLegacy, Slack: readSlack, Alertmanager: readAlerts, CloudEvents: readCloudEvent,
}

// told is what our own JSON says of a Finding.
type told struct {
	Kind, Namespace, Finding, Severity, Summary, Key string
}

func (t told) event() Event {
	return Event{Key: t.Key, Kind: t.Kind, Finding: t.Finding, Firing: t.Kind != "FindingResolved"}
}

func (t told) check(wrong func(string, ...any)) {
	if t.Namespace == "" || t.Finding == "" || t.Severity == "" || t.Summary == "" || !key.MatchString(t.Key) || !strings.HasPrefix(t.Kind, "Finding") {
		wrong("an event lacks a field: %+v", t)
	}
}

func readWebhook(r *Request, wrong func(string, ...any)) {
	var body struct {
		told
		Policy string
		Events []told
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		wrong("the body is no JSON: %v", err)
		return
	}
	r.Kind = body.Kind
	if body.Kind == "" || body.Namespace == "" || body.Policy == "" || body.Key != r.Key() {
		wrong("the message lacks a field")
	}
	if body.Kind == "Events" && (len(body.Events) == 0 || len(body.Events) > 20) {
		wrong("%d events", len(body.Events))
	}
	for _, t := range body.Events {
		t.check(wrong)
		r.Events = append(r.Events, t.event())
	}
}

func readLegacy(r *Request, wrong func(string, ...any)) {
	var t told
	if err := json.Unmarshal(r.Body, &t); err != nil {
		wrong("the body is no JSON: %v", err)
		return
	}
	r.Kind = t.Kind
	if !strings.HasPrefix(t.Kind, "Finding") {
		return
	}
	t.check(wrong)
	r.Events = append(r.Events, t.event())
}

var mention = regexp.MustCompile(`<[!@#]`)

func readSlack(r *Request, wrong func(string, ...any)) {
	var body struct {
		Text   string
		Blocks []struct {
			Type string
			Text struct{ Type, Text string }
		}
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		wrong("the body is no JSON: %v", err)
		return
	}
	if body.Text == "" || len(body.Blocks) > 50 || utf8.RuneCountInString(body.Text) > 40000 {
		wrong("no text, or %d blocks", len(body.Blocks))
	}
	for _, b := range body.Blocks {
		longest := 3000
		if b.Type == "header" {
			r.Kind, longest = b.Text.Text, 150
		}
		if n := utf8.RuneCountInString(b.Text.Text); n == 0 || n > longest {
			wrong("a block %s of %d characters", b.Type, n)
		}
		if mention.MatchString(b.Text.Text) {
			wrong("a block mentions somebody")
		}
	}
}

func readAlerts(r *Request, wrong func(string, ...any)) {
	if !strings.HasSuffix(r.Path, "/api/v2/alerts") {
		wrong("path %s", r.Path)
	}
	r.Path = strings.TrimSuffix(r.Path, "/api/v2/alerts")
	var alerts models.PostableAlerts
	if err := json.Unmarshal(r.Body, &alerts); err != nil {
		wrong("the body is no list of alerts: %v", err)
		return
	}
	if err := alerts.Validate(strfmt.Default); err != nil {
		wrong("Alertmanager refuses it: %v", err)
	}
	for _, a := range alerts {
		start, end := time.Time(a.StartsAt), time.Time(a.EndsAt)
		if !start.IsZero() && !end.After(start) {
			wrong("an alert ends before it starts")
		}
		r.Events = append(r.Events, Event{Kind: a.Labels["alertname"], Finding: a.Labels["finding"], Firing: !start.IsZero()})
	}
}

func readCloudEvent(r *Request, wrong func(string, ...any)) {
	var e cloudevents.Event
	if err := json.NewDecoder(bytes.NewReader(r.Body)).Decode(&e); err != nil {
		wrong("the body is no CloudEvent: %v", err)
		return
	}
	if err := e.Validate(); err != nil {
		wrong("the SDK of CloudEvents refuses it: %v", err)
	}
	if r.Kind = e.Type(); e.ID() != r.Key() {
		wrong("the event has another key than the request")
	}
	if e.Subject() != "" {
		var t told
		if err := e.DataAs(&t); err != nil {
			wrong("the data cannot be read: %v", err)
			return
		}
		t.check(wrong)
		r.Events = append(r.Events, t.event())
	}
}

// Keys returns the keys of the events of requests, sorted, each as often as it was told.
func Keys(requests []*Request) []string {
	var keys []string
	for _, r := range requests {
		for _, e := range r.Events {
			keys = append(keys, e.Key)
		}
	}
	slices.Sort(keys)
	return keys
}
