// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var _ = Describe("A policy that takes signals", func() {
	It("says at which path, and else what is missing", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.lacksRights = true
		w.listen()
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"webhook"}))
		w.start(ctx)
		receives, ready := w.policy(ctx, "default", candorv1alpha1.ConditionReceiving), w.policy(ctx, "default", candorv1alpha1.ConditionReady)
		says := func() string {
			w.clock.Step(time.Minute)
			w.lookPolicy("default")
			return receives()
		}
		Eventually(receives).Should(Equal("False/NotConfigured: The provider webhook takes signals of other tools, and spec.webhookReceiver is missing: add it, with the Secret that they sign with."))
		Eventually(ready).Should(HavePrefix("False/ProviderUnavailable: The provider webhook takes signals"))
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, receiving))
		Eventually(receives).Should(Equal("False/ProviderNotNamed: spec.webhookReceiver is there, and spec.providers does not name webhook: add it."))
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"webhook"}, receiving))
		Eventually(receives).Should(Equal(fmt.Sprintf("False/SecretUnreadable: Candor may not read Secret door. Unless its name is wrong: kubectl -n %[1]s create role candor-door --verb=get --resource=secrets --resource-name=door "+
			"&& kubectl -n %[1]s create rolebinding candor-door --role=candor-door --serviceaccount=candor-system:candor-controller-manager", w.namespace)))
		w.grant(ctx, door)
		Eventually(says).Should(Equal("False/SecretUnreadable: Secret door does not exist: create it, with the key secret."))
		w.apply(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: door}, StringData: map[string]string{"secret": "hunter2"}})
		Eventually(says).Should(Equal("False/SecretUnreadable: What Secret door has under secret is shorter than 16 bytes and not used: make it longer, as openssl rand -hex 32 does."))
		w.apply(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: door}, StringData: map[string]string{"secret": doorKey}})
		Eventually(says).Should(Equal(fmt.Sprintf("True/Listening: Taking signals at /webhook/%s/default.", w.namespace)))
		Eventually(ready).Should(Equal(fmt.Sprintf("True/Active: Taking signals at /webhook/%s/default.", w.namespace)))
		w.heard()
		Eventually(func() string { return w.signal(disk()) }).Should(Equal("202 created"))

		w.stop()
		w.options.Receiver.Port = 0
		w.start(ctx)
		Eventually(receives).Should(Equal("False/ReceiverOff: Candor takes no signals: an administrator turns that on by --signal-receiver-port, such as 9444."))
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		Eventually(receives).Should(BeEmpty())
	})

	DescribeTable("has a time after which signals are stale", func(ctx SpecContext, time string, refused bool) {
		strict := client.WithFieldValidation(cluster.Client, metav1.FieldValidationStrict)
		w := newWorld(ctx)
		err := strict.Create(ctx, w.parse(strings.Replace(oldPolicy, "      name: receiver\n", "      name: receiver\n    staleAfter: "+time+"\n", 1)))
		if refused {
			Expect(err).To(MatchError(ContainSubstring("must be 0s, which stands for 168h, or at least 1h")))
			return
		}
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("of nothing, which stands for a week", "0s", false), Entry("of an hour", "1h", false), Entry("of days", "720h", false),
		Entry("of less than an hour", "59m", true), Entry("of less than nothing", "-2h", true))

	It("has a time even where it says nothing", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		Expect(w.storedPolicy(ctx, "default").Spec.WebhookReceiver.StaleAfter.Duration).To(Equal(168 * time.Hour))
		Expect(w.storedPolicy(ctx, "default").Spec.WebhookReceiver.MaxFindings).To(BeEquivalentTo(1000))
	})
})
