// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

const (
	accepted = "accepted by the security team"
	lifted   = "Off, False/SuppressionEnded: No Suppression of this namespace holds the present fingerprint: " +
		"the last one was deleted or expired, or the content changed."
	noMatch = "False/NoMatch: No Finding of this namespace has this fingerprint now: its content changed, it is gone, " +
		"or the fingerprint was not copied whole. (0)"
)

var _ = Describe("A Suppression", Ordered, ContinueOnFailure, func() {
	var (
		w           *world
		fingerprint string
	)
	web := func(ctx context.Context) func() *candorv1alpha1.Finding {
		return w.finding(ctx, "trivy", "Deployment", "web", "nginx")
	}
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.startWithWeb(ctx)
		fingerprint = web(ctx)().Status.Fingerprint
	})
	AfterEach(func(ctx SpecContext) {
		Expect(cluster.Client.DeleteAllOf(ctx, &candorv1alpha1.Suppression{}, client.InNamespace(w.namespace))).To(Succeed())
		Eventually(muteOf(web(ctx))).ShouldNot(ContainSubstring("Muted"))
	})

	It("suppress-create, suppress-delete: mutes at once and stops when it is deleted, and both objects say so", func(ctx SpecContext) {
		Expect(muteOf(web(ctx))()).To(Equal("Off, "))
		quiet := builder.Suppression(w.namespace, "quiet", fingerprint)
		w.apply(ctx, quiet)
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: Muted by Suppression quiet: " + accepted))
		Eventually(w.suppression(ctx, "quiet")).Should(Equal(fmt.Sprintf("True/Active: Mutes 1 Finding. (1 %s)", web(ctx)().Name)))
		Eventually(w.metric("candor_findings_suppressed")).Should(Equal(1.0))
		Eventually(w.eventNotes(ctx, "Muted")).Should(ConsistOf("Muted by Suppression quiet: " + accepted))

		Expect(cluster.Client.Delete(ctx, quiet)).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(Equal(lifted))
		Eventually(w.metric("candor_findings_suppressed")).Should(Equal(0.0))
		Expect(outcome(web(ctx))()).To(Equal(candorv1alpha1.OutcomeStillPresent), "a mute says nothing about whether it is true")
		Eventually(w.eventNotes(ctx, "SuppressionEnded")).Should(HaveLen(1))
	})

	It("suppress-edit: stops muting when it is edited to another fingerprint, and mutes again when it is edited back", func(ctx SpecContext) {
		quiet := builder.Suppression(w.namespace, "quiet", fingerprint)
		w.apply(ctx, quiet)
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted, True/Muted"))
		Expect(cluster.Client.Patch(ctx, quiet, merge(`{"spec": {"fingerprint": "18a01a3c8832"}}`))).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(Equal(lifted))
		Eventually(w.suppression(ctx, "quiet")).Should(Equal(noMatch))
		Expect(cluster.Client.Patch(ctx, quiet, merge(`{"spec": {"fingerprint": "`+fingerprint+`"}}`))).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: Muted by Suppression quiet: " + accepted))
		Eventually(w.suppression(ctx, "quiet")).Should(HavePrefix("True/Active"))
	})

	It("suppress-reason: shows a reason that is edited", func(ctx SpecContext) {
		quiet := builder.Suppression(w.namespace, "quiet", fingerprint)
		w.apply(ctx, quiet)
		Eventually(muteOf(web(ctx))).Should(HaveSuffix(accepted))
		Expect(cluster.Client.Patch(ctx, quiet, merge(`{"spec": {"reason": "the fix ships on Monday"}}`))).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(HaveSuffix("the fix ships on Monday"))
	})

	It("suppress-expire: stops by itself when its time has come", func(ctx SpecContext) {
		w.apply(ctx, builder.Suppression(w.namespace, "quiet", fingerprint, until(w.clock.Now().Add(time.Hour))))
		stamp := w.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: Muted by Suppression quiet until " + stamp + ": " + accepted))
		Eventually(w.suppression(ctx, "quiet")).Should(HavePrefix("True/Active: Mutes 1 Finding until " + stamp + "."))
		w.clock.Step(time.Hour)
		w.lookAgain(web(ctx)(), "quiet")
		Eventually(muteOf(web(ctx))).Should(Equal(lifted))
		Eventually(w.suppression(ctx, "quiet")).Should(Equal("False/Expired: Expired at " + stamp + ": mutes nothing. (0)"))
	})

	It("suppress-twice: of two on one fingerprint, the one that lasts longer mutes, and each says what it does", func(ctx SpecContext) {
		short := builder.Suppression(w.namespace, "a-short", fingerprint, until(w.clock.Now().Add(time.Hour)))
		w.apply(ctx, short, builder.Suppression(w.namespace, "b-endless", fingerprint))
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: Muted by Suppression b-endless: " + accepted))
		for _, name := range []string{"a-short", "b-endless"} {
			Eventually(w.suppression(ctx, name)).Should(HavePrefix("True/Active: Mutes 1 Finding"), name)
		}
		Expect(cluster.Client.Delete(ctx, builder.Suppression(w.namespace, "b-endless", ""))).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted, True/Muted: Muted by Suppression a-short until "))
		w.clock.Step(time.Hour)
		w.lookAgain(web(ctx)(), "a-short")
		Eventually(muteOf(web(ctx))).Should(Equal(lifted))
	})

	It("suppress-no-match: says when its fingerprint is that of no Finding, and mutes nothing", func(ctx SpecContext) {
		w.apply(ctx, builder.Suppression(w.namespace, "typo", fingerprint[:63]))
		Eventually(w.suppression(ctx, "typo")).Should(Equal(noMatch))
		Expect(muteOf(web(ctx))()).NotTo(ContainSubstring("Muted"))
	})

	It("suppress-foreign-namespace: does nothing in another namespace", func(ctx SpecContext) {
		other := newWorld(ctx)
		w.apply(ctx, builder.Suppression(other.namespace, "quiet", fingerprint))
		Eventually(other.suppression(ctx, "quiet")).Should(Equal(noMatch))
		Expect(muteOf(web(ctx))()).NotTo(ContainSubstring("Muted"))
	})

	It("suppress-survives: keeps muting through rescans, rollouts and a restart, with 0 writes", func(ctx SpecContext) {
		w.apply(ctx, builder.Suppression(w.namespace, "quiet", fingerprint))
		Eventually(w.suppression(ctx, "quiet")).Should(HavePrefix("True/Active"))
		w.expectNoWrites(ctx, func() {
			w.apply(ctx, webReport(w.namespace, "web-1", 3, builder.UpdatedAt(w.clock.Now().Add(time.Hour))))
		})
		w.expectNoWrites(ctx, func() { w.rollOutWeb(ctx) })
		w.expectNoWrites(ctx, func() { w.restart(ctx) })
		Expect(muteOf(web(ctx))()).To(Equal("Muted, True/Muted: Muted by Suppression quiet: " + accepted))
	})

	It("suppress-resurface: lifts itself when the content changes", func(ctx SpecContext) {
		w.apply(ctx, builder.Suppression(w.namespace, "quiet", fingerprint))
		Eventually(w.suppression(ctx, "quiet")).Should(HavePrefix("True/Active"))
		w.apply(ctx, webReport(w.namespace, "web-2", 4))
		Eventually(muteOf(web(ctx))).Should(Equal(lifted))
		Eventually(w.suppression(ctx, "quiet")).Should(Equal(noMatch))
	})

	DescribeTable("suppress-without-reason: is refused", func(ctx SpecContext, change func(spec map[string]any)) {
		s := asUnstructured(builder.Suppression(w.namespace, "mute", fingerprint), "Suppression")
		change(s.Object["spec"].(map[string]any))
		Expect(cluster.Client.Create(ctx, s)).To(MatchError(ContainSubstring("a reason is required: say in spec.reason why this Finding is muted")))
	},
		Entry("when the reason is missing", func(spec map[string]any) { delete(spec, "reason") }),
		Entry("when the reason is empty", func(spec map[string]any) { spec["reason"] = "" }),
		Entry("when the reason is blank", func(spec map[string]any) { spec["reason"] = " \t\n " }),
	)
})

