// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/candor-dev/candor/config"
)

// configured returns the objects in a folder of config/.
func configured(folder string) ([]unstructured.Unstructured, error) {
	files, err := fs.Glob(config.Files, folder+"/*.yaml")
	if err != nil {
		return nil, err
	}
	var objects []unstructured.Unstructured
	for _, file := range files {
		content, err := config.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var object unstructured.Unstructured
			if err == nil {
				err = yaml.Unmarshal(document, &object.Object)
			}
			if err != nil {
				return nil, fmt.Errorf("config/%s: %w", file, err)
			}
			if object.GetKind() != "" { // a kustomization has none
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}
