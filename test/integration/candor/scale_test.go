// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
)

const (
	crowd = 1000
	// hashNamed is of how many workloads one has a name that is too long for a label.
	hashNamed = 5
	// hands is how many requests the tests have under way at once.
	hands = 16
	// revisionLabel tells the reports of one rollout from those of another.
	revisionLabel = "test.candor.dev/revision"
)

// each does something for every workload of the crowd.
func each(do func(i int) error) {
	GinkgoHelper()
	together(crowd, do)
}

// together does something for each number below n, several at once.
func together(n int, do func(i int) error) {
	GinkgoHelper()
	var (
		work  = make(chan int)
		group sync.WaitGroup
		mu    sync.Mutex
		errs  []error
	)
	for range hands {
		group.Go(func() {
			for i := range work {
				if err := do(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	group.Wait()
	Expect(errors.Join(errs...)).NotTo(HaveOccurred())
}

func crowdName(i int) string {
	if i%hashNamed == 0 {
		return fmt.Sprintf("a-workload-whose-name-leaves-no-room-for-a-hash-in-%04d", i)
	}
	return fmt.Sprintf("app-%04d", i)
}

func revisionName(i, revision int) string {
	return fmt.Sprintf("%s-7d9f8c6b%02d", crowdName(i), revision)
}

// crowdReport makes the report of a revision of a workload; each workload has vulnerabilities of its own. Later revisions of
// every second one have another tag.
func (w *world) crowdReport(i, revision int, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	entries := append(builder.Vulnerabilities(4, "HIGH"), builder.Vulnerability(fmt.Sprintf("CVE-2024-%05d", i), "own", "CRITICAL"))
	report := w.revisionReport(revisionName(i, revision), shuffled(entries), change...)
	if revision > 1 && i%2 == 0 {
		builder.Tag("1.28")(report)
	}
	if i%hashNamed == 0 {
		builder.HashNamed(report)
		report.SetName(fmt.Sprintf("replicaset-%04d%02d", i, revision))
	}
	labels := report.GetLabels()
	labels[revisionLabel] = fmt.Sprint(revision)
	report.SetLabels(labels)
	return report
}

// rollOut does what a Deployment controller and Trivy Operator do for a new revision of every workload.
func (w *world) rollOut(ctx context.Context, owners []*appsv1.Deployment, revision int) {
	GinkgoHelper()
	each(func(i int) error {
		rs := builder.ReplicaSet(owners[i], w.namespace, revisionName(i, revision), revision)
		rs.Spec.Selector.MatchLabels["app"], rs.Spec.Template.Labels["app"] = "web", "web"
		return errors.Join(cluster.Client.Create(ctx, rs), cluster.Client.Create(ctx, w.crowdReport(i, revision)))
	})
}

// retire does what Trivy Operator does to the reports of an old revision. It loses the annotation that holds the name.
func (w *world) retire(ctx context.Context, revision int) {
	GinkgoHelper()
	each(func(i int) error {
		return cluster.Client.Patch(ctx, w.crowdReport(i, revision),
			merge(`{"metadata":{"annotations":{"trivy-operator.aquasecurity.github.io/report-ttl":"0s","trivy-operator.resource.name":null}}}`))
	})
	w.deleteReports(ctx, revision)
}

func (w *world) deleteReports(ctx context.Context, revision int) {
	GinkgoHelper()
	Expect(cluster.Client.DeleteAllOf(ctx, w.crowdReport(1, revision), client.InNamespace(w.namespace),
		client.MatchingLabels{revisionLabel: fmt.Sprint(revision)})).To(Succeed())
}

var _ = Describe("At 1,000 reports", Ordered, func() {
	var (
		w      *world
		owners = make([]*appsv1.Deployment, crowd)
		base   kube.Counts
	)

	// everything counts what the manager stored in the namespace, in policies too, events aside.
	everything := func() kube.Counts {
		counts := kube.Counts{}
		for _, r := range w.counter.Requests() {
			if !r.Reads() && r.Namespace == w.namespace {
				counts[r.Key()]++
			}
		}
		return counts.Without("events")
	}
	// since returns what was stored since the last call.
	since := func() kube.Counts {
		now := everything()
		defer func() { base = now }()
		return now.Since(base)
	}
	unmoved := func() {
		GinkgoHelper()
		Expect(w.metric("candor_verification_transitions_total")()).To(BeZero(), "0 transitions")
		Expect(w.metric("candor_findings", "outcome", string(candorv1alpha1.OutcomeStillPresent))()).To(Equal(crowd + 1.0))
	}
	// took says how long a part took and how much was stored for it.
	took := func(start time.Time, counts kube.Counts) {
		AddReportEntry("cost", fmt.Sprintf("%.1fs %v", time.Since(start).Seconds(), counts))
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		each(func(i int) error {
			owners[i] = builder.Deployment(w.namespace, crowdName(i))
			return cluster.Client.Create(ctx, owners[i])
		})
		w.start(ctx)
		w.serving()
	})

	// Time passes, so that a write of nothing but the time shows.
	BeforeEach(func() { w.clock.Step(time.Minute) })

	It("G17, G18: the first sight costs at most 2 writes a report, and every hash-named report becomes a Finding", func(ctx SpecContext) {
		start := time.Now()
		w.rollOut(ctx, owners, 1)
		w.settle(ctx)
		counts := w.stored()
		took(start, counts)
		Expect(counts.Total()).To(BeNumerically("<=", 2*crowd), "%v", counts)
		found, hashed := w.findings(ctx), 0
		Expect(found).To(HaveLen(crowd))
		for _, f := range found {
			if strings.HasPrefix(f.Spec.Source.Name, "a-workload-whose") {
				hashed++
			}
		}
		Expect(hashed).To(Equal(crowd / hashNamed))
		Expect(w.metric("candor_reports_dropped_total")()).To(BeZero())
		Eventually(func() int32 {
			var p candorv1alpha1.SignalPolicy
			Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &p)).To(Succeed())
			return p.Status.Open
		}).Should(BeEquivalentTo(crowd))
		w.settle(ctx)
		since()
	})

	It("G3: a restart stores nothing", func(ctx SpecContext) {
		start := time.Now()
		w.restart(ctx)
		w.settle(ctx)
		counts := since()
		took(start, counts)
		Expect(counts).To(BeEmpty())
		unmoved()
	})

	It("G4: a TTL wave, all reports deleted and made again with a restart in between, stores nothing", func(ctx SpecContext) {
		start := time.Now()
		w.deleteReports(ctx, 1)
		w.settle(ctx)
		unmoved()
		w.restart(ctx)
		w.clock.Step(10 * time.Minute)
		w.settle(ctx)
		each(func(i int) error {
			return cluster.Client.Create(ctx, w.crowdReport(i, 1, builder.UpdatedAt(w.clock.Now())))
		})
		w.settle(ctx)
		counts := since()
		took(start, counts)
		Expect(counts).To(BeEmpty())
		unmoved()
	})

	It("G5: a rollout of every Deployment stores nothing, but for the tag where that is new, and no status", func(ctx SpecContext) {
		start := time.Now()
		w.rollOut(ctx, owners, 2)
		w.settle(ctx)
		w.restart(ctx)
		w.retire(ctx, 1)
		w.settle(ctx)
		counts := since()
		took(start, counts)
		Expect(counts).To(Equal(kube.Counts{"patch findings": crowd / 2}))
		unmoved()
	})

	It("G17: a rescan of which a tenth has changed costs at most 2 writes for each of that tenth, and none for the rest", func(ctx SpecContext) {
		start := time.Now()
		each(func(i int) error {
			report := w.crowdReport(i, 2, builder.UpdatedAt(w.clock.Now()))
			if i%10 == 3 {
				if err := unstructured.SetNestedSlice(report.Object, builder.Vulnerabilities(6, "HIGH"), "report", "vulnerabilities"); err != nil {
					return err
				}
			}
			content, err := json.Marshal(map[string]any{"report": report.Object["report"]})
			return errors.Join(err, cluster.Client.Patch(ctx, report, merge(string(content))))
		})
		w.settle(ctx)
		counts := since()
		took(start, counts)
		counts = counts.Without("signalpolicies")
		Expect(counts).To(HaveKeyWithValue("patch findings", crowd/10))
		Expect(counts.Total()).To(BeNumerically("<=", 2*crowd/10), "%v", counts)
		unmoved()
	})
})
