// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// bundle is what a folder of manifests and metadata says.
type bundle struct {
	csv        v1alpha1.ClusterServiceVersion
	crds       []apiextensionsv1.CustomResourceDefinition
	roles      []rbacv1.ClusterRole
	properties []property
	examples   []unstructured.Unstructured
}

type property struct {
	Type  string         `json:"type"`
	Value map[string]any `json:"value"`
}

func read(folder string) (*bundle, error) {
	files, err := filepath.Glob(filepath.Join(folder, "manifests", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	b := &bundle{}
	for _, file := range files {
		if err := b.add(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if b.csv.Name == "" {
		return nil, fmt.Errorf("no ClusterServiceVersion in %s", filepath.Join(folder, "manifests"))
	}
	return b, errors.Join(
		b.readProperties(filepath.Join(folder, "metadata", "properties.yaml")),
		b.noDependencies(filepath.Join(folder, "metadata", "dependencies.yaml")),
		json.Unmarshal([]byte(b.csv.Annotations["alm-examples"]), &b.examples))
}

func (b *bundle) add(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(content, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "ClusterServiceVersion":
		return yaml.Unmarshal(content, &b.csv)
	case "CustomResourceDefinition":
		b.crds = append(b.crds, apiextensionsv1.CustomResourceDefinition{})
		return yaml.Unmarshal(content, &b.crds[len(b.crds)-1])
	case "ClusterRole":
		b.roles = append(b.roles, rbacv1.ClusterRole{})
		return yaml.Unmarshal(content, &b.roles[len(b.roles)-1])
	default:
		return nil
	}
}

func (b *bundle) readProperties(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list struct {
		Properties []property `json:"properties"`
	}
	err = yaml.Unmarshal(content, &list)
	b.properties = list.Properties
	return err
}

// noDependencies makes each dependency a property, as OLM does.
func (b *bundle) noDependencies(file string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var list struct {
		Dependencies []property `json:"dependencies"`
	}
	err = yaml.Unmarshal(content, &list)
	b.properties = append(b.properties, list.Dependencies...)
	return err
}
