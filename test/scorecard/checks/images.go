// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	disconnectedAnnotation = "features.operators.openshift.io/disconnected"
	imageAnnotation        = "containerImage"
	relatedVariable        = "RELATED_IMAGE_"
)

// images checks that spec.relatedImages, from which mirrors are made, lists every image that runs, and no other, by digest. A
// bundle of an image that is not released names it by its tag, and then does not claim to work without a registry.
func images(b *Bundle, n *notes) {
	used := map[string]bool{}
	for _, d := range b.strategy().DeploymentSpecs {
		pod := d.Spec.Template.Spec
		for _, c := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
			for _, image := range imagesOf(c) {
				used[image] = true
			}
		}
	}
	if image := b.CSV.Annotations[imageAnnotation]; !used[image] {
		n.errorf("the annotation %s names %s, which nothing runs", imageAnnotation, image)
	}
	pinned := true
	for _, related := range b.CSV.Spec.RelatedImages {
		if !used[related.Image] {
			n.errorf("spec.relatedImages has %s, which nothing runs", related.Image)
		}
		delete(used, related.Image)
		if !strings.Contains(related.Image, "@sha256:") {
			pinned = false
			n.remarkf("%s is named by its tag, so this is no release: that names a digest (make bundle IMG=…@sha256:…)", related.Image)
		}
	}
	for image := range used {
		n.errorf("spec.relatedImages lacks %s", image)
	}
	switch claim := b.CSV.Annotations[disconnectedAnnotation]; {
	case claim == "true" && !pinned:
		n.errorf("the annotation %s is true, and a mirror serves digests, not tags", disconnectedAnnotation)
	case claim != "true" && pinned:
		n.errorf("the annotation %s is %q, and every image has a digest", disconnectedAnnotation, claim)
	}
}

func imagesOf(c corev1.Container) []string {
	found := []string{c.Image}
	for _, variable := range c.Env {
		if strings.HasPrefix(variable.Name, relatedVariable) {
			found = append(found, variable.Value)
		}
	}
	return found
}
