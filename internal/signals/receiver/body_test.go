// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// reading decodes and checks as a Handler does.
func reading(h http.Header, body string, p proof) (said, error) {
	s, err := decode(h, []byte(body), p)
	if err == nil {
		err = s.check()
	}
	return s, err
}

// replaced returns the signal firing with another value of a field, which an empty one takes away, or with one field more.
func replaced(field, value string) string {
	var fields []string
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, fmt.Sprintf("%q:%s", name, value))
		}
	}
	for _, there := range [][2]string{{"severity", `"HIGH"`}, {"kind", `"Deployment"`}, {"name", `"web"`}, {"id", `"a"`}} {
		if there[0] == field {
			there[1], value = value, ""
		}
		add(there[0], there[1])
	}
	add(field, value)
	return "{" + strings.Join(fields, ",") + "}"
}

func quoted(n int) string { return `"` + strings.Repeat("x", n) + `"` }

func TestTheBodyOfCandor(t *testing.T) {
	base := Signal{Severity: "HIGH", Kind: "Deployment", Name: "web", ID: "a"}
	with := func(change func(*Signal)) Signal { s := base; change(&s); return s }
	for name, c := range map[string]struct {
		body string
		want Signal
	}{
		"what is required":        {firing, base},
		"all of it":               {`{"severity":"LOW","kind":"Pod","name":"p","id":"b","container":"c","summary":"s","status":"firing"}`, Signal{Severity: "LOW", Kind: "Pod", Name: "p", ID: "b", Container: "c", Summary: "s"}},
		"the end":                 {replaced("status", `"resolved"`), with(func(s *Signal) { s.Resolved = true })},
		"unknown fields":          {replaced("labels", `{"team":["a"]}`), base},
		"null for what is absent": {replaced("summary", `null`), base},
		"blanks around it":        {"\n " + firing + "\r\n\t", base},
		"control characters": {replaced("summary", `"a\u001b[31m\u202eb\u0000\nc"`), with(func(s *Signal) {
			s.Summary = "a[31mb c"
		})},
		"a name that would change how a line reads": {replaced("name", `"we\u202eb\u200b"`), base},
		"a name of Role":             {replaced("name", `"system:node"`), with(func(s *Signal) { s.Name = "system:node" })},
		"fields as long as they may": {replaced("id", quoted(128)), with(func(s *Signal) { s.ID = strings.Repeat("x", 128) })},
		"a summary that is too long is cut between runes": {replaced("summary", `"`+strings.Repeat("é", 600)+`"`), with(func(s *Signal) {
			s.Summary = strings.Repeat("é", 510) + "…"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := reading(http.Header{}, c.body, proof{})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(s).To(Equal(said{form: FormCandor, Signal: c.want}))
		})
	}
}

func TestAWrongBodyIsToldItsFieldAndTheRemedy(t *testing.T) {
	const object, twice = "body: must be one JSON object in UTF-8, with one signal and nothing behind it", "body: must hold no field twice"
	const severity, id = "severity: must be LOW, MEDIUM, HIGH or CRITICAL", "id: must tell the signals about one object apart, in 1 to 128 bytes"
	const kind, named = "kind: must be that of an object, such as Deployment: letters and digits, at most 63", "name: must be that of an object: 1 to 253 bytes, without / and %"
	for name, c := range map[string]struct{ body, want string }{
		"nothing":                       {"", object},
		"no JSON":                       {"severity=HIGH", object},
		"half of it":                    {firing[:20], object},
		"a list of signals":             {"[" + firing + "]", object},
		"two signals":                   {firing + firing, object},
		"something behind it":           {firing + "x", object},
		"a text":                        {`"HIGH"`, object},
		"null":                          {"null", severity},
		"bytes that are no text":        {replaced("summary", "\"\xff\""), object},
		"half of a surrogate pair":      {replaced("summary", `"\ud800"`), object},
		"a mark of the order of bytes":  {"\ufeff" + firing, object},
		"a field twice":                 {`{"severity":"LOW",` + firing[1:], twice},
		"an unknown field twice":        {`{"a":1,"a":1,` + firing[1:], twice},
		"a field twice far down":        {replaced("labels", `{"a":{"b":1,"b":2}}`), twice},
		"a number for text":             {replaced("severity", "5"), "severity: must be text"},
		"an object for text":            {replaced("summary", "{}"), "summary: must be text"},
		"the severity first":            {`{}`, severity},
		"a severity in small letters":   {replaced("severity", `"high"`), severity},
		"a severity that nobody rated":  {replaced("severity", `"UNKNOWN"`), severity},
		"no kind":                       {replaced("kind", ""), kind},
		"a kind with a slash":           {replaced("kind", `"apps/Deployment"`), kind},
		"a kind that is too long":       {replaced("kind", quoted(64)), kind},
		"no name":                       {replaced("name", ""), named},
		"a name that leaves its folder": {replaced("name", `"../web"`), named},
		"a name that is too long":       {replaced("name", quoted(254)), named},
		"no id":                         {replaced("id", ""), id},
		"an id of what cannot be seen":  {replaced("id", `" \u200b\u0007 "`), id},
		"an id that is too long":        {replaced("id", quoted(129)), id},
		"a container that is too long":  {replaced("container", quoted(254)), "container: must have at most 253 bytes"},
		"an unknown status":             {replaced("status", `"ended"`), "status: must be firing or resolved; leave it out for firing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := reading(http.Header{}, c.body, proof{})
			NewWithT(t).Expect(err).To(MatchError(c.want))
		})
	}
}

