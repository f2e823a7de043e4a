// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crdgate starts and stops the watch of a kind as its CustomResourceDefinition, which is not ours, comes and goes.
package crdgate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CRDInstalled reports whether the cluster serves a kind. That it does not is an answer; that nobody could be asked is an
// error.
func CRDInstalled(mapper meta.RESTMapper, gvk schema.GroupVersionKind) (bool, error) {
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("asking the API server whether it serves %s: %w", gvk, err)
	default:
		return true, nil
	}
}
