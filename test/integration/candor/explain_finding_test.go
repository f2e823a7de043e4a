// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("A Finding that is explained", func() {
	var (
		w     *world
		model *llmserver.Server
	)

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		model = withModel(w)
	})

	DescribeTable("stays under 16 KiB (G15), with the longest evidence and the longest answers in",
		func(ctx SpecContext, letter string) {
			long := func(n int) string { return fmt.Sprint(n, strings.Repeat(letter, 1100)) }
			var hypotheses []any
			for i := range 5 {
				hypotheses = append(hypotheses, map[string]any{"cause": long(i), "confidence": 50, "rationale": long(i), "recommendedAction": "ProposePullRequest"})
			}
			text, err := json.Marshal(map[string]any{"hypotheses": hypotheses})
			Expect(err).NotTo(HaveOccurred())
			model.Script(func(*llmserver.Call) llmserver.Behaviour {
				return llmserver.Raw(http.StatusOK, "application/json", messageOf(string(text)))
			})
			var entries, checks []any
			for i := range 30 {
				entry := builder.Vulnerability(fmt.Sprint("CVE-", long(i)), long(i), "CRITICAL")
				entry["installedVersion"], entry["fixedVersion"] = long(i), long(i)
				entries, checks = append(entries, entry), append(checks, builder.Check(fmt.Sprint("KSV-", long(i)), "CRITICAL", false, long(i)))
			}
			w.start(ctx)
			name := strings.Repeat("n", 63)
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy", "trivy/config"}),
				builder.CheckReport("ConfigAuditReport", w.namespace, "StatefulSet", name, checks))
			w.scan(ctx, name, entries)
			Eventually(func() map[string]int { return w.reasons(ctx) }).Should(Equal(map[string]int{candorv1alpha1.ReasonEnriched: 2}))
			for _, f := range w.findings(ctx) {
				Expect(f.Status.Hypotheses).To(HaveLen(3))
				w.apply(ctx, builder.Suppression(w.namespace, f.Name, f.Status.Fingerprint, because(strings.Repeat(letter, 1024/len(letter)))))
			}
			w.settle(ctx)
			expectSmall := func() {
				GinkgoHelper()
				for _, f := range w.findings(ctx) {
					Expect(f.Status.Hypotheses).To(HaveLen(3))
					Expect(sizeOf(&f)).To(BeNumerically("<", 16<<10), f.Name)
				}
			}
			expectSmall()
			model.Script(func(*llmserver.Call) llmserver.Behaviour {
				return llmserver.Failure(http.StatusBadRequest, "invalid_request_error", "", strings.Repeat(letter, 400))
			})
			w.scan(ctx, name, entries[1:])
			w.apply(ctx, builder.CheckReport("ConfigAuditReport", w.namespace, "StatefulSet", name, checks[1:]))
			Eventually(func() map[string]int { return w.reasons(ctx) }).Should(Equal(map[string]int{candorv1alpha1.ReasonEnrichmentFailed: 2}))
			expectSmall()
		},
		Entry("runes of one byte", "a"),
		Entry("runes of four bytes", "\U0001F680"),
		Entry("runes that JSON writes as six bytes", "<"),
	)

	It("of 5,000 entries costs a request of a bounded size (G16)", func(ctx SpecContext) {
		w.start(ctx)
		entries := builder.Vulnerabilities(5000, "HIGH")
		for i := range entries {
			entry := entries[i].(map[string]any)
			entry["title"], entry["primaryLink"] = "", "" // the API server takes 1.5 MiB
		}
		w.deploy(ctx, "web", entries)
		web := w.of(ctx, "web")
		Eventually(why(web)).Should(Equal(candorv1alpha1.ReasonEnriched))
		body := model.Journal()[0].Body
		Expect(len(body)).To(BeNumerically("<", 16<<10))
		Expect(web().Status.Request.Bytes).To(BeEquivalentTo(len(body)))
		Expect(string(body)).To(ContainSubstring(`\"total\":5000`))
		w.scan(ctx, "web", shuffled(entries))
		w.drained(ctx)
		Expect(model.Stats().Calls).To(Equal(1))
	})

	It("shows the digest of the very bytes that were sent, which the command preview prints", func(ctx SpecContext) {
		w.apply(ctx, operating(model, audit))
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(30, "HIGH"), sharing(candorv1alpha1.SharingNone))
		web := w.of(ctx, "web")
		Eventually(why(web)).Should(Equal(candorv1alpha1.ReasonAudit))
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(cluster.Kubeconfig(kubeconfig)).To(Succeed())
		GinkgoT().Setenv("KUBECONFIG", kubeconfig)
		options := w.options
		options.Preview = client.ObjectKeyFromObject(web())
		var printed, info bytes.Buffer
		Expect(app.Preview(ctx, options, &printed, &info)).To(Succeed())
		sum := sha256.Sum256(printed.Bytes())
		key := hex.EncodeToString(sum[:])
		Expect(web().Status.Request.Key).To(Equal(key))
		Expect(info.String()).To(ContainSubstring(key))
		Expect(model.Stats().Calls).To(BeZero())
		w.apply(ctx, operating(model))
		Eventually(why(web)).Should(Equal(candorv1alpha1.ReasonEnriched))
		Expect(model.Journal()).To(HaveLen(1))
		Expect(model.Journal()[0].Body).To(Equal(printed.Bytes()))
		Expect(model.Journal()[0].Key).To(Equal(web().Status.Request.Key))
	})

	It("costs nothing a second time: no call and no write after a restart, a wave of rescans, and policies that say the same", func(ctx SpecContext) {
		w.apply(ctx, operating(model))
		w.start(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		for i := range 10 {
			w.apply(ctx, builder.StatefulSet(w.namespace, fmt.Sprint("app-", i)))
			w.scan(ctx, fmt.Sprint("app-", i), own(fmt.Sprint(i), "HIGH"))
		}
		Eventually(func() map[string]int { return w.reasons(ctx) }).Should(Equal(map[string]int{candorv1alpha1.ReasonEnriched: 10}))
		cost := w.cost(ctx, func() {
			w.restart(ctx)
			for i := range 10 {
				w.rescan(ctx, fmt.Sprint("app-", i), rescored(own(fmt.Sprint(i), "HIGH")), builder.UpdatedAt(w.clock.Now()))
			}
			touch := merge(`{"metadata":{"annotations":{"touched":"yes"}}}`)
			Expect(cluster.Client.Patch(ctx, builder.Policy(w.namespace, "default", nil), touch)).To(Succeed())
			Expect(cluster.Client.Patch(ctx, operating(model), touch)).To(Succeed())
			w.lookAtAll(ctx)
		})
		Expect(cost).To(BeEmpty())
		Expect(model.Stats().Calls).To(Equal(10))
	})
})

