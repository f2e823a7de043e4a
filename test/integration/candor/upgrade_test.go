// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

var _ = Describe("A Finding of the existing Candor", func() {
	It("that was Resolved is kept for the whole retention, counted from the upgrade", func(ctx SpecContext) {
		w := newWorld(ctx)
		old := &candorv1alpha1.Finding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "trivy-0123456789ab"},
			Spec: candorv1alpha1.FindingSpec{
				Source: candorv1alpha1.Source{
					Provider: "trivy", Kind: "StatefulSet", Name: "db", RefKind: "VulnerabilityReport", RefName: "statefulset-db-postgres",
				},
				Severity: candorv1alpha1.SeverityHigh, Summary: "0 critical, 3 high, 0 medium, 0 low vulnerabilities in library/postgres:16",
			},
		}
		w.apply(ctx, old)
		old.Status = candorv1alpha1.FindingStatus{Fingerprint: "old", VerificationOutcome: candorv1alpha1.OutcomeResolved}
		Expect(cluster.Client.Status().Update(ctx, old)).To(Succeed())
		w.start(ctx)

		read := func() (found candorv1alpha1.Finding, err error) {
			err = cluster.Client.Get(ctx, client.ObjectKeyFromObject(old), &found)
			return found, err
		}
		Eventually(read).Should(HaveField("Status.Conditions", ContainElement(HaveField("Reason", candorv1alpha1.ReasonForeign))))
		found, err := read()
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeResolved))
		Expect(found.Status.Since.Time).To(BeTemporally("==", w.clock.Now()))

		w.clock.Step(w.options.FindingRetention - time.Minute)
		w.wakeFindings <- event.GenericEvent{Object: old}
		Consistently(read, "1s").Should(HaveField("UID", old.UID))
		w.clock.Step(time.Minute)
		w.wakeFindings <- event.GenericEvent{Object: old}
		Eventually(func() error { _, err := read(); return err }).Should(Satisfy(apierrors.IsNotFound))
	})
})
