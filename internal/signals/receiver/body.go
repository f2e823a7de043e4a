// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// Bounds of what a signal says, in bytes, beside those of every object.
const (
	maxID        = 128
	maxContainer = 253
	maxSummary   = 1024
)

// Form is in which words a signal came.
type Form string

// The forms.
const (
	FormCandor      Form = "candor"
	FormFalco       Form = "falco"
	FormCloudEvents Form = "cloudevents"
)

// said is what a body says.
type said struct {
	Signal
	form Form
	// namespace is where the object is; empty where the body does not say it.
	namespace string
}

// invalid is what is wrong with a field, and what would be right. It repeats nothing of the body.
type invalid struct{ field, remedy string }

// Error implements error.
func (e *invalid) Error() string { return e.field + ": " + e.remedy }

// decode reads a signal. The error is an invalid.
func decode(h http.Header, body []byte, p proof) (said, error) {
	if isCloudEvent(h) {
		return decodeCloudEvent(h, body, p)
	}
	return decodeData(body)
}

// decodeData reads a signal in Candor's form, or in that of Falco.
func decodeData(body []byte) (said, error) {
	var shape struct {
		Rule     jsontext.Value `json:"rule"`
		Priority jsontext.Value `json:"priority"`
	}
	if err := parse(body, &shape); err != nil {
		return said{}, err
	}
	if shape.Rule != nil && shape.Priority != nil {
		return decodeFalco(body)
	}
	return decodeCandor(body)
}

func decodeCandor(body []byte) (said, error) {
	var b struct {
		Severity  string `json:"severity"`
		Kind      string `json:"kind"`
		Name      string `json:"name"`
		ID        string `json:"id"`
		Container string `json:"container"`
		Summary   string `json:"summary"`
		Status    string `json:"status"`
	}
	if err := parse(body, &b); err != nil {
		return said{}, err
	}
	s := Signal{Severity: candorv1alpha1.Severity(b.Severity), Kind: b.Kind, Name: b.Name, Container: b.Container, ID: b.ID, Summary: b.Summary}
	if signals.RankOf(b.Severity) == signals.Unknown {
		return said{}, &invalid{"severity", "must be LOW, MEDIUM, HIGH or CRITICAL"}
	}
	switch b.Status {
	case "", "firing":
	case "resolved":
		s.Resolved = true
	default:
		return said{}, &invalid{"status", "must be firing or resolved; leave it out for firing"}
	}
	return said{form: FormCandor, Signal: s}, nil
}

// check cleans a signal, and says what is wrong with it.
func (s *Signal) check() error {
	clean := func(text *string) { *text = signals.Clean(*text, len(*text)) }
	clean(&s.Kind)
	clean(&s.Name)
	clean(&s.Container)
	clean(&s.ID)
	s.Summary = signals.Clean(s.Summary, maxSummary)
	switch {
	case !signals.ValidObject(s.Kind, "name"):
		return &invalid{"kind", fmt.Sprintf("must be that of an object, such as Deployment: letters and digits, at most %d", signals.MaxKind)}
	case !signals.ValidObject(s.Kind, s.Name):
		return &invalid{"name", fmt.Sprintf("must be that of an object: 1 to %d bytes, without / and %%", signals.MaxName)}
	case s.ID == "" || len(s.ID) > maxID:
		return &invalid{"id", fmt.Sprintf("must tell the signals about one object apart, in 1 to %d bytes", maxID)}
	case len(s.Container) > maxContainer:
		return &invalid{"container", fmt.Sprintf("must have at most %d bytes", maxContainer)}
	}
	return nil
}

// parse reads one JSON object. Fields that into does not have are ignored.
func parse(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrong *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &invalid{"body", "must hold no field twice"}
	case errors.As(err, &wrong) && wrong.JSONPointer != "":
		return &invalid{field(wrong.JSONPointer), wanted(wrong.GoType)}
	default:
		return &invalid{"body", "must be one JSON object in UTF-8, with one signal and nothing behind it"}
	}
}

// field writes a pointer to a field that some form has as people do.
func field(pointer jsontext.Pointer) string {
	var tokens []string
	for token := range pointer.Tokens() {
		tokens = append(tokens, token)
	}
	return strings.Join(tokens, ".")
}

func wanted(t reflect.Type) string {
	switch {
	case t == nil || t.Kind() == reflect.String:
		return "must be text"
	case t.Kind() == reflect.Slice:
		return "must be a list"
	default:
		return "must be an object"
	}
}
