// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"encoding/json"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var _ = It("bundle: every example of the ClusterServiceVersion is accepted, its status too", func(ctx SpecContext) {
	content, err := os.ReadFile("../../../bundle/manifests/candor.clusterserviceversion.yaml")
	Expect(err).NotTo(HaveOccurred())
	var csv unstructured.Unstructured
	Expect(yaml.Unmarshal(content, &csv.Object)).To(Succeed())
	var examples []unstructured.Unstructured
	Expect(json.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &examples)).To(Succeed())
	Expect(examples).To(HaveLen(3))

	w := newWorld(ctx)
	for _, example := range examples {
		example.SetNamespace(w.namespace)
		made := example.DeepCopy()
		Expect(cluster.Client.Create(ctx, made)).To(Succeed())
		example.SetResourceVersion(made.GetResourceVersion())
		Expect(cluster.Client.Status().Update(ctx, &example)).To(Succeed())
		Expect(example.Object["status"]).NotTo(BeEmpty())
		Expect(cluster.Client.Delete(ctx, &example)).To(Succeed())
	}
})
