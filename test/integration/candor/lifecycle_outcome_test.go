// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

// sight is what the cluster looks like to Candor.
type sight string

const (
	present   sight = "Present"
	cleared   sight = "Cleared"
	missing   sight = "Missing, after the grace"
	ownerGone sight = "OwnerGone"
	excluded  sight = "Excluded"
	// asked undoes excluded and nothing else.
	asked sight = "asked for again"
)

const (
	still    = candorv1alpha1.OutcomeStillPresent
	recurred = candorv1alpha1.OutcomeRecurred
	resolved = candorv1alpha1.OutcomeResolved
	noOwner  = candorv1alpha1.OutcomeWorkloadGone
	stale    = candorv1alpha1.OutcomeStale
	outside  = candorv1alpha1.OutcomeOutOfPolicy
)

// show makes the cluster look so for a StatefulSet, and waits until the manager has seen it.
func (w *world) show(ctx context.Context, name string, what sight) {
	GinkgoHelper()
	policy := builder.Policy(w.namespace, "default", []string{"trivy"})
	switch what {
	case present:
		w.apply(ctx, builder.StatefulSet(w.namespace, name))
		w.scan(ctx, name, builder.Vulnerabilities(3, "HIGH"))
	case cleared:
		w.scan(ctx, name, []any{})
	case missing:
		w.apply(ctx, builder.StatefulSet(w.namespace, name))
		w.unscan(ctx, name)
		w.settle(ctx)
		w.clock.Step(w.options.EvidenceGrace + time.Second)
	case ownerGone:
		w.remove(ctx, builder.StatefulSet(w.namespace, name))
		w.unscan(ctx, name)
	case excluded:
		w.remove(ctx, policy)
	case asked:
		w.apply(ctx, policy)
	}
	if what == missing || what == ownerGone {
		w.wake(ctx, w.workload(name))
	} else {
		w.settle(ctx)
	}
}

type stage struct {
	what sight
	want candorv1alpha1.Outcome
	// times is how often the Finding has come back by then.
	times int32
}

var _ = Describe("Still true?", Ordered, func() {
	var w *world

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
	})

	DescribeTable("every row of the table of outcomes, with a restart in the middle",
		func(ctx SpecContext, name string, stages ...stage) {
			for i, s := range stages {
				if i == len(stages)/2 {
					w.restart(ctx)
				}
				w.show(ctx, name, s.what)
				f := w.of(ctx, name)()
				Expect(f).NotTo(BeNil())
				Expect(f.Status.VerificationOutcome).To(Equal(s.want), "stage %d: %s", i, s.what)
				Expect(f.Status.TimesRecurred).To(Equal(s.times), "stage %d: %s", i, s.what)
			}
		},
		Entry("Present: new, StillPresent and Stale become StillPresent", "row-present",
			stage{present, still, 0}, stage{present, still, 0}, stage{missing, stale, 0}, stage{missing, stale, 0}, stage{present, still, 0}),
		Entry("Present: Resolved becomes Recurred, which stays until the next end and counts", "row-recurred",
			stage{present, still, 0}, stage{cleared, resolved, 0}, stage{present, recurred, 1}, stage{present, recurred, 1},
			stage{cleared, resolved, 1}, stage{present, recurred, 2}),
		Entry("Present: WorkloadGone becomes Recurred", "row-returned",
			stage{present, still, 0}, stage{ownerGone, noOwner, 0}, stage{present, recurred, 1}),
		Entry("Cleared: StillPresent, Recurred and Stale become Resolved", "row-cleared",
			stage{present, still, 0}, stage{cleared, resolved, 0}, stage{present, recurred, 1}, stage{cleared, resolved, 1},
			stage{present, recurred, 2}, stage{missing, stale, 2}, stage{cleared, resolved, 2}),
		Entry("Cleared and WorkloadGone: a proven end needs no evidence any more", "row-ended",
			stage{present, still, 0}, stage{cleared, resolved, 0}, stage{missing, resolved, 0}, stage{ownerGone, resolved, 0}),
		Entry("OwnerGone: StillPresent, Recurred and Stale become WorkloadGone", "row-gone",
			stage{present, still, 0}, stage{ownerGone, noOwner, 0}, stage{present, recurred, 1}, stage{ownerGone, noOwner, 1},
			stage{cleared, noOwner, 1}, stage{present, recurred, 2}, stage{missing, stale, 2}, stage{ownerGone, noOwner, 2}),
		Entry("Missing: Recurred becomes Stale, and from there StillPresent", "row-missing",
			stage{present, still, 0}, stage{cleared, resolved, 0}, stage{present, recurred, 1}, stage{missing, stale, 1}, stage{present, still, 1}),
	)

	DescribeTable("Excluded: any outcome becomes OutOfPolicy, returns when it is asked for again, and counts nothing as recurred",
		func(ctx SpecContext, name string, times int32, former candorv1alpha1.Outcome, before ...sight) {
			for _, what := range before {
				w.show(ctx, name, what)
			}
			expect := func(want candorv1alpha1.Outcome) {
				GinkgoHelper()
				f := w.of(ctx, name)()
				Expect(f.Status.VerificationOutcome).To(Equal(want))
				Expect(f.Status.TimesRecurred).To(Equal(times))
			}
			expect(former)
			w.show(ctx, name, excluded)
			expect(outside)
			w.restart(ctx)
			w.show(ctx, name, excluded)
			expect(outside)
			w.show(ctx, name, asked)
			if former == stale {
				w.clock.Step(w.options.EvidenceGrace + time.Second)
				w.wake(ctx, w.workload(name))
			}
			expect(former)
		},
		Entry("StillPresent", "was-still", int32(0), still, present),
		Entry("Recurred", "was-recurred", int32(1), recurred, present, cleared, present),
		Entry("Resolved", "was-resolved", int32(0), resolved, present, cleared),
		Entry("WorkloadGone", "was-gone", int32(0), noOwner, present, ownerGone),
		Entry("Stale", "was-stale", int32(0), stale, present, missing),
	)
})
