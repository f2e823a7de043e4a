// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

var _ = Describe("What is secret about sinks", func() {
	It("canary: no address, token or key gets into a log line, an event, a status, a metric or a payload, however it fails", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		w.sinkTimeout = 500 * time.Millisecond
		plain := url.URL{Scheme: "https", User: url.UserPassword("candor", "password-of-the-test-3333"), Host: "10.99.99.99", Path: "/canary-path-4444", RawQuery: "q=canary-query-5555"}
		unknown := "https://canary-host-6666.invalid/x"
		w.secret(ctx, "closed", plain.String())
		w.secret(ctx, "unknown", unknown)
		w.secret(ctx, "broken", "://canary-broken-7777 %zz")
		w.secret(ctx, "nobody", "https://127.0.0.1:1/canary-port-8888")
		w.grant(ctx, "hook", "closed", "unknown", "broken", "nobody")
		var sinks []candorv1alpha1.Sink
		for _, name := range []string{"hook", "closed", "unknown", "broken", "nobody"} {
			sinks = append(sinks, fromSecret(name, candorv1alpha1.SinkWebhook))
		}
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, telling(sinks...)))
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		for i, behaviour := range []sinkserver.Behaviour{
			sinkserver.Status(500), sinkserver.RateLimited("1"), sinkserver.Hang(), sinkserver.Redirect(plain.String()), sinkserver.Drop(), sinkserver.Answer([]byte("canary-answer-9999")),
		} {
			server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return behaviour })
			name := fmt.Sprint("app-", i)
			before := len(server.Requests())
			w.scan(ctx, name, builder.Vulnerabilities(i+1, "HIGH"))
			Eventually(func() int {
				w.clock.Step(time.Minute) // the sink is left alone for a while
				return len(server.Requests())
			}).WithPolling(100 * time.Millisecond).Should(BeNumerically(">", before))
			w.settle(ctx)
		}
		for name, state := range map[string]candorv1alpha1.SinkState{
			"closed": candorv1alpha1.SinkMisconfigured, "broken": candorv1alpha1.SinkMisconfigured,
			"unknown": candorv1alpha1.SinkFailing, "nobody": candorv1alpha1.SinkFailing,
		} {
			Eventually(w.state(ctx, name)).Should(Equal(state), name)
		}
		Eventually(w.eventNotes(ctx, candorv1alpha1.ReasonSinkMisconfigured)).ShouldNot(BeEmpty())

		var events eventsv1.EventList
		Expect(cluster.Client.List(ctx, &events, client.InNamespace(w.namespace))).To(Succeed())
		families, err := w.manager.Registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		var seen bytes.Buffer
		for _, o := range []any{w.findings(ctx), w.storedPolicy(ctx, "default").Status, events.Items, families} {
			Expect(json.NewEncoder(&seen).Encode(o)).To(Succeed())
		}
		for _, r := range server.Requests() {
			seen.Write(r.Body)
		}
		here, err := url.Parse(server.URL(sinkserver.Webhook))
		Expect(err).NotTo(HaveOccurred())
		for _, secret := range []string{
			sinkToken, sinkKey, here.Host, "password-of-the-test", "10.99.99.99", "canary-path", "canary-query", "canary-host", "canary-broken", "canary-port", "canary-answer",
		} {
			Expect(strings.Contains(seen.String(), secret)).To(BeFalse(), "%s is told", secret)
			Expect(strings.Contains(string(log.Contents()), secret)).To(BeFalse(), "%s is logged", secret)
		}
		Expect(seen.String()).To(ContainSubstring("SinkMisconfigured"))
	})

	DescribeTable("size: a Finding stays under 16 KiB with all that there may be: evidence, answers, mutes, and 9 sinks that fail",
		func(ctx SpecContext, letter string) {
			w, server := tellingWorld(ctx)
			model := withModel(w)
			long := func(n int) string { return fmt.Sprint(n, strings.Repeat(letter, 1100)) }
			var hypotheses []any
			for i := range 5 {
				hypotheses = append(hypotheses, map[string]any{"cause": long(i), "confidence": 50, "rationale": long(i), "recommendedAction": "ProposePullRequest"})
			}
			answer, err := json.Marshal(map[string]any{"hypotheses": hypotheses})
			Expect(err).NotTo(HaveOccurred())
			model.Script(func(*llmserver.Call) llmserver.Behaviour {
				return llmserver.Raw(http.StatusOK, "application/json", messageOf(string(answer)))
			})
			policy := "p" + strings.Repeat("-with-a-long-name", 14)
			var sinks []candorv1alpha1.Sink
			for i := range 8 {
				s := fromSecret(fmt.Sprintf("s%d-%s", i, strings.Repeat("x", 60)), candorv1alpha1.SinkWebhook)
				s.URLFrom.Name, s.SigningKeyFrom.Name = "hook", "hook"
				sinks = append(sinks, s)
			}
			w.remove(ctx, builder.Policy(w.namespace, "default", nil))
			w.apply(ctx, builder.Policy(w.namespace, policy, []string{"trivy"}, telling(sinks...), func(p *candorv1alpha1.SignalPolicy) {
				p.Spec.Webhook = &candorv1alpha1.Webhook{URL: server.URL(sinkserver.Legacy)}
			}))
			w.start(ctx)
			w.serving()
			Eventually(func() int {
				w.clock.Step(31 * time.Second)
				w.lookPolicy(policy)
				return len(slices.DeleteFunc(w.storedPolicy(ctx, policy).Status.Sinks, func(s candorv1alpha1.SinkStatus) bool { return s.SummarisedAt.IsZero() }))
			}).Should(Equal(9))
			w.clock.Step(time.Second)
			server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return sinkserver.Status(500) })
			name := strings.Repeat("n", 63)
			w.apply(ctx, builder.StatefulSet(w.namespace, name))
			f := w.of(ctx, name)
			small := func() {
				GinkgoHelper()
				w.settle(ctx)
				GinkgoWriter.Printf("%q: %d bytes, %d entries\n", letter, sizeOf(f()), len(f().Status.Notified))
				Expect(sizeOf(f())).To(BeNumerically("<", 16<<10))
			}
			for i := range 5 {
				var entries []any
				if i%2 == 0 {
					for j := range 30 {
						entry := builder.Vulnerability(fmt.Sprint("CVE-", i, long(j)), long(j), "CRITICAL")
						entry["installedVersion"], entry["fixedVersion"] = long(j), long(j)
						entries = append(entries, entry)
					}
				}
				w.scan(ctx, name, append([]any{}, entries...))
				if i%2 == 0 {
					Eventually(explained(f)).Should(Equal(candorv1alpha1.ExplainedTrue))
				} else {
					Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
				}
				small()
			}
			Expect(f().Status.Hypotheses).To(HaveLen(3))
			w.apply(ctx, builder.Suppression(w.namespace, "mute", f().Status.Fingerprint, because(strings.Repeat("<", 1024))))
			Eventually(explained(f)).Should(Equal(candorv1alpha1.ExplainedMuted))
			small()
		},
		Entry("plain", "x"), Entry("escaped in JSON", "<"), Entry("of several bytes", "\u20ac"),
	)
})
