// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/candor-dev/candor/internal/sparse"
)

// WatchWithContext implements cache.WatcherWithContext.
func (s *Source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch, options.AllowWatchBookmarks = true, true
	body, err := s.get(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(&events{source: s, body: body, decoder: sparse.NewDecoder(body)},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

// events reads the events of a watch.
type events struct {
	source  *Source
	body    io.Closer
	decoder *jsontext.Decoder
}

// Close implements watch.Decoder.
func (e *events) Close() { _ = e.body.Close() }

// Decode implements watch.Decoder.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	kind, object, err := e.next()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		// Only this very error makes an informer go on from where a connection broke off. After others it lists everything anew.
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", nil, err
	}
	return kind, object, nil
}

func (e *events) next() (kind watch.EventType, object runtime.Object, err error) {
	var early jsontext.Value // the object of an event that names its type last
	err = sparse.Each(e.decoder, func(name string) (err error) {
		switch {
		case name == "type":
			err = decodeValue(e.decoder, &kind)
		case name == "object" && kind == "":
			early, err = e.decoder.ReadValue()
			early = early.Clone()
		case name == "object":
			object, err = e.object(kind, e.decoder)
		default:
			err = e.decoder.SkipValue()
		}
		return err
	})
	if err == nil && early != nil {
		object, err = e.object(kind, sparse.NewDecoder(bytes.NewReader(early)))
	}
	if err == nil && object == nil {
		err = fmt.Errorf("an event %q without an object", kind)
	}
	return kind, object, err
}

func (e *events) object(kind watch.EventType, d *jsontext.Decoder) (runtime.Object, error) {
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted:
		return e.source.object(d)
	case watch.Bookmark:
		return e.source.decode(d)
	case watch.Error:
		status := &metav1.Status{}
		return status, decodeValue(d, status)
	default:
		return nil, fmt.Errorf("an event of an unknown type %q", kind)
	}
}
