// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// kustomization holds the fields that change rights, and those that certainly do not.
type kustomization struct {
	Resources  []string `json:"resources"`
	Namespace  string   `json:"namespace"`
	NamePrefix string   `json:"namePrefix"`

	APIVersion        json.RawMessage `json:"apiVersion"`
	Kind              json.RawMessage `json:"kind"`
	Labels            json.RawMessage `json:"labels"`
	CommonLabels      json.RawMessage `json:"commonLabels"`
	CommonAnnotations json.RawMessage `json:"commonAnnotations"`
}

// readKustomization refuses, when strict, a field that it does not know: what it cannot apply it must not pass over.
func readKustomization(dir string, strict bool) (kustomization, error) {
	path := filepath.Join(dir, "kustomization.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		return kustomization{}, err
	}
	asJSON, err := yaml.ToJSON(content)
	if err != nil {
		return kustomization{}, fmt.Errorf("%s: %w", path, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	if strict {
		decoder.DisallowUnknownFields()
	}
	var k kustomization
	if err := decoder.Decode(&k); err != nil {
		return kustomization{}, fmt.Errorf("%s: %w; test/kube does not apply that, teach it or leave it out", path, err)
	}
	return k, nil
}

// readObjects reads the resources that dir's kustomization lists.
func readObjects(dir string) ([]*unstructured.Unstructured, error) {
	k, err := readKustomization(dir, true)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range k.Resources {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		found, err := parseObjects(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func parseObjects(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 { // a document of comments alone
			objects = append(objects, object)
		}
	}
}
