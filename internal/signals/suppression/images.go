// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suppression

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const (
	// below ends the name of everything under a path.
	below = "/*"
	// official is the path of Docker Hub that people leave out.
	official = "library/"
)

// hub are the names of Docker Hub: scanners write the first, people the others.
var hub = []string{"index.docker.io", "docker.io", "registry-1.docker.io"}

// images are the names that imageRepositories of a Suppression gives.
type images struct {
	exact sets.Set[string]
	// paths end with a slash.
	paths []string
}

// imagesOf returns nil for no names.
func imagesOf(names []string) *images {
	if len(names) == 0 {
		return nil
	}
	i := &images{exact: sets.New[string]()}
	for _, name := range names {
		if path, all := strings.CutSuffix(name, below); all {
			i.paths = append(i.paths, path+"/")
		} else {
			i.exact.Insert(name)
		}
	}
	return i
}

// hold reports whether an image is among them.
func (i *images) hold(artifact candorv1alpha1.Artifact) bool {
	return slices.ContainsFunc(namesOf(artifact), func(name string) bool {
		return i.exact.Has(name) || slices.ContainsFunc(i.paths, func(path string) bool { return strings.HasPrefix(name, path) })
	})
}

// namesOf returns what people call an image: with and without its registry, and on Docker Hub also without the path of
// official images.
func namesOf(artifact candorv1alpha1.Artifact) []string {
	if artifact.Repository == "" {
		return nil
	}
	repositories, registries := []string{artifact.Repository}, []string{artifact.Registry}
	if slices.Contains(hub, artifact.Registry) {
		registries = hub
		if short, is := strings.CutPrefix(artifact.Repository, official); is {
			repositories = append(repositories, short)
		}
	}
	names := slices.Clone(repositories)
	for _, registry := range registries {
		for _, repository := range repositories {
			if registry != "" {
				names = append(names, registry+"/"+repository)
			}
		}
	}
	return names
}
