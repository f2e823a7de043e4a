// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/test/scorecard/checks"
)

var _ = It("bundle: the API server stores every example of the ClusterServiceVersion as it is, its status too", func(ctx SpecContext) {
	bundle, err := checks.Read("../../../bundle")
	Expect(err).NotTo(HaveOccurred())
	examples, err := bundle.Examples()
	Expect(err).NotTo(HaveOccurred())
	Expect(examples).To(HaveLen(len(bundle.V1CRDs)))

	strict := client.FieldValidation(metav1.FieldValidationStrict)
	w := newWorld(ctx)
	for _, example := range examples {
		example.SetNamespace(w.namespace)
		stored := example.DeepCopy()
		Expect(cluster.Client.Create(ctx, stored, strict)).To(Succeed())
		// The managers of other specs would look after it, without the Secrets that it names.
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, stored))).To(Succeed()) })
		stored.Object["status"] = example.DeepCopy().Object["status"]
		Expect(cluster.Client.Status().Update(ctx, stored, strict)).To(Succeed())
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
		Expect(stored.Object["status"]).To(And(Not(BeNil()), Equal(example.Object["status"])))
	}
})
