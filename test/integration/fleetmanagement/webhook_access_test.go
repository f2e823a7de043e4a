// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A discovery into another namespace", func() {
	// authorizing serves the webhooks, and makes another namespace.
	authorizing := func(ctx context.Context, change ...func(*world)) (w *world, target string) {
		GinkgoHelper()
		w = newWorld(ctx)
		w.enableOnly()
		w.options.Fleet.AuthorizeDiscoveries = true
		for _, c := range change {
			c(w)
		}
		w.served(ctx, w.options.Fleet.WebhookRemoteValidate)
		target = w.namespace + "-target"
		cluster.CreateNamespace(ctx, target)
		return w, target
	}

	It("takes the right to create there by oneself what it makes", func(ctx SpecContext) {
		w, target := authorizing(ctx)
		carl := person(ctx, "carl", w.namespace)
		Eventually(try(ctx, carl, aCollectorDiscovery(w.namespace, "", nil, nil))).Should(Succeed(), "his own namespace")
		Expect(try(ctx, carl, aPipelineDiscovery(w.namespace, w.namespace))()).To(Succeed(), "his own namespace by name")
		err := try(ctx, carl, aCollectorDiscovery(w.namespace, target, nil, nil))()
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("spec.targetNamespace: Forbidden: carl may not create collectors in the namespace " + target)))
		Expect(try(ctx, carl, aPipelineDiscovery(w.namespace, target))()).To(MatchError(ContainSubstring("may not create pipelines in the namespace " + target)))
		grant(ctx, "carl", target)
		Eventually(try(ctx, carl, aCollectorDiscovery(w.namespace, target, nil, nil))).Should(Succeed())
		Expect(try(ctx, carl, aPipelineDiscovery(w.namespace, target))()).To(Succeed())
	})

	It("is judged again when its spec changes, and not for its metadata", func(ctx SpecContext) {
		w, target := authorizing(ctx)
		carl := person(ctx, "carl", w.namespace)
		d := aCollectorDiscovery(w.namespace, target, nil, nil)
		cluster.Create(ctx, d)
		Eventually(func() error { return carl.Patch(ctx, d, merge(`{"metadata": {"labels": {"touched": "yes"}}}`)) }).Should(Succeed())
		Expect(carl.Patch(ctx, d, merge(`{"spec": {"includeInactive": true}}`))).To(MatchError(ContainSubstring("spec.targetNamespace: Forbidden")))
		Expect(carl.Delete(ctx, d)).To(Succeed())
		Expect(apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), d))).To(BeTrue())
	})

	It("is refused while rights cannot be asked for", func(ctx SpecContext) {
		w, target := authorizing(ctx, func(w *world) { w.meddle = failing("subjectaccessreviews") })
		err := try(ctx, cluster.Client, aPipelineDiscovery(w.namespace, target))()
		Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("refused, since it cannot be told whether")))
		Expect(try(ctx, cluster.Client, aPipelineDiscovery(w.namespace, ""))()).To(Succeed(), "nothing to ask")
	})

	It("is nobody's question by default", func(ctx SpecContext) {
		w, target := authorizing(ctx, func(w *world) { w.options.Fleet.AuthorizeDiscoveries = false })
		carl := person(ctx, "carl", w.namespace)
		Eventually(try(ctx, carl, aCollectorDiscovery(w.namespace, target, nil, nil))).Should(Succeed())
	})
})
