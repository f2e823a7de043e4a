// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

var _ = Describe("Between two writes", func() {
	It("a pipeline that was adopted stays adopted", func(ctx SpecContext) {
		w := newWorld(ctx)
		var conflicts atomic.Int32
		w.meddle = answerStatusWrites(func() bool { return conflicts.Add(1) <= 1 }, http.StatusConflict, metav1.StatusReasonConflict)
		id := w.put("one")
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		Expect(w.status(ctx, "one").Adopted).To(BeTrue())
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipeline(id)).NotTo(BeNil(), "it was there before the object")
	})

	It("somebody takes the pipeline over before it is deleted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.EditPipeline("one", stampedBy("elsewhere", "team-z", "theirs", "uid-z"))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.names()).To(Equal([]string{"one"}))
	})

	It("somebody takes the pipeline over before it is adopted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.put("two")
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.EditPipeline("two", stampedBy("elsewhere", "team-z", "theirs", "uid-z"))
		w.create(ctx, w.pipeline("two"))
		Eventually(w.ready(ctx, "two")).Should(Equal("False/OwnedByOther"))
	})

	It("a list that misses the pipeline does not let a deletion leave it behind", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		listsNothing(w)
		w.change(ctx, "one", `{"spec": {"driftPolicy": "Warn"}}`)
		w.poll()
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.names()).To(BeEmpty())
	})

	It("a list that misses the pipeline makes no second one", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		listsNothing(w)
		w.poll()
		w.look("one")
		Expect(w.names()).To(Equal([]string{"one"}))
		Expect(w.ready(ctx, "one")()).To(Equal("True/Synced"))
		Expect(w.events(ctx)).To(ConsistOf("Normal Created"))
	})
})

// listsNothing has Fleet Management answer with a list that is behind.
func listsNothing(w *world) {
	GinkgoHelper()
	none, err := proto.Marshal(&pipelinev1.Pipelines{})
	Expect(err).NotTo(HaveOccurred())
	w.fleet.Fail(fleetserver.Rule{Procedure: "ListPipelines", Respond: fleetserver.PlainText(http.StatusOK, string(none), map[string]string{"Content-Type": "application/proto"})})
}

var _ = Describe("A crowd of Pipelines", func() {
	It("lists a failing Fleet Management once, not once each", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.fleet.Fail(fleetserver.Rule{Procedure: "ListPipelines", Respond: fleetserver.ConnectError(connect.CodeUnavailable, "away")})
		w.start(ctx)
		for n := range 20 {
			w.create(ctx, w.pipeline(fmt.Sprintf("p%d", n)))
		}
		for n := range 20 {
			Eventually(w.ready(ctx, fmt.Sprintf("p%d", n))).Should(Equal("False/SyncFailed"))
		}
		Expect(w.fleet.Count("ListPipelines")).To(BeNumerically("<=", 2))
	})
})

var _ = Describe("What Fleet Management says of a spec that it refuses", func() {
	It("stands in the condition and in no event, since it may repeat the contents", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.fleet.Fail(fleetserver.Rule{Procedure: "CreatePipeline", Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, `3:12: token = "of-a-person"`)})
		w.start(ctx)
		w.create(ctx, w.pipeline("one"))
		Eventually(w.ready(ctx, "one")).Should(Equal("False/ValidationError"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(ContainSubstring("of-a-person"))
		w.look("one", "one")
		w.stop()
		var list eventsv1.EventList
		Expect(cluster.Client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(list.Items[0].Reason).To(Equal("ValidationError"))
		Expect(list.Items[0].Note).NotTo(ContainSubstring("of-a-person"))
	})
})

var _ = Describe("A Pipeline that is held back", func() {
	It("does not say that what somebody deleted stands", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", drifting(fleetmanagementv1alpha1.DriftWarn)))
		w.fleet.DeletePipeline("one")
		w.poll()
		Eventually(w.ready(ctx, "one")).Should(Equal("False/RemoteDeleted"))
		w.change(ctx, "one", `{"spec": {"paused": true}}`)
		Eventually(w.says(ctx, "one", "Paused")).Should(Equal("True/Paused"))
		Expect(w.ready(ctx, "one")()).To(HavePrefix("False/"))
		w.quiet(func() { w.look("one", "one") })
	})
})