// Whatever is sent, what is taken keeps its bounds and is fit for a line.
func FuzzSignal(f *testing.F) {
	for _, body := range []string{
		firing, replaced("status", `"resolved"`), falcoInPod, falcoOnNode, structured(firing), structured(falcoInPod), `{"severity":"HIGH","kind":"\u0000"}`,
		`[]`, `{"specversion":"1.0","data_base64":"e30="}`, `{"rule":"x","priority":"Info","tags":["a","b"],"hostname":"n"}`,
	} {
		for _, contentType := range []string{"application/json", "application/cloudevents+json", "application/cloudevents-batch+json"} {
			f.Add(contentType, "1.0", "subject", []byte(body))
			f.Add(contentType, "", "", []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, contentType, version, subject string, body []byte) {
		h := http.Header{
			"Content-Type": {contentType}, "Ce-Specversion": {version}, "Ce-Subject": {subject}, "Ce-Id": {"1"}, "Ce-Source": {"/s"}, "Ce-Type": {"t"},
		}
		s, err := reading(h, string(body), proof{})
		if err != nil {
			var wrong *invalid
			if !errors.As(err, &wrong) || wrong.field == "" || !utf8.ValidString(err.Error()) || len(err.Error()) > 512 {
				t.Fatalf("an error that names no field, or repeats the body: %v", err)
			}
			return
		}
		for field, bound := range map[string]struct {
			text  string
			limit int
		}{
			"kind": {s.Kind, 63}, "name": {s.Name, 253}, "id": {s.ID, 128}, "container": {s.Container, 253}, "summary": {s.Summary, 1024},
		} {
			if len(bound.text) > bound.limit || !utf8.ValidString(bound.text) || signals.Clean(bound.text, bound.limit) != bound.text {
				t.Fatalf("%s is not fit for a line of %d bytes: %q", field, bound.limit, bound.text)
			}
		}
		if !signals.ValidObject(s.Kind, s.Name) || s.ID == "" || signals.RankOf(string(s.Severity)) == signals.Unknown {
			t.Fatalf("not a signal: %+v", s)
		}
	})
}

func TestSeveritiesAreThoseOfFindings(t *testing.T) {
	for _, severity := range []candorv1alpha1.Severity{"LOW", "MEDIUM", "HIGH", "CRITICAL"} {
		s, err := reading(http.Header{}, replaced("severity", `"`+string(severity)+`"`), proof{})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(s.Severity).To(Equal(severity))
	}
}
