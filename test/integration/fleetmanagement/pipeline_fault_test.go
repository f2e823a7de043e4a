// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/suite"
)

// class is one way in which Fleet Management, or what stands before it, says no.
type class struct {
	respond fleetserver.Response
	// reason is that of the condition Synced, and status its status.
	status, reason string
	// heals is how long after the end of the fault it is tried again without a change.
	heals time.Duration
	// asks says that a look in between asks again.
	asks bool
}

var classes = map[string]class{
	"400":                  {fleetserver.ConnectError(connect.CodeInvalidArgument, "no such component"), "False", "ValidationError", 30 * time.Minute, false},
	"401":                  {fleetserver.ConnectError(connect.CodeUnauthenticated, "who are you"), "False", "AuthFailed", time.Minute, false},
	"403":                  {fleetserver.ConnectError(connect.CodePermissionDenied, "no"), "False", "AuthFailed", time.Minute, false},
	"404 of an edge":       {fleetserver.PlainText(http.StatusNotFound, "<html>nginx</html>", map[string]string{"Content-Type": "text/html"}), "False", "BaseURLWrong", time.Minute, false},
	"409":                  {fleetserver.ConnectError(connect.CodeAborted, "try again"), "False", "SyncFailed", 0, true},
	"412":                  {fleetserver.ConnectError(connect.CodeFailedPrecondition, "not now"), "False", "SyncFailed", 0, true},
	"429":                  {fleetserver.ConnectError(connect.CodeResourceExhausted, "slow down"), "Unknown", "RateLimited", 15 * time.Second, false},
	"429 of an edge":       {fleetserver.PlainText(http.StatusTooManyRequests, "slow down", map[string]string{"Retry-After": "7"}), "Unknown", "RateLimited", 7 * time.Second, false},
	"500":                  {fleetserver.ConnectError(connect.CodeInternal, "oops"), "False", "SyncFailed", 0, true},
	"503 of an edge":       {fleetserver.PlainText(http.StatusServiceUnavailable, "away", nil), "False", "SyncFailed", 0, true},
	"a broken connection":  {fleetserver.Drop(), "False", "SyncFailed", 0, true},
	"an answer of nothing": {fleetserver.PlainText(http.StatusInternalServerError, "", nil), "False", "SyncFailed", 0, true},
}

func entries() []TableEntry {
	all := make([]TableEntry, 0, len(classes))
	for name, c := range classes {
		all = append(all, Entry(name, c))
	}
	return all
}

// calm asserts that looks at a Pipeline that fails write nothing into the API server, and call nothing unless it is worth it.
func (w *world) calm(name string, asks bool) {
	GinkgoHelper()
	if !asks {
		// What the fault itself says may differ from what the pause after it says.
		w.look(name)
		w.quiet(func() { w.look(name, name) })
		return
	}
	w.look(name)
	writes := w.writes()
	w.look(name, name)
	Expect(w.writes().Since(writes)).To(BeEmpty(), "writes into the API server")
}

// heal ends the fault and waits for as long as nothing may be tried.
func (w *world) heal(name string, after time.Duration) {
	GinkgoHelper()
	w.fleet.ClearFaults()
	w.clock.Step(after)
	if w.get(context.Background(), name) != nil {
		w.wake(name)
	}
}

// listedAnew waits for the list that comes once credentials are taken again: they may be those of another stack.
func (w *world) listedAnew(c class) {
	GinkgoHelper()
	if c.reason != fleetmanagementv1alpha1.ReasonAuthFailed && c.reason != fleetmanagementv1alpha1.ReasonBaseURLWrong {
		return
	}
	Eventually(func() int {
		w.look("one")
		return w.fleet.Count("ListPipelines")
	}).Should(Equal(2))
}

