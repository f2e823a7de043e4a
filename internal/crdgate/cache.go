// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package crdgate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/candor-dev/candor/internal/listwatch"
)

// NewCache returns a cache for one namespaced kind alone. Of its objects it reads fields, paths as in "report.artifact", beside
// their metadata, and keeps what transform leaves. It asks no discovery, which remembers kinds that are gone, and never starts
// a watch because somebody reads.
func NewCache(
	c cluster.Cluster, kind schema.GroupVersionKind, fields []string, transform toolscache.TransformFunc, failed func(error),
) (cache.Cache, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	from, err := listwatch.New(c.GetConfig(), c.GetHTTPClient(), resourceOf(kind), listwatch.Unstructured(kind, fields), transform)
	if err != nil {
		return nil, err
	}
	made, err := cache.New(c.GetConfig(), cache.Options{
		Scheme: c.GetScheme(), HTTPClient: c.GetHTTPClient(), Mapper: mapper,
		ReaderFailOnMissingInformer: true, NewInformer: from.Informer,
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			failed(err)
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache for %s: %w", kind, err)
	}
	return made, nil
}

// resourceOf returns the plural that the mapper of NewCache takes for a kind.
func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural
}
