// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"net/http"
	"slices"

	"connectrpc.com/connect"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

var _ = Describe("What a PipelineDiscovery never takes for gone (AT-13)", func() {
	// The policy is the harshest that there is, and the objects manage their pipelines.
	discovered := func(ctx SpecContext, n int) (*pipelineDiscovery, []string) {
		d := newPipelineDiscovery(ctx)
		names := d.puts(n)
		d.discover(ctx, adopt, prune)
		d.start(ctx)
		for _, name := range names {
			Eventually(d.world.ready(ctx, name)).Should(Equal("True/Synced"))
		}
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		return d, names
	}
	untouched := func(ctx SpecContext, d *pipelineDiscovery, names []string) {
		GinkgoHelper()
		Expect(d.names(ctx)()).To(Equal(names))
		Expect(d.fleet.Count("DeletePipeline")).To(BeZero())
		Expect(d.writes()).NotTo(HaveKey("delete pipelines"))
	}

	It("is a pipeline that an edited selector no longer means", func(ctx SpecContext) {
		d, names := discovered(ctx, 4)
		d.edit(ctx, `{"selector": {"configType": "OpenTelemetryCollector"}}`)
		Eventually(func() int32 { return d.read(ctx).outOfScope }).Should(BeEquivalentTo(4))
		Expect(d.ready(ctx)()).To(Equal("True/Synced"))
		untouched(ctx, d, names)
	})

	It("is a pipeline that somebody disabled", func(ctx SpecContext) {
		d, names := discovered(ctx, 4)
		d.edit(ctx, `{"selector": {"enabled": true}}`)
		Eventually(func() int32 { return d.read(ctx).observed }).Should(BeEquivalentTo(4))
		for _, name := range names {
			d.ignoresDrift(ctx, name)
			d.fleet.EditPipeline(name, disabled)
		}
		d.later()
		Eventually(func() int32 { return d.read(ctx).outOfScope }).Should(BeEquivalentTo(4))
		untouched(ctx, d, names)
	})

	It("is everything, where nothing is listed", func(ctx SpecContext) {
		d, names := discovered(ctx, 3)
		all := d.fleet.Pipelines()
		for _, p := range all {
			d.fleet.DeletePipeline(p.GetId())
		}
		d.stop() // the objects would create them anew
		d.enableOnly("pipeline", "pipeline-discovery")
		for _, name := range names {
			d.change(ctx, name, `{"spec": {"driftPolicy": "Ignore"}}`)
		}
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("False/RemovalSuspended"))
		untouched(ctx, d, names)
		d.quiet(func() { d.look() })
	})

	It("is half of them at once, until a person agrees", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		names := d.puts(20)
		d.discover(ctx, prune)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		for _, name := range names[10:] {
			d.fleet.DeletePipeline(name)
		}
		d.later()
		Eventually(d.ready(ctx)).Should(Equal("False/RemovalSuspended"))
		untouched(ctx, d, names)
		Expect(d.says(ctx, fleetmanagementv1alpha1.ConditionRemovalSuspended)()).To(Equal("True/RemovalSuspended"))
		Expect(d.message(ctx)).To(ContainSubstring("no longer lists 10 of the pipelines of this discovery's 20 Pipelines"))
		Expect(d.fleet.Count("GetPipeline")).To(BeZero())
		Eventually(d.standing(ctx)).Should(Equal(map[string]int{"True/ReadOnly": 10, "False/ReadOnly": 10}))
		d.quiet(func() { d.look() })
		Expect(d.events(ctx)).To(ContainElement("Warning RemovalSuspended"))

		d.approve(ctx)
		Eventually(d.names(ctx)).Should(Equal(names[:10]))
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.says(ctx, fleetmanagementv1alpha1.ConditionRemovalSuspended)()).To(BeEmpty())
		Expect(d.fleet.Count("GetPipeline")).To(Equal(10), "each is looked up")
		Expect(d.fleet.Count(pipelineWrites...)).To(BeZero())
		Expect(cluster.EventNotes(ctx, d.namespace, "PipelinePruned")).To(HaveLen(1))
	})

	It("is half of them at once, which come back", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		names := d.puts(20)
		d.discover(ctx, prune)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		lost := d.fleet.Pipelines()[10:]
		for _, p := range lost {
			d.fleet.DeletePipeline(p.GetId())
		}
		d.later()
		Eventually(d.ready(ctx)).Should(Equal("False/RemovalSuspended"))
		d.restart(ctx)
		Eventually(func() int { return d.fleet.Count("ListPipelines") }).Should(Equal(3))
		d.look()
		Expect(d.ready(ctx)()).To(Equal("False/RemovalSuspended"), "a restart agrees to nothing")
		for _, p := range lost {
			d.fleet.PutPipeline(p)
		}
		d.later()
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.says(ctx, fleetmanagementv1alpha1.ConditionRemovalSuspended)()).To(BeEmpty())
		untouched(ctx, d, names)
	})

	It("is one of which a lookup does not say so", func(ctx SpecContext) {
		for _, answer := range []fleetserver.Response{
			fleetserver.ConnectError(connect.CodeInternal, "broken"), fleetserver.PlainText(http.StatusTooManyRequests, "slow down", map[string]string{"Retry-After": "60"}),
		} {
			d := newPipelineDiscovery(ctx)
			names := d.puts(3)
			d.discover(ctx, prune)
			d.start(ctx)
			Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
			lost := d.fleet.Pipeline("p02")
			d.fleet.DeletePipeline("p02")
			d.fleet.Fail(fleetserver.Rule{Procedure: "GetPipeline", Respond: answer})
			d.clock.Step(agesAfter)
			d.wake()
			Eventually(func() int { return d.fleet.Count("GetPipeline") }).ShouldNot(BeZero())
			Eventually(d.says(ctx, fleetmanagementv1alpha1.ConditionSynced)).Should(BeElementOf("False/StaleProcessingFailed", "Unknown/RateLimited"))
			untouched(ctx, d, names)
			d.fleet.PutPipeline(lost)
			d.fleet.ClearFaults()
			d.stop()
		}
	})

	It("is one that only its list lacks", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		names := d.puts(3)
		d.discover(ctx, prune)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		lost := d.fleet.Pipeline("p02")
		d.fleet.DeletePipeline("p02")
		release := make(chan struct{})
		d.fleet.Fail(fleetserver.Rule{Procedure: "GetPipeline", Respond: fleetserver.Hold(release)})
		d.clock.Step(agesAfter)
		d.wake()
		Eventually(func() int { return d.fleet.Count("GetPipeline") }).Should(Equal(1))
		d.fleet.PutPipeline(lost)
		close(release)
		d.look()
		untouched(ctx, d, names)
		Expect(d.ready(ctx)()).To(Equal("True/Synced"))
		Expect(d.fleet.Count("GetPipeline")).To(Equal(1))
	})
})