// startWithWeb runs the manager over a Deployment "web" whose report has three entries, and waits for its Finding.
func (w *world) startWithWeb(ctx context.Context) {
	GinkgoHelper()
	web := builder.Deployment(w.namespace, "web")
	w.apply(ctx, web)
	w.apply(ctx, builder.ReplicaSet(web, w.namespace, "web-1", 1), builder.Policy(w.namespace, "default", []string{"trivy"}),
		webReport(w.namespace, "web-1", 3))
	w.start(ctx)
	w.serving()
	Eventually(outcome(w.finding(ctx, "trivy", "Deployment", "web", "nginx"))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
}

// rollOutWeb does what Kubernetes and Trivy Operator do when the Deployment "web" gets a new revision.
func (w *world) rollOutWeb(ctx context.Context) {
	GinkgoHelper()
	web := builder.Deployment(w.namespace, "web")
	Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(web), web)).To(Succeed())
	w.apply(ctx, builder.ReplicaSet(web, w.namespace, "web-2", 2), webReport(w.namespace, "web-2", 3))
	old := webReport(w.namespace, "web-1", 3, builder.Superseded)
	w.apply(ctx, old)
	Expect(cluster.Client.Delete(ctx, old)).To(Succeed())
}

// expectNoWrites holds the manager to write nothing in this namespace because of what happens, but for the counts of policies,
// which follow seconds later, and events.
func (w *world) expectNoWrites(ctx context.Context, happens func()) {
	GinkgoHelper()
	written := func() []string {
		var all []string
		for _, r := range w.counter.Requests() {
			if !r.Reads() && r.Namespace == w.namespace && r.Resource != "events" && r.Resource != "signalpolicies/status" {
				all = append(all, r.String())
			}
		}
		return all
	}
	w.settle(ctx)
	before := len(written())
	happens()
	w.settle(ctx)
	Expect(written()[before:]).To(BeEmpty())
}

