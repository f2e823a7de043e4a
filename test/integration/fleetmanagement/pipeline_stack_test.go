// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

// strangerID is the ID of the first pipeline of each stack.
const strangerID = "1001"

// anotherStack is a Fleet Management that holds a pipeline of somebody else. It is not in use yet.
func (w *world) anotherStack(name string) *fleetserver.Server {
	GinkgoHelper()
	other := fleetserver.New(fleetserver.Options{Username: username, Password: password, Clock: w.clock})
	DeferCleanup(other.Close)
	other.PutPipeline(&pipelinev1.Pipeline{Name: name, Contents: "theirs {}"})
	return other
}

// moveTo gives the manager the credentials of another stack.
func (w *world) moveTo(other *fleetserver.Server) {
	GinkgoHelper()
	w.fleet = other
	w.mount()
}

var _ = Describe("Credentials of another stack", func() {
	untouched := func(w *world) {
		GinkgoHelper()
		Expect(w.fleet.Pipeline(strangerID).GetContents()).To(Equal("theirs {}"), "the pipeline of somebody else")
	}

	DescribeTable("bring the pipelines there, and leave what others have there", func(ctx context.Context, theirs string, restart bool, ready string) {
		w := newWorld(ctx)
		other := w.anotherStack(theirs)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		Expect(w.status(ctx, "one").ID).To(Equal(strangerID), "an ID that the other stack has given to somebody else")
		former := w.status(ctx, "one").Stack
		w.moveTo(other)
		if restart {
			w.restart(ctx)
		} else {
			w.poll()
		}
		Eventually(func() int64 { w.look("one"); return int64(w.fleet.Count("ListPipelines")) }).Should(BeNumerically(">=", 1))
		Eventually(func() string { return w.status(ctx, "one").Stack }).ShouldNot(Equal(former), "the status is of the other stack")
		Eventually(w.ready(ctx, "one")).Should(Equal(ready))
		untouched(w)
		if ready == "True/Synced" {
			Eventually(w.names).Should(Equal([]string{theirs, "one"}))
		}
		w.quiet(func() { w.look("one", "one") })
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.names()).To(Equal([]string{theirs}))
		untouched(w)
	},
		Entry("at the next poll", "theirs", false, "True/Synced"),
		Entry("after a restart", "theirs", true, "True/Synced"),
		Entry("of the same name", "one", false, "False/NameInUse"),
	)

	It("do not make a change of the spec land in somebody else's pipeline", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.moveTo(w.anotherStack("theirs"))
		w.change(ctx, "one", `{"spec": {"enabled": false}}`)
		Eventually(func() int64 { return w.status(ctx, "one").ObservedGeneration }).Should(Equal(int64(2)))
		untouched(w)
		Expect(w.names()).To(Equal([]string{"theirs", "one"}))
	})

	It("do not make a deletion take somebody else's pipeline", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.moveTo(w.anotherStack("theirs"))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		untouched(w)
	})
})

var _ = Describe("Another cluster ID", func() {
	It("makes no stranger of the object without a word of what to do", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.options.Fleet.ClusterID = "blue"
		w.restart(ctx)
		w.look("one")
		Eventually(w.ready(ctx, "one")).Should(Equal("False/OwnedByOther"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(ContainSubstring("start Candor with its --cluster-id"))
		w.quiet(func() { w.look("one", "one") })
		w.options.Fleet.ClusterID = ""
		w.restart(ctx)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(1))
	})
})
