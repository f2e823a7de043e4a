// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fleet/extsync"
)

// A status that the API server does not take would never tell what was fetched, and nothing of it would be given.
var _ = DescribeTable("A status takes what an ExternalAttributeSync owns, whatever is in it", func(ctx SpecContext, id, key, value string, keys int) {
	w := newSyncWorld(ctx)
	o := w.sync("cmdb")
	w.create(ctx, o)
	claims := extsync.Claims{}
	for n := range 1000 {
		of := map[string]string{}
		for k := range keys {
			of[fmt.Sprintf("%s%02d", key, k)] = value
		}
		claims[fmt.Sprintf("%s%04d", id, n)] = of
		owned, truncated := extsync.Owned(claims)
		if truncated {
			break
		}
		o.Status.OwnedKeys = owned
	}
	Expect(o.Status.OwnedKeys).NotTo(BeEmpty())
	Expect(cluster.Client.Status().Update(ctx, o)).To(Succeed(), "%d collectors", len(o.Status.OwnedKeys))
},
	Entry("plain text", "edge-", "team-", strings.Repeat("x", 100), 5),
	Entry("what JSON escapes", "edge-", "team-", strings.Repeat("<", 1000), 1),
	Entry("what nobody can print", "edge-", "team-", strings.Repeat("\x00", 1000), 1),
	Entry("long IDs", strings.Repeat("x", 500), "team-", "x", 1),
	Entry("long IDs that JSON escapes", strings.Repeat("<", 500), "team-", "x", 1),
	Entry("IDs of quotes", strings.Repeat(`"`, 500), "team-", "x", 1),
	Entry("long IDs of other scripts", strings.Repeat("界", 500), "team-", "x", 1),
	Entry("many keys", "e", "k", "", 100),
	Entry("many long keys", "e", strings.Repeat("<", 98), "", 100),
)
