// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Bundle is what a folder with manifests/ and metadata/ holds.
type Bundle struct {
	*manifests.Bundle
	// Annotations are those of metadata/annotations.yaml.
	Annotations map[string]string
	// Properties are those of metadata/properties.yaml, and Dependencies those of metadata/dependencies.yaml.
	Properties, Dependencies []property
}

// property is what OLM's resolver reads: a value and the type that says what it means.
type property struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// Read reads a bundle.
func Read(folder string) (*Bundle, error) {
	read, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the bundle in %s: %w", folder, err)
	}
	var metadata struct {
		Annotations              map[string]string
		Properties, Dependencies []property
	}
	for _, name := range []string{"annotations", "properties", "dependencies"} {
		path := filepath.Join(folder, "metadata", name+".yaml")
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err := yaml.Unmarshal(content, &metadata); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return &Bundle{read, metadata.Annotations, metadata.Properties, metadata.Dependencies}, nil
}

func (b *Bundle) strategy() *operatorsv1alpha1.StrategyDetailsDeployment {
	return &b.CSV.Spec.InstallStrategy.StrategySpec
}
