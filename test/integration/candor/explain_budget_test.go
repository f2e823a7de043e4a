// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

const day = 24 * time.Hour

// spends lets a policy pay for so many calls a day.
func spends(n int32) func(*candorv1alpha1.SignalPolicy) {
	return func(p *candorv1alpha1.SignalPolicy) { p.Spec.Budget = &candorv1alpha1.Budget{MaxCalls: n} }
}

// within makes the window of a policy's budget so long.
func within(window time.Duration) func(*candorv1alpha1.SignalPolicy) {
	return func(p *candorv1alpha1.SignalPolicy) { p.Spec.Budget.WindowSeconds = int32(window / time.Second) }
}

// audit is the brake.
func audit(s *candorv1alpha1.OperatingPolicySpec) { s.Mode = candorv1alpha1.ModeAudit }

// own is the evidence of one workload alone.
func own(name, severity string) []any {
	return []any{builder.Vulnerability("CVE-2024-12345", "package-of-"+name, severity)}
}

// afterwards explains nothing while reports come in, and what there is from then on under an OperatingPolicy: all at once, so that
// its severity alone decides what goes first.
func (w *world) afterwards(ctx context.Context, policy *candorv1alpha1.OperatingPolicy, reports func()) {
	GinkgoHelper()
	braked := policy.DeepCopy()
	audit(&braked.Spec)
	w.apply(ctx, braked)
	reports()
	w.settle(ctx)
	w.apply(ctx, policy)
}

// lookAtAll makes the finding controller look at all Findings of a namespace at once, as it does when waits end together.
func (w *world) lookAtAll(ctx context.Context) {
	GinkgoHelper()
	for _, f := range w.findings(ctx) {
		Eventually(w.wakeFindings).Should(BeSent(event.GenericEvent{Object: f.DeepCopy()}))
	}
	w.drained(ctx)
}

// reasons counts the Findings of a namespace by why they are explained or not.
func (w *world) reasons(ctx context.Context) map[string]int {
	GinkgoHelper()
	counts := map[string]int{}
	for _, f := range w.findings(ctx) {
		counts[why(func() *candorv1alpha1.Finding { return &f })()]++
	}
	return counts
}

// delay holds up the first request after arm that fits, until it is let go.
type delay struct {
	fits          func(*http.Request) bool
	armed         atomic.Bool
	held, release chan struct{}
}

func newDelay(fits func(*http.Request) bool) *delay {
	d := &delay{fits: fits, held: make(chan struct{}), release: make(chan struct{})}
	d.armed.Store(true)
	return d
}

func (d *delay) wrap(next http.RoundTripper) http.RoundTripper {
	return overheard(func(r *http.Request) {
		if d.fits(r) && d.armed.CompareAndSwap(true, false) {
			close(d.held)
			<-d.release
		}
	})(next)
}

// beforeTheCall is what a call reads first, past the cache, once its attempt is marked.
func beforeTheCall(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/operatingpolicies/default")
}

