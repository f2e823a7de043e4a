// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listwatch lists and watches one kind for an informer. It lists page by page, decodes each object in one pass over
// the bytes, and cuts it down as it arrives. An informer of client-go would start with a watch that sends every object in an
// envelope, which costs both ends several times as much.
package listwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Source lists and watches a kind. It is a cache.ListerWatcher.
type Source struct {
	client    rest.Interface
	path      []string
	resource  schema.GroupVersionResource
	decode    Decode
	transform toolscache.TransformFunc
}

// New returns a Source of all objects of a resource. Of what decode makes, transform leaves what is kept.
func New(
	config *rest.Config, httpClient *http.Client, resource schema.GroupVersionResource, decode Decode, transform toolscache.TransformFunc,
) (*Source, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", resource, err)
	}
	return &Source{
		client: client, path: []string{"/apis", resource.Group, resource.Version, resource.Resource}, resource: resource,
		decode: decode, transform: transform,
	}, nil
}

// Informer has the type of cache.Options.NewInformer. The lists and watches that it is offered are those of client-go.
func (s *Source) Informer(_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(s, object, resync, indexers)
}

// IsWatchListSemanticsUnSupported tells an informer to list before it watches.
func (s *Source) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.ListerWatcher.
func (s *Source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (s *Source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext returns the newest state, whatever version the options ask for: a list of a given one, or of any, would be
// sent whole.
func (s *Source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	pages := pager.New(s.page)
	pages.PageSize = pageSize
	list, _, err := pages.ListWithAlloc(ctx, options)
	return list, err
}

func (s *Source) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	body, err := s.get(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	list, err := s.list(sparse.NewDecoder(body))
	if err != nil {
		return nil, fmt.Errorf("reading a list of %s: %w", s.resource.Resource, err)
	}
	return list, nil
}

// get sends the request. Compressing would cost both ends more than sending.
func (s *Source) get(ctx context.Context, options metav1.ListOptions) (io.ReadCloser, error) {
	return s.client.Get().AbsPath(s.path...).VersionedParams(&options, metav1.ParameterCodec).
		SetHeader("Accept", runtime.ContentTypeJSON).SetHeader("Accept-Encoding", "identity").Stream(ctx)
}

func (s *Source) list(d *jsontext.Decoder) (*metainternalversion.List, error) {
	list, complete := &metainternalversion.List{}, false
	err := sparse.Each(d, func(name string) error {
		switch name {
		case "metadata":
			return decodeValue(d, &list.ListMeta)
		case "items":
			complete = true
			return sparse.EachItem(d, func() error {
				object, err := s.object(d)
				list.Items = append(list.Items, object)
				return err
			})
		default:
			return d.SkipValue()
		}
	})
	if err == nil && !complete {
		err = errors.New("it has no items") // taken for an empty list, it would say that every object is gone
	}
	return list, err
}

// object reads the next value and cuts it down.
func (s *Source) object(d *jsontext.Decoder) (runtime.Object, error) {
	object, err := s.decode(d)
	if err != nil {
		return nil, err
	}
	kept, err := s.transform(object)
	if err != nil {
		return nil, err
	}
	slim, ok := kept.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("a transform made %T of %s", kept, s.resource.Resource)
	}
	return slim, nil
}
