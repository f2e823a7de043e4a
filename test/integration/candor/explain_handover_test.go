// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/leader"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/suite"
)

// replicated makes a world elect its leader.
func (w *world) replicated() {
	w.options.LeaderElect, w.options.LeaderElectionNamespace = true, system
	w.options.LeaseDuration, w.options.RenewDeadline, w.options.RetryPeriod = 4*time.Second, 3*time.Second, 500*time.Millisecond
}

// holder reads who holds the lease; empty when it is free.
func holder(ctx context.Context) func() string {
	return func() string {
		var lease coordinationv1.Lease
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: leader.Name}, &lease); err != nil {
			return ""
		}
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
}

// callersLeft returns the stacks of goroutines that belong to calls of models.
func callersLeft() (left []string) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "candor.(*Callers)") || strings.Contains(stack, "candor.(*Explainer)") {
			left = append(left, stack)
		}
	}
	return left
}

var _ = Describe("A manager that ends while a model is being asked", func() {
	var (
		w     *world
		model *llmserver.Server
		gate  *llmserver.Gate
	)

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		model, gate = withModel(w), llmserver.NewGate()
		model.Queue(gate.Then(llmserver.Good()))
	})

	It("waits, stores the answer, leaves no goroutine, and the next one pays nothing", func(ctx SpecContext) {
		w.start(ctx)
		findings := w.scanSeveral(ctx, 2)
		w.deploy(ctx, "follower", []any{builder.Vulnerability("CVE-2023-00000", "package", "HIGH")})
		findings = append(findings, w.of(ctx, "follower"))
		arrived(gate, 1)
		w.manager.Cancel()
		Consistently(w.manager.Ended, "1s").ShouldNot(Receive(), "the call runs")
		asked := model.Stats().Calls
		gate.Open()
		Eventually(w.manager.Ended).Should(Receive(Succeed()))
		Eventually(callersLeft).Should(BeEmpty())
		explained := 0
		for _, f := range findings {
			if explains(f()) && !f().Status.Enrichment.Shared {
				explained++
			}
		}
		Expect(explained).To(Equal(asked), "the answers that were paid for are stored before the end")
		w.start(ctx)
		w.clock.Step(orphaned)
		for _, f := range findings {
			Eventually(w.looking(f)).Should(Satisfy(explains))
		}
		expectOneCallEach(model, 2)
	})

	It("keeps the lease until the answer is stored, which the next leader finds", func(ctx SpecContext) {
		w.replicated()
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		web := w.of(ctx, "web")
		arrived(gate, 1)
		first := holder(ctx)()
		second := *w
		second.start(ctx)
		DeferCleanup(second.stop)
		w.manager.Cancel()
		// Longer than the lease lasts: it is renewed.
		Consistently(holder(ctx), "5s").Should(Equal(first))
		gate.Open()
		Eventually(w.manager.Ended).Should(Receive(Succeed()))
		Expect(web()).To(Satisfy(explains))
		second.serving()
		Expect(holder(ctx)()).NotTo(Equal(first))
		second.clock.Step(orphaned)
		second.wakeFinding(ctx, web().Name)
		expectOneCallEach(model, 1)
		expectLedgerCovers(ctx, model)
	})

	It("and loses its lease: the next leader waits for the call to be over, and asks exactly once more", func(ctx SpecContext) {
		w.replicated()
		process, loseLease := w.losesLease()
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		web := w.of(ctx, "web")
		arrived(gate, 1)
		second := *w
		second.meddle = nil
		second.start(ctx)
		DeferCleanup(second.stop)
		loseLease()
		Eventually(w.manager.Ended).Should(Receive(MatchError(ContainSubstring("leader election lost"))))
		process.die() // as a process does that returns from main
		second.serving()
		second.look(web())
		Consistently(func() int { return model.Stats().Calls }, "2s").Should(Equal(1), "the first call may still be answered")
		second.clock.Step(orphaned)
		Eventually(second.looking(web)).WithPolling(200 * time.Millisecond).Should(Satisfy(explains))
		gate.Open()
		second.settle(ctx)
		Expect(model.Stats().Calls).To(Equal(2))
		Expect(model.Stats().ByKey).To(HaveLen(1))
		expectLedgerCovers(ctx, model)
		Eventually(callersLeft).WithTimeout(patience).Should(HaveLen(2), "those of the second manager")
	})
})

var _ = Describe("The line for a model", func() {
	It("goes on without a Finding that is deleted while it waits, or that never uses its turn", func(ctx SpecContext) {
		w := newWorld(ctx)
		model, gate := withModel(w), llmserver.NewGate()
		model.Queue(gate.Then(llmserver.Good()))
		var poison atomic.Pointer[string]
		w.meddle = func(next http.RoundTripper) http.RoundTripper {
			return suite.RoundTrip(func(req *http.Request) (*http.Response, error) {
				if name := poison.Load(); name != nil && strings.Contains(req.URL.Path, *name) && stepOf(req) == marks {
					return failing(req, next)
				}
				return next.RoundTrip(req)
			})
		}
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Model.MaxConcurrent = 1 }))
		w.start(ctx)
		first := w.scanSeveral(ctx, 1)[0]
		arrived(gate, 1)
		w.deploy(ctx, "poisoned", builder.Vulnerabilities(1, "CRITICAL"))
		w.deploy(ctx, "deleted", builder.Vulnerabilities(2, "CRITICAL"))
		w.deploy(ctx, "last", builder.Vulnerabilities(3, "HIGH"))
		for _, name := range []string{"poisoned", "deleted", "last"} {
			Eventually(why(w.of(ctx, name))).Should(Equal(candorv1alpha1.ReasonWaiting))
		}
		poison.Store(ptr.To(w.of(ctx, "poisoned")().Name))
		w.unscan(ctx, "deleted")
		w.remove(ctx, builder.StatefulSet(w.namespace, "deleted"), w.of(ctx, "deleted")())
		gate.Open()
		Eventually(first).Should(Satisfy(explains))
		later := func(name string) func() *candorv1alpha1.Finding {
			return func() *candorv1alpha1.Finding {
				w.clock.Step(2*time.Minute + time.Second) // a turn that is not used is over
				return w.looking(w.of(ctx, name))()
			}
		}
		Eventually(later("last")).WithPolling(time.Second).Should(Satisfy(explains))
		Expect(w.of(ctx, "poisoned")()).NotTo(Satisfy(explains))
		poison.Store(nil)
		Eventually(later("poisoned")).WithPolling(time.Second).WithTimeout(patience).Should(Satisfy(explains))
		Expect(model.Stats().ByKey).To(HaveLen(3))
	})
})