// lookAgain makes the controllers look at a Finding and a Suppression, as their timers would.
func (w *world) lookAgain(f *candorv1alpha1.Finding, suppression string) {
	w.wakeFindings <- event.GenericEvent{Object: f}
	w.wakeSuppressions <- event.GenericEvent{Object: builder.Suppression(w.namespace, suppression, "")}
}

// suppression returns a function that puts the status of a Suppression into one line.
func (w *world) suppression(ctx context.Context, name string) func() string {
	return func() string {
		var s candorv1alpha1.Suppression
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &s); err != nil {
			return err.Error()
		}
		count := strings.TrimSpace(fmt.Sprint(s.Status.Muted, " ", s.Status.Finding))
		return fmt.Sprintf("%s (%s)", spoken(s.Status.Conditions, candorv1alpha1.ConditionReady), count)
	}
}

// eventNotes returns a function that reads the notes of the namespace's events of a reason.
func (w *world) eventNotes(ctx context.Context, reason string) func() []string {
	return func() []string { return cluster.EventNotes(ctx, w.namespace, reason) }
}

// muteOf puts what a Finding says about being muted into one line.
func muteOf(f func() *candorv1alpha1.Finding) func() string {
	return func() string {
		found := f()
		if found == nil {
			return "no Finding"
		}
		return fmt.Sprintf("%s, %s", found.Status.Explained, spoken(found.Status.Conditions, candorv1alpha1.ConditionSuppressed))
	}
}

// spoken puts a condition into one line, empty when there is none.
func spoken(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
}

// webReport is the report of a revision of the Deployment "web" with n entries.
func webReport(namespace, replicaSet string, n int, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return builder.VulnerabilityReport(namespace, "ReplicaSet", replicaSet, "nginx", builder.Vulnerabilities(n, "HIGH"), change...)
}

func because(reason string) func(*candorv1alpha1.Suppression) {
	return func(s *candorv1alpha1.Suppression) { s.Spec.Reason = reason }
}

func until(at time.Time) func(*candorv1alpha1.Suppression) {
	return func(s *candorv1alpha1.Suppression) { s.Spec.ExpiresAt = &metav1.Time{Time: at} }
}

// asUnstructured returns what kubectl would send of an object.
func asUnstructured(object client.Object, kind string) *unstructured.Unstructured {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(candorv1alpha1.GroupVersion.WithKind(kind))
	delete(u.Object, "status")
	return u
}