var _ = Describe("A pipeline that is gone", func() {
	It("is marked, and marked no more when it is back", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		d.puts(3)
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		lost := d.fleet.Pipeline("p02")
		d.fleet.DeletePipeline("p02")
		d.later()
		Eventually(d.names(ctx)).Should(Equal([]string{"p00", "p01", "p02!"}))
		Eventually(func() []string { return d.read(ctx).stale }).Should(Equal([]string{lost.GetId()}))
		Expect(d.fleet.Count("GetPipeline")).To(Equal(1))
		d.later()
		Expect(d.fleet.Count("GetPipeline")).To(Equal(1), "it is not looked up again")
		d.fleet.PutPipeline(lost)
		d.later()
		Eventually(d.names(ctx)).Should(Equal([]string{"p00", "p01", "p02"}))
		Expect(d.read(ctx).stale).To(BeEmpty())
	})

	It("takes its object with it where that is asked for", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		names := d.puts(3)
		d.discover(ctx, adopt, prune)
		d.start(ctx)
		for _, name := range names {
			Eventually(d.world.ready(ctx, name)).Should(Equal("True/Synced"))
		}
		d.ignoresDrift(ctx, "p02")
		d.fleet.DeletePipeline("p02")
		d.later()
		Eventually(d.names(ctx)).Should(Equal(names[:2]))
		Expect(d.fleet.Count("DeletePipeline")).To(BeZero())
		Expect(slices.Sorted(slices.Values(d.world.names()))).To(Equal(names[:2]))
	})
})
