// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestTheOperatorAsksOnceWhoItIs(t *testing.T) {
	for name, test := range map[string]struct {
		says string
		err  error
		want string
	}{
		"an answer names it":             {says: "system:serviceaccount:candor-system:candor-controller-manager"},
		"an answer that names nobody":    {want: "asking the API server who this operator is, whom no TenantPolicy binds: the answer names nobody"},
		"no answer ends the operator":    {err: errors.New("no such resource"), want: "asking the API server who this operator is, whom no TenantPolicy binds: no such resource"},
		"a name beside an error is none": {says: "x", err: errors.New("late"), want: "asking the API server who this operator is, whom no TenantPolicy binds: late"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(NewScheme()).Build(), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					o.(*authenticationv1.SelfSubjectReview).Status.UserInfo.Username = test.says
					return test.err
				},
			})
			who, err := self(t.Context(), c)
			if test.want != "" {
				g.Expect(err).To(MatchError(test.want))
				g.Expect(who).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(who).To(Equal(test.says))
		})
	}
}

func TestARowIsOffWithTheRowThatItNeeds(t *testing.T) {
	g := NewWithT(t)
	b := &building{options: DefaultOptions()}
	g.Expect(b.off("collector-discovery")).To(BeFalse())
	b.options.Controllers["collector"].Enabled = false
	for row, off := range map[string]bool{"collector": true, "collector-discovery": true, "external-sync": true, "pipeline-discovery": false, "tenant-policy": false} {
		g.Expect(b.off(row)).To(Equal(off), row)
	}
}

func TestEachKindOfTheFleetHasAWebhook(t *testing.T) {
	g := NewWithT(t)
	for _, s := range setups() {
		switch s.name {
		case "pipeline", "collector", "policy", "pipeline-discovery", "collector-discovery", "external-sync", "tenant-policy":
			g.Expect(s.webhook).NotTo(BeNil(), s.name)
		}
	}
}