var _ = Describe("A budget", func() {
	var (
		w     *world
		model *llmserver.Server
	)

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		model = withModel(w)
	})

	DescribeTable("(G12) is never passed, with 20 workers, 20 calls at once and 40 Findings,",
		func(ctx SpecContext, budget func(bytes int64) *candorv1alpha1.CostBudget, atOnce int) {
			held := llmserver.NewGate()
			model.Script(func(*llmserver.Call) llmserver.Behaviour { return held.Then(llmserver.Good()) })
			policy := operating(model, func(s *candorv1alpha1.OperatingPolicySpec) {
				s.Model.MaxConcurrent, s.Model.TimeoutSeconds = 20, 120
				s.Model.Prices = &candorv1alpha1.Prices{InputMicros: 1_000_000, OutputMicros: 5_000_000}
			})
			w.options.Controllers["finding"].Workers = 20
			w.start(ctx)
			name := func(i int) string { return fmt.Sprintf("app-%02d", i) }
			w.afterwards(ctx, policy, func() {
				w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, spends(1000)))
				for i := range 40 {
					w.scan(ctx, name(i), own(name(i), "HIGH"))
				}
				w.settle(ctx)
				policy.Spec.Budget = budget(int64(w.of(ctx, name(0))().Status.Request.Bytes))
			})
			for range atOnce {
				Eventually(held.Arrived()).Should(Receive())
			}
			w.drained(ctx)
			Expect(held.Arrived()).NotTo(Receive(), "what is reserved counts as spent")
			held.Open()
			Eventually(func() map[string]int { return w.reasons(ctx) }).Should(And(HaveLen(2),
				HaveKeyWithValue(candorv1alpha1.ReasonBudgetExhausted, Not(BeZero())), Not(HaveKey(candorv1alpha1.ReasonWaiting))))
			w.drained(ctx)
			stats, spent := model.Stats(), ledger(ctx, "cluster")
			Expect(stats.MaxConcurrent).To(Equal(atOnce))
			Expect(w.reasons(ctx)).To(HaveKeyWithValue(candorv1alpha1.ReasonEnriched, stats.Calls))
			Expect(spent.Calls).To(BeEquivalentTo(stats.Calls))
			Expect(spent.Tokens).To(Equal(stats.InputTokens + stats.OutputTokens))
			Expect(spent.CostMicros).To(BeNumerically("~", stats.InputTokens+5*stats.OutputTokens, stats.Calls), "each call is rounded up")
			Expect(ledger(ctx, "ns/"+w.namespace)).To(Equal(spent))
			ceiling := policy.Spec.Budget
			Expect(spent.Calls).To(BeNumerically("<=", ptr.Deref(ceiling.MaxCalls, 1000)))
			Expect(spent.Tokens).To(BeNumerically("<=", ptr.Deref(ceiling.MaxTokens, 1<<40)))
			Expect(spent.CostMicros).To(BeNumerically("<=", ptr.Deref(ceiling.MaxCostMicros, 1<<40)))
		},
		Entry("in calls", func(int64) *candorv1alpha1.CostBudget { return calls(7, day) }, 7),
		Entry("in tokens", func(bytes int64) *candorv1alpha1.CostBudget {
			return &candorv1alpha1.CostBudget{MaxCalls: ptr.To[int32](1000), MaxTokens: ptr.To(5 * (bytes + 1024))}
		}, 5),
		Entry("in cost", func(bytes int64) *candorv1alpha1.CostBudget {
			return &candorv1alpha1.CostBudget{MaxCalls: ptr.To[int32](1000), MaxTokens: ptr.To[int64](1 << 30), MaxCostMicros: ptr.To(4*(bytes+5*1024) + 1)}
		}, 4),
	)

	It("of the cluster is asked first, so that its denial spends nothing of a namespace's", func(ctx SpecContext) {
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Budget = calls(1, day) }))
		w.start(ctx)
		w.deploy(ctx, "web", own("web", "HIGH"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		other := w.neighbour(ctx, 1)
		other.deploy(ctx, "api", own("api", "CRITICAL"))
		Eventually(explained(other.of(ctx, "api"))).Should(Equal(candorv1alpha1.ExplainedBudget))
		w.drained(ctx)
		Expect(ledger(ctx, "ns/"+other.namespace)).To(BeZero())
		Expect(spoken(other.of(ctx, "api")().Status.Conditions, candorv1alpha1.ConditionEnriched)).To(ContainSubstring("The budget of the cluster (1 call and 1,000,000 tokens in 24 hours) is exhausted"))
		Eventually(other.policy(ctx, "default", candorv1alpha1.ConditionBudgetExhausted)).Should(And(HavePrefix("True/LimitReached"),
			ContainSubstring("The cluster may spend 1 call and 1,000,000 tokens in 24 hours"), Not(ContainSubstring("This namespace"))))
		Expect(model.Stats().Calls).To(Equal(1))
	})

	It("stands although nobody set one (nil-operatingpolicy): 50 calls a namespace, 200 the cluster", func(ctx SpecContext) {
		other := w.neighbour(ctx, 1)
		spent := &candorv1alpha1.Ledger{}
		spent.Name = candorv1alpha1.Singleton
		Expect(cluster.Client.Create(ctx, spent)).To(Succeed())
		now := w.clock.Now().Unix()
		bucket := func(calls int64) []candorv1alpha1.LedgerBucket {
			return []candorv1alpha1.LedgerBucket{{Start: now - 3600, End: now, Calls: calls}}
		}
		spent.Status.Scopes = []candorv1alpha1.LedgerScope{{Name: "cluster", Buckets: bucket(198)}, {Name: "ns/" + w.namespace, Buckets: bucket(49)}}
		Expect(cluster.Client.Status().Update(ctx, spent)).To(Succeed())
		w.start(ctx)
		count := func(in *world, names ...string) map[string]int {
			in.apply(ctx, builder.Policy(in.namespace, "default", []string{"trivy"}))
			for _, name := range names {
				in.scan(ctx, name, own(name, "HIGH"))
			}
			w.drained(ctx)
			Eventually(func() map[string]int { return in.reasons(ctx) }).ShouldNot(HaveKey(candorv1alpha1.ReasonWaiting))
			return in.reasons(ctx)
		}
		Expect(count(w, "web", "api", "db")).To(Equal(map[string]int{candorv1alpha1.ReasonEnriched: 1, candorv1alpha1.ReasonBudgetExhausted: 2}))
		Expect(count(other, "a", "b", "c")).To(Equal(map[string]int{candorv1alpha1.ReasonEnriched: 1, candorv1alpha1.ReasonBudgetExhausted: 2}))
		Expect(model.Stats().Calls).To(Equal(2))
		Expect(ledger(ctx, "cluster").Calls).To(BeEquivalentTo(200))
	})

	It("of 1 goes to the worst severity, says so on the policy once, and wakes who waits when the window frees", func(ctx SpecContext) {
		w.gather = 300 * time.Millisecond
		w.start(ctx)
		w.afterwards(ctx, operating(model), func() {
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, spends(1), atLeast(candorv1alpha1.SeverityLow)))
			for _, severity := range []string{"LOW", "HIGH", "CRITICAL", "MEDIUM"} {
				w.scan(ctx, strings.ToLower(severity), own(severity, severity))
			}
		})
		Eventually(why(w.of(ctx, "critical"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		Eventually(func() map[string]int { return w.reasons(ctx) }).Should(Equal(map[string]int{candorv1alpha1.ReasonEnriched: 1, candorv1alpha1.ReasonBudgetExhausted: 3}))
		w.drained(ctx)
		Expect(model.Stats().Calls).To(Equal(1))
		var p candorv1alpha1.SignalPolicy
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionBudgetExhausted)).Should(And(HavePrefix("True/LimitReached"),
			ContainSubstring("This namespace may spend 1 call and 250,000 tokens in 24 hours, and has.")))
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &p)).To(Succeed())
		Expect([]int64{p.Status.Budget.Calls, p.Status.Budget.CallsLeft}).To(Equal([]int64{1, 0}))
		Expect(p.Status.Budget.Tokens).To(Equal(ledger(ctx, "cluster").Tokens))
		Expect(p.Status.Budget.TokensLeft).To(Equal(250_000 - p.Status.Budget.Tokens))
		free := w.clock.Now().Truncate(time.Hour).Add(time.Hour + day)
		Expect(p.Status.Budget.NextFree.Time).To(BeTemporally("==", free), "a bucket counts until a window after its end")
		Eventually(w.eventNotes(ctx, candorv1alpha1.ConditionBudgetExhausted)).Should(HaveLen(1))

		for _, worst := range []string{"high", "medium", "low"} {
			free = w.clock.Now().Truncate(time.Hour).Add(time.Hour + day)
			w.clock.SetTime(free.Add(-time.Second))
			cost := w.cost(ctx, func() { w.lookAtAll(ctx) }) // which lets the second pass
			Expect(cost.Total()).To(BeNumerically("<=", 4), "%v: those who wait on write nothing", cost)
			Eventually(why(w.of(ctx, worst))).Should(Equal(candorv1alpha1.ReasonEnriched), worst)
			Expect(w.reasons(ctx)[candorv1alpha1.ReasonEnriched]).To(Equal(model.Stats().Calls))
		}
		Expect(model.Stats().Calls).To(Equal(4))
		Expect(w.eventNotes(ctx, candorv1alpha1.ConditionBudgetExhausted)()).To(HaveLen(1))
	})

	It("wakes by itself those whom it held back, when the window frees", func(ctx SpecContext) {
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Budget = calls(1, time.Minute) }))
		// Waits run on the real clock: two seconds before the window frees, the manager waits two seconds.
		w.start(ctx)
		w.deploy(ctx, "web", own("web", "HIGH"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		free := w.clock.Now().Add(time.Minute + 3*time.Second)
		w.clock.SetTime(free.Add(-2 * time.Second))
		w.scan(ctx, "api", own("api", "HIGH"))
		Eventually(why(w.of(ctx, "api"))).Should(Equal(candorv1alpha1.ReasonBudgetExhausted))
		w.clock.SetTime(free)
		Eventually(why(w.of(ctx, "api"))).Should(Equal(candorv1alpha1.ReasonEnriched))
	})

	It("policy-deleted (W18): a deleted SignalPolicy spends nothing", func(ctx SpecContext) {
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Budget = calls(0, day) }))
		w.start(ctx)
		w.deploy(ctx, "web", own("web", "HIGH"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonBudgetExhausted))
		w.remove(ctx, builder.Policy(w.namespace, "default", nil))
		Eventually(outcome(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.OutcomeOutOfPolicy))
		w.apply(ctx, operating(model))
		w.lookAtAll(ctx)
		Expect(why(w.of(ctx, "web"))()).To(Equal(candorv1alpha1.ReasonPolicyMissing))
		Expect(explained(w.of(ctx, "web"))()).To(Equal(candorv1alpha1.ExplainedOff))
		Expect(model.Stats().Calls).To(BeZero())
		Expect(ledger(ctx, "cluster")).To(BeZero())
	})

	DescribeTable("spends nothing when, between the decision and the call,",
		func(ctx SpecContext, happens func(context.Context, *world)) {
			before := newDelay(beforeTheCall)
			w.meddle = before.wrap
			w.apply(ctx, operating(model))
			w.start(ctx)
			w.deploy(ctx, "web", own("web", "HIGH"))
			<-before.held
			happens(ctx, w)
			close(before.release)
			w.drained(ctx)
			Eventually(func() bool {
				e := w.of(ctx, "web")().Status.Enrichment
				return e != nil && e.Attempt != nil && !e.Attempt.Running && e.Attempt.Count == 0
			}).Should(BeTrue(), "it was no attempt")
			w.lookAtAll(ctx)
			Expect(model.Stats().Calls).To(BeZero())
			Expect(ledger(ctx, "cluster")).To(BeZero())
		},
		Entry("the mode becomes Audit", func(ctx context.Context, _ *world) {
			p := &candorv1alpha1.OperatingPolicy{}
			p.Name = candorv1alpha1.Singleton
			Expect(cluster.Client.Patch(ctx, p, merge(`{"spec":{"mode":"Audit"}}`))).To(Succeed())
		}),
		Entry("the budget becomes nothing", func(ctx context.Context, _ *world) {
			p := &candorv1alpha1.OperatingPolicy{}
			p.Name = candorv1alpha1.Singleton
			Expect(cluster.Client.Patch(ctx, p, merge(`{"spec":{"budget":{"maxCalls":0}}}`))).To(Succeed())
		}),
		Entry("the SignalPolicy is deleted", func(ctx context.Context, w *world) {
			w.remove(ctx, builder.Policy(w.namespace, "default", nil))
		}),
		Entry("the SignalPolicy says not to explain", func(ctx context.Context, w *world) {
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, unexplained))
		}),
		Entry("the report says that it is fixed", func(ctx context.Context, w *world) {
			w.scan(ctx, "web", []any{})
			Eventually(func() candorv1alpha1.Observation { return w.of(ctx, "web")().Spec.Observed }).Should(Equal(candorv1alpha1.ObservedCleared))
		}),
	)

	It("without an OperatingPolicy any more goes on by the default ceilings", func(ctx SpecContext) {
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Budget = calls(1, day) }))
		w.start(ctx)
		w.deploy(ctx, "web", own("web", "HIGH"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		w.scan(ctx, "api", own("api", "HIGH"))
		Eventually(why(w.of(ctx, "api"))).Should(Equal(candorv1alpha1.ReasonBudgetExhausted))
		w.remove(ctx, operating(model))
		Eventually(why(w.of(ctx, "api"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		Expect(ledger(ctx, "cluster").Calls).To(BeEquivalentTo(2))
	})

	It("is refunded by no tenant who deletes its policy and makes it again, and takes nothing from another's", func(ctx SpecContext) {
		w.apply(ctx, operating(model))
		w.start(ctx)
		honest := w.neighbour(ctx, 1)
		for _, tenant := range []*world{w, honest} {
			tenant.apply(ctx, builder.Policy(tenant.namespace, "default", []string{"trivy"}, spends(2)))
		}
		for i := range 4 {
			name := fmt.Sprint("app-", i)
			w.scan(ctx, name, own(name, "HIGH"))
		}
		spentUp := map[string]int{candorv1alpha1.ReasonEnriched: 2, candorv1alpha1.ReasonBudgetExhausted: 2}
		Eventually(func() map[string]int { return w.reasons(ctx) }).Should(Equal(spentUp))
		unrefunded := func(trick string) {
			GinkgoHelper()
			w.lookAtAll(ctx)
			Eventually(func() map[string]int { return w.reasons(ctx) }).Should(Equal(spentUp), trick)
			Expect(model.Stats().Calls).To(Equal(2), trick)
		}
		for _, name := range []string{"default", "another"} {
			w.remove(ctx, builder.Policy(w.namespace, "default", nil))
			w.drained(ctx)
			w.apply(ctx, builder.Policy(w.namespace, name, []string{"trivy"}, spends(2)))
			unrefunded("made again as " + name)
		}
		w.apply(ctx, builder.Policy(w.namespace, "another", []string{"trivy"}, spends(2), within(time.Minute)))
		unrefunded("with a short window")
		w.apply(ctx, builder.Policy(w.namespace, "another", []string{"trivy"}, spends(2)))
		unrefunded("with the long one again")
		w.apply(ctx, builder.Policy(w.namespace, "checks", []string{"trivy/config"}, spends(2)),
			builder.CheckReport("ConfigAuditReport", w.namespace, "StatefulSet", "app-0", []any{builder.Check("KSV-0012", "HIGH", false, "root")}))
		spentUp[candorv1alpha1.ReasonBudgetExhausted]++
		unrefunded("with a policy for another provider")

		// A while later, under a short window, there is room. What is spent then counts for the long one as well.
		w.remove(ctx, builder.Policy(w.namespace, "checks", nil))
		w.clock.Step(2 * time.Hour)
		w.apply(ctx, builder.Policy(w.namespace, "another", []string{"trivy"}, spends(1), within(time.Minute)))
		Eventually(func() int { return model.Stats().Calls }).Should(Equal(3))
		w.drained(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "another", []string{"trivy"}, spends(3)))
		w.lookAtAll(ctx)
		Expect(model.Stats().Calls).To(Equal(3))
		Expect(ledger(ctx, "ns/"+w.namespace).Calls).To(BeEquivalentTo(3))

		honest.scan(ctx, "web", own("web", "HIGH"))
		Eventually(why(honest.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		Expect(ledger(ctx, "ns/"+honest.namespace).Calls).To(BeEquivalentTo(1))
	})
})
