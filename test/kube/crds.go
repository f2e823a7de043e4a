// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	crdPoll         = 20 * time.Millisecond
	trivyCRDs       = "testdata/trivy-crds"
	openReportsCRDs = "testdata/openreports-crds"
)

//go:embed testdata/trivy-crds/*.yaml testdata/openreports-crds/*.yaml
var crdFiles embed.FS

// InstallTrivyCRDs creates CRDs of Trivy Operator, by plural name ("vulnerabilityreports"), or all without a name, and returns
// when their objects are served.
func (c *Cluster) InstallTrivyCRDs(ctx context.Context, names ...string) error {
	return eachCRD(trivyCRDs, names, func(crd *unstructured.Unstructured) error { return c.install(ctx, crd) })
}

// RemoveTrivyCRDs deletes them with all their objects and returns when they are gone and no longer served.
func (c *Cluster) RemoveTrivyCRDs(ctx context.Context, names ...string) error {
	return eachCRD(trivyCRDs, names, func(crd *unstructured.Unstructured) error { return c.remove(ctx, crd) })
}

// InstallOpenReportsCRDs creates the CRDs of reports that several tools write: "reports" and "policyreports".
func (c *Cluster) InstallOpenReportsCRDs(ctx context.Context, names ...string) error {
	return eachCRD(openReportsCRDs, names, func(crd *unstructured.Unstructured) error { return c.install(ctx, crd) })
}

// RemoveOpenReportsCRDs deletes them with all their objects and returns when they are gone and no longer served.
func (c *Cluster) RemoveOpenReportsCRDs(ctx context.Context, names ...string) error {
	return eachCRD(openReportsCRDs, names, func(crd *unstructured.Unstructured) error { return c.remove(ctx, crd) })
}

func (c *Cluster) install(ctx context.Context, crd *unstructured.Unstructured) error {
	if err := c.apply(ctx, crd); err != nil {
		return err
	}
	if err := c.waitForCRD(ctx, crd, "become established", established); err != nil {
		return err
	}
	return c.waitForObjects(ctx, crd, true)
}

func (c *Cluster) remove(ctx context.Context, crd *unstructured.Unstructured) error {
	if err := c.Client.Delete(ctx, crd); client.IgnoreNotFound(err) != nil {
		return err
	}
	gone := func(found *unstructured.Unstructured) bool { return found == nil }
	if err := c.waitForCRD(ctx, crd, "go away", gone); err != nil {
		return err
	}
	return c.waitForObjects(ctx, crd, false)
}

func eachCRD(folder string, names []string, do func(*unstructured.Unstructured) error) error {
	known, err := crdNames(folder)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = known
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no CRD %q in %s; known: %s", name, folder, strings.Join(known, ", "))
		}
		crd, err := readCRD(folder, name)
		if err != nil {
			return err
		}
		if err := do(crd); err != nil {
			return err
		}
	}
	return nil
}

func crdNames(folder string) ([]string, error) {
	entries, err := crdFiles.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names, nil
}

func readCRD(folder, name string) (*unstructured.Unstructured, error) {
	content, err := crdFiles.ReadFile(path.Join(folder, name+".yaml"))
	if err != nil {
		return nil, err
	}
	objects, err := parseObjects(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("%s has %d objects, want 1", name, len(objects))
	}
	return objects[0], nil
}

// waitForCRD polls until is holds; is gets nil when there is no such CRD.
func (c *Cluster) waitForCRD(ctx context.Context, crd *unstructured.Unstructured, what string, is func(*unstructured.Unstructured) bool) error {
	err := wait.PollUntilContextTimeout(ctx, crdPoll, patience, true, func(ctx context.Context) (bool, error) {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(crd.GroupVersionKind())
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(crd), found)
		if apierrors.IsNotFound(err) {
			return is(nil), nil
		}
		return err == nil && is(found), err
	})
	if err != nil {
		return fmt.Errorf("waiting for CRD %s to %s: %w", crd.GetName(), what, err)
	}
	return nil
}

// waitForObjects polls until the API server serves the objects of a CRD, or no longer does: it learns of a CRD by a watch, a
// moment after the CRD itself changed.
func (c *Cluster) waitForObjects(ctx context.Context, crd *unstructured.Unstructured, served bool) error {
	kind := schema.GroupVersionKind{Version: versionOf(crd)}
	kind.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	kind.Kind, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "listKind")
	err := wait.PollUntilContextTimeout(ctx, crdPoll, patience, true, func(ctx context.Context) (bool, error) {
		objects := &metav1.PartialObjectMetadataList{}
		objects.SetGroupVersionKind(kind)
		err := c.Client.List(ctx, objects, client.Limit(1))
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return false, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		return (err == nil) == served, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s (want served: %t): %w", kind.Kind, served, err)
	}
	return nil
}

// versionOf returns the one version of a CRD.
func versionOf(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, each := range versions {
		if version, ok := each.(map[string]any); ok {
			name, _ := version["name"].(string)
			return name
		}
	}
	return ""
}

func established(crd *unstructured.Unstructured) bool {
	if crd == nil || crd.GetDeletionTimestamp() != nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(each any) bool {
		condition, ok := each.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	})
}
