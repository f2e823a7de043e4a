// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// headerSubject says what an event in binary mode is about.
const headerSubject = "Ce-Subject"

// isCloudEvent says that a request holds a CloudEvent, or several, or claims to.
func isCloudEvent(h http.Header) bool {
	return format.IsFormat(strings.ToLower(h.Get("Content-Type"))) || h.Get("Ce-Specversion") != ""
}

// decodeCloudEvent reads the data of an event, with its subject for an ID that the data lacks.
func decodeCloudEvent(h http.Header, body []byte, p proof) (said, error) {
	message := cehttp.NewMessage(h, io.NopCloser(bytes.NewReader(body)))
	encoding := message.ReadEncoding()
	switch encoding {
	case binding.EncodingBatch:
		return said{}, &invalid{"Content-Type", "must be that of one event, application/cloudevents+json, and not of a batch"}
	case binding.EncodingStructured:
		if err := parse(body, &struct{}{}); err != nil {
			return said{}, err
		}
	case binding.EncodingBinary:
	default:
		return said{}, &invalid{"Content-Type", "must be application/cloudevents+json, or the header ce-specversion 1.0"}
	}
	event, err := binding.ToEvent(context.Background(), message)
	if err != nil || event.SpecVersion() != cloudevents.CloudEventsVersionV1 || event.Validate() != nil {
		return said{}, &invalid{"body", "must be a valid event of CloudEvents 1.0, with specversion, id, source and type"}
	}
	s, err := decodeData(event.Data())
	s.form = FormCloudEvents
	var wrong *invalid
	if errors.As(err, &wrong) && encoding == binding.EncodingStructured {
		err = &invalid{strings.TrimSuffix("data."+wrong.field, ".body"), wrong.remedy}
	}
	if encoding == binding.EncodingStructured || !p.signed { // no signature covers the headers
		s.ID = cmp.Or(s.ID, event.Subject())
	}
	return s, err
}
