// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

var _ = Describe("A name", func() {
	DescribeTable("may be whatever the CRD lets through", func(ctx context.Context, name string) {
		w := newWorld(ctx)
		w.options.Fleet.NameScope = fleetmanagementv1alpha1.NameScopeCluster
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", named(name)))
		Expect(w.names()).To(ConsistOf(HaveSuffix("." + w.namespace + "." + name)))
		w.create(ctx, w.pipeline("two", named(name)))
		Eventually(w.ready(ctx, "two")).Should(Equal("False/DuplicateName"))
		w.quiet(func() { w.look("one", "two") })
		w.delete(ctx, "one")
		Eventually(w.ready(ctx, "two")).Should(Equal("True/Synced"))
	},
		Entry("of all alphabets", "名前-ünï-🚀"),
		Entry("of what selectors are made of", `a=b,c!=d\,"x"`),
		Entry("of 253 characters in more bytes", strings.Repeat("ü", 253)),
	)

	It("follows the scope of each restart, and the pipeline stays the same one", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		id := w.status(ctx, "one").ID
		for _, scope := range []string{fleetmanagementv1alpha1.NameScopeNamespace, fleetmanagementv1alpha1.NameScopeCluster, fleetmanagementv1alpha1.NameScopeNone} {
			former := w.status(ctx, "one").SyncedName
			w.options.Fleet.NameScope = scope
			w.restart(ctx)
			Eventually(func() string { return w.status(ctx, "one").SyncedName }).ShouldNot(Equal(former))
			Expect(w.fleet.Pipeline(id).GetName()).To(Equal(w.status(ctx, "one").SyncedName))
			w.quiet(func() { w.look("one", "one") })
		}
		Expect(w.names()).To(Equal([]string{"one"}))
		Expect(w.fleet.Count("UpdatePipeline")).To(Equal(3))
	})
})