// messageOf is an answer of the Messages API, longer than a model may write.
func messageOf(text string) []byte {
	GinkgoHelper()
	content, err := json.Marshal(map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": modelName, "stop_reason": "end_turn",
		"content": []any{map[string]any{"type": "text", "text": text}}, "usage": map[string]any{"input_tokens": 10, "output_tokens": 10},
	})
	Expect(err).NotTo(HaveOccurred())
	return content
}

var _ = Describe("No model key", func() {
	It("is a supported configuration: no request, no condition, no read of evidence, and as few writes as without models", func(ctx SpecContext) {
		w := newWorld(ctx)
		model := withModel(w)
		w.options.Models.Provider = ""
		w.start(ctx)
		w.deploy(ctx, "web", own("web", "HIGH"))
		Eventually(outcome(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		w.settle(ctx)
		f := w.of(ctx, "web")()
		Expect(why(w.of(ctx, "web"))()).To(BeEmpty())
		Expect(f.Status.Explained).To(Equal(candorv1alpha1.ExplainedOff))
		Expect(f.Status.Request).To(BeNil())
		Expect(f.Status.Enrichment).To(BeNil())
		Expect(w.stored()).To(Equal(kube.Counts{"create findings": 1, "update findings/status": 1}))
		Expect(w.counter.Reads()).NotTo(Or(HaveKey("get findings"), HaveKey("get operatingpolicies"), HaveKey("get ledgers")))
		Expect(w.writes()).NotTo(HaveKey("create ledgers"))
		Expect(w.lookedAtNothing(ctx)).To(BeTrue())
		Expect(model.Stats().Calls).To(BeZero())
	})

	It("becomes one that explains as soon as there is a key, without a restart and without a change of any object, and so does a renewed one", func(ctx SpecContext) {
		w := newWorld(ctx)
		model := withModel(w)
		file := filepath.Join(w.options.Models.KeyFolder, "anthropic-api-key")
		Expect(os.Remove(file)).To(Succeed())
		look := make(chan time.Time)
		w.lookForKeys = look
		w.start(ctx)
		w.deploy(ctx, "web", own("web", "HIGH"))
		Eventually(outcome(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		w.settle(ctx)
		Expect(why(w.of(ctx, "web"))()).To(BeEmpty())
		Expect(explained(w.of(ctx, "web"))()).To(Equal(candorv1alpha1.ExplainedOff))
		Expect(w.counter.Reads()).NotTo(HaveKey("get findings"))
		lookTwice := func() { // the second one is taken when the first look is over
			for range 2 {
				Eventually(look).Should(BeSent(w.clock.Now()))
			}
		}
		lookTwice()
		Expect(model.Stats().Calls).To(BeZero())
		w.writeKey(modelKey)
		Eventually(look).Should(BeSent(w.clock.Now()))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		Expect(model.Stats().Calls).To(Equal(1))

		w.writeKey("another-key-of-the-test")
		w.scan(ctx, "web", own("web", "CRITICAL"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonAuthFailed))
		lookTwice()
		w.writeKey(modelKey)
		Eventually(look).Should(BeSent(w.clock.Now()))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		Expect(model.Stats().Calls).To(Equal(3), "one of them refused")

		Expect(os.Remove(file)).To(Succeed())
		w.scan(ctx, "web", own("other", "HIGH"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonNoModel))
		Expect(model.Stats().Calls).To(Equal(3))
	})
})

// lookedAtNothing wakes every Finding and reports whether the API server heard nothing of it.
func (w *world) lookedAtNothing(ctx context.Context) bool {
	GinkgoHelper()
	heard := func() int {
		n := 0
		for _, r := range w.counter.Requests() {
			if r.Namespace == w.namespace && r.Verb != "watch" {
				n++
			}
		}
		return n
	}
	before := heard()
	w.wakeAll(ctx)
	w.settle(ctx)
	return heard() == before
}
