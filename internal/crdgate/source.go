// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package crdgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/candor-dev/candor/internal/sparse"
)

// pageSize is how many objects one request for a list asks for. At 25 KB each, a page is sent well within the minute that an
// API server gives a request.
const pageSize = 500

// ownMetadata are the fields that are read of every object.
var ownMetadata = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp",
	"metadata.labels", "metadata.annotations", "metadata.ownerReferences",
}

// source lists and watches a kind, reads only some fields, and cuts each object down as it arrives. It lists page by page: a
// watch that starts with every object sends each in an envelope, which costs both ends several times as much.
type source struct {
	client    rest.Interface
	path      []string
	kind      schema.GroupVersionKind
	fields    sparse.Fields
	transform toolscache.TransformFunc
}

func newSource(config *rest.Config, httpClient *http.Client, kind schema.GroupVersionKind, fields []string, transform toolscache.TransformFunc) (*source, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", kind, err)
	}
	return &source{
		client: client, path: []string{"/apis", kind.Group, kind.Version, resourceOf(kind).Resource}, kind: kind,
		fields: sparse.Of(slices.Concat(ownMetadata, fields)...), transform: transform,
	}, nil
}

// informer has the type of cache.Options.NewInformer. The lists and watches that it is offered decode whole objects.
func (s *source) informer(_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(s, object, resync, indexers)
}

// IsWatchListSemanticsUnSupported tells an informer to list before it watches.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.ListerWatcher.
func (s *source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (s *source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext returns the newest state, whatever version the options ask for: a list of a given one, or of any, would be
// sent whole.
func (s *source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	pages := pager.New(s.page)
	pages.PageSize = pageSize
	list, _, err := pages.ListWithAlloc(ctx, options)
	return list, err
}

func (s *source) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	body, err := s.get(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	list, err := s.decodeList(sparse.NewDecoder(body))
	if err != nil {
		return nil, fmt.Errorf("reading a list of %s: %w", s.kind.Kind, err)
	}
	return list, nil
}

// WatchWithContext implements cache.WatcherWithContext.
func (s *source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch, options.AllowWatchBookmarks = true, true
	body, err := s.get(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(&events{source: s, body: body, decoder: sparse.NewDecoder(body)},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

// get sends the request. Compressing would cost both ends more than sending.
func (s *source) get(ctx context.Context, options metav1.ListOptions) (io.ReadCloser, error) {
	return s.client.Get().AbsPath(s.path...).VersionedParams(&options, metav1.ParameterCodec).
		SetHeader("Accept", runtime.ContentTypeJSON).SetHeader("Accept-Encoding", "identity").Stream(ctx)
}

func (s *source) decodeList(d *jsontext.Decoder) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	list.SetGroupVersionKind(s.kind.GroupVersion().WithKind(s.kind.Kind + "List"))
	complete := false
	err := sparse.Each(d, func(name string) (err error) {
		switch name {
		case "metadata":
			list.Object[name], err = sparse.Fields(nil).Decode(d)
		case "items":
			complete = true
			err = sparse.EachItem(d, func() error { return s.appendItem(list, d) })
		default:
			err = d.SkipValue()
		}
		return err
	})
	if err == nil && !complete {
		err = errors.New("it has no items") // taken for an empty list, it would say that every report is gone
	}
	return list, err
}

func (s *source) appendItem(list *unstructured.UnstructuredList, d *jsontext.Decoder) error {
	object, err := s.decodeObject(d, s.fields)
	if err != nil {
		return err
	}
	slim, err := s.cut(object)
	if err != nil {
		return err
	}
	list.Items = append(list.Items, *slim)
	return nil
}

func (s *source) decodeObject(d *jsontext.Decoder, fields sparse.Fields) (*unstructured.Unstructured, error) {
	value, err := fields.Decode(d)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("at %s: %T instead of an object", d.StackPointer(), value)
	}
	return &unstructured.Unstructured{Object: object}, nil
}

func (s *source) cut(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object.SetGroupVersionKind(s.kind)
	kept, err := s.transform(object)
	if err != nil {
		return nil, err
	}
	slim, ok := kept.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a transform made %T of %s", kept, s.kind.Kind)
	}
	return slim, nil
}

// events reads the events of a watch.
type events struct {
	source  *source
	body    io.Closer
	decoder *jsontext.Decoder
}

// Close implements watch.Decoder.
func (e *events) Close() { _ = e.body.Close() }

// Decode implements watch.Decoder.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	var kind watch.EventType
	var object *unstructured.Unstructured
	err := sparse.Each(e.decoder, func(name string) (err error) {
		switch name {
		case "type":
			var token jsontext.Token
			token, err = e.decoder.ReadToken()
			kind = watch.EventType(token.String())
		case "object":
			object, err = e.source.decodeObject(e.decoder, e.wanted(kind))
		default:
			err = e.decoder.SkipValue()
		}
		return err
	})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		// Only this very error makes an informer go on from where a connection broke off. After others it lists everything anew.
		return "", nil, io.ErrUnexpectedEOF
	case err != nil:
		return "", nil, err
	default:
		return e.event(kind, object)
	}
}

// wanted returns the fields to read of an event's object. Where an event names its type last, all of them.
func (e *events) wanted(kind watch.EventType) sparse.Fields {
	if kind == watch.Error || kind == "" {
		return nil
	}
	return e.source.fields
}

func (e *events) event(kind watch.EventType, object *unstructured.Unstructured) (watch.EventType, runtime.Object, error) {
	if object == nil {
		return "", nil, fmt.Errorf("an event %q without an object", kind)
	}
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted:
		slim, err := e.source.cut(object)
		return kind, slim, err
	case watch.Bookmark:
		object.SetGroupVersionKind(e.source.kind)
		return kind, object, nil
	case watch.Error:
		status := &metav1.Status{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, status)
		return kind, status, err
	default:
		return "", nil, fmt.Errorf("an event of an unknown type %q", kind)
	}
}
