// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("Signals of other tools", func() {
	It("become Findings that end, come back, and change as the signals say", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.takes(ctx)
		f := w.posted(ctx, disk())
		Expect(w.signal(disk().with("status", "resolved"))).To(Equal("202 unchanged"))
		Expect(w.signal(disk())).To(Equal("202 created"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		found := f()
		Expect(found.Spec.Source).To(Equal(candorv1alpha1.Source{Provider: "webhook", Kind: "Database", Name: "orders", RefKind: "WebhookEvent/default", RefName: "disk"}))
		Expect(found.Spec.Severity).To(Equal(candorv1alpha1.SeverityHigh))
		Expect(found.Spec.Summary).To(Equal("The disk is full."))
		Expect(found.Annotations).To(HaveKeyWithValue("candor.dev/signalled-at", w.clock.Now().UTC().Format(time.RFC3339)))
		Eventually(w.verified(ctx, found.Name)).Should(Equal("StillPresent, True/StillPresent: The last signal says so."))
		Expect(f().Status.Fingerprint).To(Equal(signals.Fingerprint(signals.Of(found))))

		Expect(w.signal(disk())).To(Equal("202 unchanged"))
		Expect(w.signal(disk().with("severity", "CRITICAL"))).To(Equal("202 updated"))
		Eventually(func() int32 { return f().Status.SeverityRank }).Should(BeEquivalentTo(4))
		Expect(w.signal(disk().with("status", "resolved"))).To(Equal("202 resolved"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
		Expect(w.signal(disk().with("status", "resolved"))).To(Equal("202 unchanged"))
		Expect(w.signal(disk())).To(Equal("202 updated"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeRecurred))
		Expect(f().Status.TimesRecurred).To(BeEquivalentTo(1))
		Expect(w.signalAt(w.clock.Now().Add(-10*time.Second), disk().with("status", "resolved"))).To(Equal("202 late"))
		w.settle(ctx)
		Expect(outcome(f)()).To(Equal(candorv1alpha1.OutcomeRecurred))
		Expect(w.signal(disk().with("id", "memory"))).To(Equal("202 created"))
		Expect(w.findings(ctx)).To(HaveLen(2))
		Expect(w.signal(disk().with("severity", "TERRIBLE"))).To(HavePrefix("400 "))

		By("being deleted by a person")
		w.remove(ctx, f())
		Eventually(f).Should(BeNil())
		w.settle(ctx) // so that the cache knows
		Expect(w.signal(disk())).To(Equal("202 created"))
	})

	It("are taken with the body and the signature of the existing Candor, and with a token", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.takes(ctx)
		body := bodyOf(disk().with("unknown", "field"))
		Expect(w.post(w.namespace, "default", body, func(r *http.Request) { r.Header.Set("X-Candor-Signature", "sha256="+mac(doorKey, string(body))) }).String()).To(Equal("202 created"))
		Expect(w.post(w.namespace, "default", bodyOf(disk().with("id", "memory")), presenting(doorToken)).String()).To(Equal("202 created"))
		Eventually(func() []candorv1alpha1.Finding { return w.findings(ctx) }).Should(HaveEach(HaveField("Status.VerificationOutcome", candorv1alpha1.OutcomeStillPresent)))
	})

	It("are taken as the commands of docs/receive.md send them", func(ctx SpecContext) {
		for _, tool := range []string{"curl", "openssl"} {
			if _, err := exec.LookPath(tool); err != nil {
				Skip(tool + " is not installed")
			}
		}
		page, err := os.ReadFile("../../../docs/receive.md")
		Expect(err).NotTo(HaveOccurred())
		_, commands, found := strings.Cut(string(page), "\nBODY=")
		Expect(found).To(BeTrue())
		commands, _, _ = strings.Cut("BODY="+commands, "```")
		w := receiverWorld(ctx)
		w.clock.SetTime(time.Now())
		w.takes(ctx)
		here := strings.NewReplacer("--cacert ca.crt", "-sk", "--connect-to ::localhost:", fmt.Sprintf("--connect-to ::localhost:%d", w.options.Receiver.Port), "/team-a/", "/"+w.namespace+"/")
		shell := exec.CommandContext(ctx, "sh", "-ec", here.Replace(commands))
		shell.Env = append(os.Environ(), "KEY="+doorKey)
		said, err := shell.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(said))
		Expect(string(said)).To(Equal(`{"result":"created"}` + "\n"))
	})

	It("cost one write for a thousand that say the same", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.takes(ctx)
		results := map[string]int{}
		for i := range 1000 {
			w.clock.Step(100 * time.Millisecond)
			results[w.signalAt(w.clock.Now(), disk().with("n", i))]++
		}
		Expect(results).To(Equal(map[string]int{"202 created": 1, "202 unchanged": 999}))
		w.settle(ctx)
		Expect(w.stored()).To(Equal(kube.Counts{"create findings": 1, "update findings/status": 1}))
	})

	It("are taken by every replica, and the one that was signed last stands, whoever writes first", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.replicated()
		w.takes(ctx)
		second := w.alsoTakes(ctx)
		const n = 40
		severities := []string{"HIGH", "CRITICAL"}
		var sending sync.WaitGroup
		for i := range n {
			replica := []*world{w, second}[i%2]
			sending.Go(func() {
				defer GinkgoRecover()
				s := disk().with("summary", fmt.Sprint("The disk is full, for the time ", i)).with("severity", severities[i/2%2])
				Expect(replica.signalAt(w.clock.Now().Add(time.Duration(i)*time.Second), s)).To(Or(Equal("202 created"), Equal("202 updated"), Equal("202 late")))
			})
		}
		sending.Wait()
		f := w.posted(ctx, disk())
		Expect(f().Spec.Summary).To(Equal(fmt.Sprint("The disk is full, for the time ", n-1)))
		Expect(w.findings(ctx)).To(HaveLen(1))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
	})

	It("stop when there are as many Findings as there may be, and go on when one ends", func(ctx SpecContext) {
		w := receiverWorld(ctx, func(p *candorv1alpha1.SignalPolicy) { p.Spec.WebhookReceiver.MaxFindings = 2 })
		w.takes(ctx)
		for _, id := range []string{"one", "two"} {
			Expect(w.signal(disk().with("id", id))).To(Equal("202 created"))
		}
		Expect(w.signal(disk().with("id", "three"))).To(Equal("429 full"))
		Expect(w.signal(disk().with("id", "two").with("severity", "CRITICAL"))).To(Equal("202 updated"))
		full := w.policy(ctx, "default", candorv1alpha1.ConditionReceiverFull)
		Eventually(full).WithTimeout(patience).Should(Equal("True/MaxFindings: There are 2 Findings of signals that have not ended, and spec.webhookReceiver.maxFindings allows 2: " +
			"signals of anything else are refused until one ends, or until more are allowed."))
		Eventually(cluster.EventNotes).WithContext(ctx).WithArguments(w.namespace, "ReceiverFull").Should(HaveLen(1))
		Expect(w.signal(disk().with("id", "one").with("status", "resolved"))).To(Equal("202 resolved"))
		Expect(w.signal(disk().with("id", "three"))).To(Equal("202 created"))
		Expect(w.signal(disk().with("id", "one"))).To(Equal("429 full"))
		Expect(w.signal(disk().with("id", "three").with("status", "resolved"))).To(Equal("202 resolved"))
		Eventually(full).WithTimeout(patience).Should(BeEmpty())
	})

	It("that are milder than the policy asks for make no Finding, and end the one there is", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.takes(ctx)
		f := w.posted(ctx, disk())
		Expect(w.signal(disk().with("severity", "MEDIUM"))).To(Equal("202 filtered"))
		Expect(w.signal(disk())).To(Equal("202 created"))
		Expect(w.signal(disk().with("severity", "MEDIUM"))).To(Equal("202 resolved"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
		Expect(w.signal(disk())).To(Equal("202 updated"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeRecurred))
		asking := func(severity candorv1alpha1.Severity) {
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{"webhook"}, receiving, atLeast(severity)))
		}
		asking(candorv1alpha1.SeverityCritical)
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeOutOfPolicy))
		Expect(w.signal(disk())).To(Equal("202 filtered"))
		asking(candorv1alpha1.SeverityHigh)
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeRecurred))
		Expect(f().Status.TimesRecurred).To(BeEquivalentTo(1))
	})

	It("follow their policy: out of it while it takes none, and back as they were", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.takes(ctx)
		ended := disk().with("id", "over")
		Expect(w.signal(ended)).To(Equal("202 created"))
		Expect(w.signal(ended.with("status", "resolved"))).To(Equal("202 resolved"))
		Expect(w.signal(disk())).To(Equal("202 created"))
		f, over := w.posted(ctx, disk()), w.posted(ctx, ended)
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(outcome(over)).Should(Equal(candorv1alpha1.OutcomeResolved))
		for name, change := range map[string]func(){
			"is gone": func() { w.remove(ctx, builder.Policy(w.namespace, "default", nil)) },
			"does not name the provider": func() {
				w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, receiving))
			},
			"has no receiver": func() { w.apply(ctx, builder.Policy(w.namespace, "default", []string{"webhook"})) },
		} {
			change()
			Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeOutOfPolicy), name)
			Expect(w.verified(ctx, f().Name)()).To(Equal("OutOfPolicy, False/OutOfPolicy: SignalPolicy default does not ask for it any more: it is gone, takes no signals, or asks for worse ones."))
			Expect(outcome(over)()).To(Equal(candorv1alpha1.OutcomeResolved))
			Eventually(func() string { return w.signal(disk()) }).Should(HavePrefix("401 "), name)
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{"webhook"}, receiving))
			Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent), name)
		}
		Expect(f().Status.TimesRecurred).To(BeZero())
	})

	It("go stale when nobody repeats them, also over a restart", func(ctx SpecContext) {
		w := receiverWorld(ctx, func(p *candorv1alpha1.SignalPolicy) {
			p.Spec.WebhookReceiver.StaleAfter = &metav1.Duration{Duration: 8 * time.Hour}
		})
		w.takes(ctx)
		deployed := said{"severity": "HIGH", "kind": "Deployment", "name": "web", "id": "slow"}
		w.apply(ctx, builder.Deployment(w.namespace, "web"))
		Expect(w.signal(disk())).To(Equal("202 created"))
		Expect(w.signal(deployed)).To(Equal("202 created"))
		f, d := w.posted(ctx, disk()), w.posted(ctx, deployed)
		look := func() { w.wake(ctx, w.signalled(disk()), w.signalled(deployed)) }
		w.clock.Step(7 * time.Hour)
		look()
		Expect(outcome(f)()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(w.signal(disk())).To(Equal("202 unchanged"), "which is written down, since an eighth of the time has passed")
		w.clock.Step(2 * time.Hour)
		look()
		Expect(outcome(f)()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(outcome(d)).Should(Equal(candorv1alpha1.OutcomeStale))
		w.remove(ctx, builder.Deployment(w.namespace, "web"))
		look()
		Eventually(outcome(d)).Should(Equal(candorv1alpha1.OutcomeWorkloadGone))

		w.clock.Step(8 * time.Hour)
		w.stop()
		w.takes(ctx)
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStale))
		Expect(w.verified(ctx, f().Name)()).To(HavePrefix("Stale, False/Stale: No signal has repeated it for longer than spec.webhookReceiver.staleAfter"))
		Expect(w.signal(disk())).To(Equal("202 updated"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(f().Status.TimesRecurred).To(BeZero())
	})

	It("are muted like any other, from the first write on", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.apply(ctx, builder.Suppression(w.namespace, "disks", "", func(s *candorv1alpha1.Suppression) { s.Spec.VulnerabilityIDs = []string{"disk"} }))
		w.takes(ctx)
		f := w.posted(ctx, disk())
		Expect(w.signal(disk())).To(Equal("202 created"))
		Expect(f().Spec.Evidence.MutedBy).To(Equal([]string{"disks"}))
		explained := func() candorv1alpha1.Explained { return f().Status.Explained }
		Eventually(explained).Should(Equal(candorv1alpha1.ExplainedMuted))
		Expect(w.signal(disk().with("severity", "CRITICAL"))).To(Equal("202 updated"))
		Expect(f().Spec.Evidence.Muted).To(BeEquivalentTo(1))
		w.remove(ctx, builder.Suppression(w.namespace, "disks", ""))
		Eventually(explained).Should(Equal(candorv1alpha1.ExplainedOff))
		Expect(f().Spec.Evidence.MutedBy).To(BeEmpty())
		w.apply(ctx, builder.Suppression(w.namespace, "again", "", func(s *candorv1alpha1.Suppression) { s.Spec.VulnerabilityIDs = []string{"disk"} }))
		Eventually(explained).Should(Equal(candorv1alpha1.ExplainedMuted))
		Eventually(w.suppression(ctx, "again")).Should(HavePrefix("True/Active: Mutes 1 entry in 1 Finding"))
	})

	It("are told to people like any other", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		server := withSinks(w)
		sink := w.sinkOf(ctx, server, "hook", candorv1alpha1.SinkWebhook)
		w.grant(ctx, door, "hook")
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"webhook"}, receiving, telling(sink)))
		w.takes(ctx)
		w.synced(ctx)
		for _, s := range []said{disk(), disk().with("severity", "CRITICAL"), disk().with("status", "resolved"), disk()} {
			Expect(w.signal(s)).To(HavePrefix("202 "))
			w.settle(ctx)
		}
		Eventually(kindsAt(server)).Should(Equal([]string{"FindingCreated", "FindingEscalated", "FindingResolved", "FindingRecurred"}))
		expectGood(server)
	})

	It("falco: of a pod speak of its workload, of a node of the node, and of another namespace of nothing", func(ctx SpecContext) {
		w := receiverWorld(ctx, atLeast(candorv1alpha1.SeverityMedium))
		web := builder.Deployment(w.namespace, "web")
		w.apply(ctx, web)
		set := builder.ReplicaSet(web, w.namespace, "web-7d9f", 1)
		w.apply(ctx, set)
		w.apply(ctx, builder.Pod(w.namespace, "web-7d9f-abcde", set, "ReplicaSet"), builder.Pod(w.namespace, "lone", nil, ""))
		w.takes(ctx)
		event := func(namespace, pod string) said {
			return said{
				"uuid": fmt.Sprint(time.Now().UnixNano()), "output": "12:00 shell (command=sh -c secret)", "priority": "Warning", "rule": "Terminal shell in container",
				"time": "2026-11-30T12:00:00Z", "source": "syscall", "tags": []string{"shell", "container"}, "hostname": "worker-1",
				"output_fields": said{"k8s.ns.name": namespace, "k8s.pod.name": pod, "container.name": "nginx"},
			}
		}
		post := func(s said) string {
			return w.post(w.namespace, "default", bodyOf(s), presenting(doorToken)).String()
		}
		of := func(kind, name, container string) func() *candorv1alpha1.Finding {
			return w.read(ctx, signals.PostedTo(w.namespace, "default", "Terminal shell in container", kind, name, container))
		}
		Expect(post(event(w.namespace, "web-7d9f-abcde"))).To(Equal("202 created"))
		Expect(of("Deployment", "web", "nginx")().Spec.Summary).To(Equal("Terminal shell in container (container, shell)"))
		Expect(post(event(w.namespace, "web-7d9f-abcde"))).To(Equal("202 unchanged"))
		Expect(post(event(w.namespace, "lone"))).To(Equal("202 created"))
		Expect(of("Pod", "lone", "nginx")()).NotTo(BeNil())
		Expect(post(event(w.namespace, "gone"))).To(Equal("202 created"))
		Expect(of("Pod", "gone", "nginx")()).NotTo(BeNil())
		Expect(post(event("kube-system", "etcd"))).To(Equal("202 filtered"))
		node := event("", "")
		node["output_fields"] = said{"proc.cmdline": "sh -c secret"}
		Expect(post(node)).To(Equal("202 created"))
		Expect(of("Node", "worker-1", "")()).NotTo(BeNil())
		Expect(w.findings(ctx)).To(HaveLen(4))
		for _, f := range w.findings(ctx) {
			Expect(fmt.Sprint(f)).NotTo(ContainSubstring("secret"))
		}
		w.remove(ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web-7d9f"}})
		w.remove(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web-7d9f-abcde"}})
		Expect(post(event(w.namespace, "web-7d9f-abcde"))).To(Equal("202 unchanged"), "the workload of a pod is remembered")
	})
})
