// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	. "github.com/onsi/gomega"
)

const withoutID = `{"severity":"HIGH","kind":"Deployment","name":"web"}`

func structured(data string) string {
	return `{"specversion":"1.0","id":"1","source":"/scanner","type":"finding","subject":"CVE-1","time":"2026-03-01T18:03:12Z","data":` + data + `}`
}

// attributes returns the headers of an event in binary mode, with pairs in place of some of them; an empty value takes one away.
func attributes(pairs ...string) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "/scanner", "Ce-Type": "finding", "Ce-Subject": "CVE-1", "Content-Type": "application/json",
	} {
		h.Set(name, value)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			h.Del(pairs[i])
		} else {
			h.Set(pairs[i], pairs[i+1])
		}
	}
	return h
}

var inBody = http.Header{"Content-Type": {"application/cloudevents+json; charset=utf-8"}}

func TestCloudEvents(t *testing.T) {
	web := Signal{Severity: "HIGH", Kind: "Deployment", Name: "web", ID: "a"}
	bySubject := web
	bySubject.ID = "CVE-1"
	for name, c := range map[string]struct {
		header http.Header
		body   string
		proof  proof
		want   said
	}{
		"in the body":                                               {inBody, structured(firing), proof{}, said{form: FormCloudEvents, Signal: web}},
		"in the body, with the data in base 64":                     {inBody, `{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"` + base64.StdEncoding.EncodeToString([]byte(firing)) + `"}`, proof{}, said{form: FormCloudEvents, Signal: web}},
		"in the body, with the subject for the id":                  {inBody, structured(withoutID), proof{signed: true}, said{form: FormCloudEvents, Signal: bySubject}},
		"in the headers":                                            {attributes(), firing, proof{signed: true}, said{form: FormCloudEvents, Signal: web}},
		"in the headers, with extensions":                           {attributes("Ce-Traceparent", "00-1", "Ce-Time", "2026-03-01T18:03:12Z"), firing, proof{}, said{form: FormCloudEvents, Signal: web}},
		"in the headers, with the subject for the id under a token": {attributes(), withoutID, proof{}, said{form: FormCloudEvents, Signal: bySubject}},
		"of Falco": {inBody, structured(falcoOnNode), proof{}, said{form: FormCloudEvents, Signal: Signal{
			Severity: "CRITICAL", Kind: "Node", Name: "node-1", ID: "Drop and execute new binary", Summary: "Drop and execute new binary",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := reading(c.header, c.body, c.proof)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(s).To(Equal(c.want))
		})
	}
}

func TestWhatTheSDKSendsIsTaken(t *testing.T) {
	g := NewWithT(t)
	e := cloudevents.New()
	e.SetID("1")
	e.SetSource("/scanner")
	e.SetType("finding")
	g.Expect(e.SetData(cloudevents.ApplicationJSON, []byte(firing))).To(Succeed())
	r, err := cehttp.NewHTTPRequestFromEvent(context.Background(), "https://candor.example"+path, e)
	g.Expect(err).NotTo(HaveOccurred())
	body, err := io.ReadAll(r.Body)
	g.Expect(err).NotTo(HaveOccurred())
	s, err := reading(r.Header, string(body), proof{signed: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.form).To(Equal(FormCloudEvents))

	batch, err := cehttp.NewHTTPRequestFromEvents(context.Background(), "https://candor.example"+path, []cloudevents.Event{e})
	g.Expect(err).NotTo(HaveOccurred())
	var content bytes.Buffer
	_, err = content.ReadFrom(batch.Body)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = reading(batch.Header, content.String(), proof{})
	g.Expect(err).To(MatchError("Content-Type: must be that of one event, application/cloudevents+json, and not of a batch"))
}

func TestWrongCloudEvents(t *testing.T) {
	const event = "body: must be a valid event of CloudEvents 1.0, with specversion, id, source and type"
	const id = "id: must tell the signals about one object apart, in 1 to 128 bytes"
	for name, c := range map[string]struct {
		header http.Header
		body   string
		proof  proof
		want   string
	}{
		"none":                          {inBody, firing, proof{}, event},
		"no source":                     {inBody, `{"specversion":"1.0","id":"1","type":"t","data":` + firing + `}`, proof{}, event},
		"an older version":              {inBody, `{"specversion":"0.3","id":"1","source":"/s","type":"t","data":` + firing + `}`, proof{}, event},
		"an unknown version by headers": {attributes("Ce-Specversion", "2.0"), firing, proof{}, "Content-Type: must be application/cloudevents+json, or the header ce-specversion 1.0"},
		"another format":                {http.Header{"Content-Type": {"application/cloudevents+avro"}}, firing, proof{}, "Content-Type: must be application/cloudevents+json, or the header ce-specversion 1.0"},
		"no type by headers":            {attributes("Ce-Type", ""), firing, proof{}, event},
		"no data":                       {inBody, `{"specversion":"1.0","id":"1","source":"/s","type":"t"}`, proof{}, "data: must be one JSON object in UTF-8, with one signal and nothing behind it"},
		"data that is text":             {inBody, structured(`"HIGH"`), proof{}, "data: must be one JSON object in UTF-8, with one signal and nothing behind it"},
		"a wrong field of the data":     {inBody, structured(`{}`), proof{}, "data.severity: must be LOW, MEDIUM, HIGH or CRITICAL"},
		"a field twice":                 {inBody, `{"id":"2",` + structured(firing)[1:], proof{}, "body: must hold no field twice"},
		"two events":                    {inBody, structured(firing) + structured(firing), proof{}, "body: must be one JSON object in UTF-8, with one signal and nothing behind it"},
		"a subject that no signature vouches for": {attributes(), withoutID, proof{signed: true}, id},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := reading(c.header, c.body, c.proof)
			NewWithT(t).Expect(err).To(MatchError(c.want))
		})
	}
}