var _ = Describe("A fault", func() {
	DescribeTable("on creation is told, costs nothing while it lasts, and heals by itself", func(ctx context.Context, c class) {
		w := newWorld(ctx)
		w.fleet.Fail(fleetserver.Rule{Procedure: "CreatePipeline", Respond: c.respond})
		w.start(ctx)
		w.create(ctx, w.pipeline("one"))
		Eventually(w.says(ctx, "one", "Synced")).Should(Equal(c.status + "/" + c.reason))
		Expect(w.ready(ctx, "one")()).To(Equal(c.status+"/"+c.reason), "it was never ready")
		Expect(w.status(ctx, "one").SyncedHash).To(BeEmpty())
		w.calm("one", c.asks)
		w.heal("one", c.heals)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.names()).To(Equal([]string{"one"}))
		w.listedAnew(c)
		w.quiet(func() { w.look("one") })
	}, entries())

	DescribeTable("on an update is told, costs nothing while it lasts, and heals by itself", func(ctx context.Context, c class) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		former := w.status(ctx, "one").SyncedHash
		w.fleet.Fail(fleetserver.Rule{Procedure: "UpdatePipeline", Respond: c.respond})
		w.change(ctx, "one", `{"spec": {"enabled": false}}`)
		Eventually(w.says(ctx, "one", "Synced")).Should(Equal(c.status + "/" + c.reason))
		Expect(w.status(ctx, "one").SyncedHash).To(Equal(former))
		w.calm("one", c.asks)
		w.heal("one", c.heals)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.fleet.Pipeline("one").GetEnabled()).To(BeFalse())
		w.listedAnew(c)
		w.quiet(func() { w.look("one") })
	}, entries())

	DescribeTable("on deletion is told and never wedges the object", func(ctx context.Context, c class) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.Fail(fleetserver.Rule{Procedure: "DeletePipeline", Respond: c.respond})
		w.delete(ctx, "one")
		Eventually(w.says(ctx, "one", "Synced")).Should(Equal("False/DeleteFailed"))
		w.look("one")
		writes := w.writes()
		w.look("one", "one")
		Expect(w.writes().Since(writes)).To(BeEmpty())
		w.heal("one", c.heals)
		Eventually(func() bool {
			w.clock.Step(time.Second) // after a rest, requests come one by one
			return w.gone(ctx, "one")()
		}).Should(BeTrue())
		Expect(w.fleet.Pipelines()).To(BeEmpty())
	}, entries())

	It("of 400 is not sent again before its time, and at once for another spec", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.create(ctx, w.pipeline("one", func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Contents = "invalid {{{" }))
		Eventually(w.ready(ctx, "one")).Should(Equal("False/ValidationError"))
		Expect(w.status(ctx, "one").ObservedGeneration).To(Equal(int64(1)))
		for range 5 {
			w.poll()
			w.look("one")
		}
		Expect(w.fleet.Count("CreatePipeline")).To(Equal(1))
		w.clock.Step(5 * time.Minute)
		w.look("one")
		Expect(w.fleet.Count("CreatePipeline")).To(Equal(2), "half an hour later")
		w.change(ctx, "one", `{"spec": {"contents": "logging {}"}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
	})

	It("of too many requests leaves Ready as it was while the spec is the same", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.EditPipeline("one", disabled)
		w.fleet.Fail(fleetserver.Rule{Procedure: "UpdatePipeline", Respond: fleetserver.ConnectError(connect.CodeResourceExhausted, "slow down")})
		w.poll()
		Eventually(w.says(ctx, "one", "Synced")).Should(Equal("Unknown/RateLimited"))
		Expect(w.ready(ctx, "one")()).To(Equal("True/Synced"))
		w.heal("one", 15*time.Second)
		Eventually(w.says(ctx, "one", "Synced")).Should(Equal("True/Synced"))
	})

	DescribeTable("AT-01: of the credentials wedges nobody", func(ctx context.Context, restart bool) {
		w := newWorld(ctx)
		w.fleet.SetCredentials(username, "another")
		w.start(ctx)
		for n := range 5 {
			w.create(ctx, w.pipeline(fmt.Sprintf("p%d", n), named(fmt.Sprintf("n%d", n))))
		}
		for n := range 5 {
			Eventually(w.ready(ctx, fmt.Sprintf("p%d", n))).Should(Equal("False/AuthFailed"))
		}
		Expect(w.fleet.Count(pipelineCalls...)).To(BeNumerically("<=", 1), "one call finds out for all")
		w.fleet.SetCredentials(username, password)
		if restart {
			w.restart(ctx)
		} else {
			w.clock.Step(time.Minute)
			w.look("p3")
		}
		for n := range 5 {
			Eventually(w.ready(ctx, fmt.Sprintf("p%d", n))).Should(Equal("True/Synced"))
		}
		Expect(w.fleet.Pipelines()).To(HaveLen(5))
		Expect(w.fleet.Count("CreatePipeline")).To(Equal(5))
	},
		Entry("and one look wakes all", false),
		Entry("nor does a restart in between", true),
	)

	It("AT-02: of rights on deletion ends soon after it heals", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.Fail(fleetserver.Rule{Procedure: "DeletePipeline", Respond: fleetserver.ConnectError(connect.CodePermissionDenied, "no")})
		w.delete(ctx, "one")
		Eventually(w.ready(ctx, "one")).Should(Equal("False/DeleteFailed"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(ContainSubstring("fleet-management:write"))
		w.clock.Step(30 * time.Second)
		w.look("one")
		Expect(w.fleet.Count("DeletePipeline")).To(Equal(1), "nothing is tried meanwhile")
		w.heal("one", 30*time.Second)
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Count("DeletePipeline")).To(Equal(2))
	})

	It("of a rename creates the new pipeline before the old one goes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.Fail(fleetserver.Rule{
			Procedure: "UpdatePipeline", Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, "a name cannot change"),
			Match: func(m proto.Message) bool {
				return m.(*pipelinev1.UpdatePipelineRequest).GetPipeline().GetName() != "one"
			},
		})
		w.fleet.Fail(fleetserver.Rule{Procedure: "DeletePipeline", Times: 1, Respond: fleetserver.ConnectError(connect.CodeInternal, "oops")})
		w.change(ctx, "one", `{"spec": {"name": "new"}}`)
		Eventually(w.names).Should(Equal([]string{"new"}))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.status(ctx, "one").ID).To(Equal(w.fleet.Pipeline("new").GetId()))
		Expect(w.fleet.Count("CreatePipeline")).To(Equal(2))
		w.quiet(func() { w.look("one") })
	})
})

var _ = Describe("A race", func() {
	It("for the name on creation is looked into: 409 and an equal pipeline is taken over", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("first"))
		w.put("one")
		w.create(ctx, w.pipeline("one"))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.status(ctx, "one").Adopted).To(BeTrue())
		Expect(w.fleet.Count("ListPipelines")).To(Equal(1))
	})

	It("for the name on creation is looked into: 409 and a pipeline of another cluster is left alone", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("first"))
		w.put("one", stampedBy("elsewhere", "team-z", "theirs", "uid-z"))
		w.create(ctx, w.pipeline("one"))
		Eventually(w.ready(ctx, "one")).Should(Equal("False/OwnedByOther"))
		w.quiet(func() { w.look("one", "one") })
	})

	It("with a deletion on an update ends with the pipeline created again", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.DeletePipeline("one")
		w.change(ctx, "one", `{"spec": {"enabled": false}}`)
		Eventually(func() bool { p := w.fleet.Pipeline("one"); return p != nil && !p.GetEnabled() }).Should(BeTrue())
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		w.quiet(func() { w.look("one") })
	})

	It("with a person on the status costs no second write in Fleet Management", func(ctx SpecContext) {
		w := newWorld(ctx)
		var conflicts atomic.Int32
		w.meddle = answerStatusWrites(func() bool { return conflicts.Add(1) <= 2 }, http.StatusConflict, metav1.StatusReasonConflict)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		Expect(conflicts.Load()).To(Equal(int32(3)))
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(1))
	})

	DescribeTable("with the end of the process between the write and the status converges without a duplicate", func(ctx context.Context, renames bool) {
		w := newWorld(ctx)
		var away atomic.Bool
		away.Store(true)
		w.meddle = answerStatusWrites(away.Load, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		w.start(ctx)
		w.create(ctx, w.pipeline("one"))
		Eventually(w.names).Should(Equal([]string{"one"}))
		w.stop()
		Expect(w.status(ctx, "one")).To(Equal(fleetmanagementv1alpha1.PipelineStatus{}))
		writes, name := 1, "one"
		if renames {
			w.change(ctx, "one", `{"spec": {"name": "new"}}`)
			writes, name = 2, "new"
		}
		away.Store(false)
		w.start(ctx)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.names()).To(Equal([]string{name}))
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(writes))
		Expect(w.status(ctx, "one").Adopted).To(BeFalse())
	},
		Entry("", false),
		Entry("when the name changes meanwhile", true),
	)

	DescribeTable("with an answer that is lost converges", func(ctx context.Context, deletes bool) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("first"))
		w.fleet.Fail(fleetserver.Rule{Procedure: "CreatePipeline", Respond: fleetserver.Drop(), AfterApplying: true, Times: 1})
		if deletes {
			w.fleet.Fail(fleetserver.Rule{Procedure: "CreatePipeline", Respond: fleetserver.ConnectError(connect.CodeInternal, "oops")})
		}
		w.create(ctx, w.pipeline("one"))
		if deletes {
			Eventually(w.ready(ctx, "one")).Should(Equal("False/SyncFailed"))
			w.delete(ctx, "one")
			Eventually(w.gone(ctx, "one")).Should(BeTrue())
			Expect(w.names()).To(Equal([]string{"first"}))
			return
		}
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.names()).To(Equal([]string{"first", "one"}))
		Expect(w.status(ctx, "one").Adopted).To(BeFalse())
	},
		Entry("", false),
		Entry("when the object is deleted next", true),
	)
})

// answerStatusWrites answers writes of a status in place of the API server, for as long as is said.
func answerStatusWrites(during func() bool, code int, reason metav1.StatusReason) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/status") || !during() {
				return next.RoundTrip(r)
			}
			body := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code)
			return &http.Response{
				StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})
	}
}
