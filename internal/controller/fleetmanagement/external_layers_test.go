// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// A process ends at any point between a fetch and the status of the last Collector. The next one knows what the statuses tell, and what
// stands in Fleet Management.
func TestARestartInTheMiddleOfGivingChangesNothing(t *testing.T) {
	gave := func(value string, previous *string) []fleetmanagementv1alpha1.AttributeOwner {
		return []fleetmanagementv1alpha1.AttributeOwner{{
			Key: "team", OwnerKind: fleetmanagementv1alpha1.OwnerExternalAttributeSync, OwnerName: "team/cmdb", Value: value, PreviousValue: previous,
		}}
	}
	before := "theirs"
	for name, test := range map[string]struct {
		// owned is what the status of the sync tells; nil where that is too much.
		owned map[string]string
		given []fleetmanagementv1alpha1.AttributeOwner
		live  map[string]string
		// want is what stands then, and owner who gave it.
		want  map[string]string
		owner []fleetmanagementv1alpha1.AttributeOwner
	}{
		"nothing was done yet, and the status holds it":       {map[string]string{"team": "y"}, gave("x", nil), map[string]string{"team": "x"}, map[string]string{"team": "y"}, gave("y", nil)},
		"nothing was done yet":                                {nil, gave("x", nil), map[string]string{"team": "x"}, map[string]string{"team": "x"}, gave("x", nil)},
		"another value was written, and the status holds it":  {map[string]string{"team": "y"}, gave("x", nil), map[string]string{"team": "y"}, map[string]string{"team": "y"}, gave("y", nil)},
		"another value was written":                           {nil, gave("x", nil), map[string]string{"team": "y"}, map[string]string{"team": "y"}, gave("x", nil)},
		"another value was written over one of somebody else": {nil, gave("x", &before), map[string]string{"team": "y"}, map[string]string{"team": "y"}, gave("x", &before)},
		"it was taken away":                                   {nil, gave("x", nil), map[string]string{"rack": "7"}, map[string]string{"rack": "7"}, gave("x", nil)},
		"all was done":                                        {nil, gave("y", nil), map[string]string{"team": "y"}, map[string]string{"team": "y"}, gave("y", nil)},
	} {
		for _, policy := range []fleetmanagementv1alpha1.ConflictPolicy{"", fleetmanagementv1alpha1.ConflictSkip, fleetmanagementv1alpha1.ConflictFail} {
			t.Run(name+", policy "+string(policy), func(t *testing.T) {
				g := NewWithT(t)
				scheme := runtime.NewScheme()
				g.Expect(fleetmanagementv1alpha1.AddToScheme(scheme)).To(Succeed())
				o := aSync()
				if test.owned != nil {
					o.Status.OwnedKeys = []fleetmanagementv1alpha1.OwnedKeys{{CollectorID: "edge-0000", Attributes: test.owned}}
				}
				c := &fleetmanagementv1alpha1.Collector{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c", UID: "2"}}
				c.Spec.ID, c.Spec.ConflictPolicy, c.Status.AttributeOwners = "edge-0000", policy, test.given
				c.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
				s := &CollectorSyncer{CollectorConfig: CollectorConfig{
					Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(o, c).WithStatusSubresource(o).WithIndex(c, indexCollectorID, func(o client.Object) []string {
						return []string{o.(*fleetmanagementv1alpha1.Collector).Spec.ID}
					}).Build(),
					Selectors: &Selectors{}, Claims: &extsync.Store{}, Limits: attributes.DefaultLimits(), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
				}}
				g.Expect(s.Client.(client.Client).Status().Update(t.Context(), o)).To(Succeed())
				st, err := s.plan(t.Context(), c, fleetLive(c.Spec.ID, nil, test.live), attempt{}, tenant.Rules{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(attributes.Apply(test.live, st.ops)).To(Equal(test.want))
				g.Expect(st.Owners).To(Equal(test.owner))
				g.Expect(st.Conflicts).To(BeEmpty())

				s.Claims.Put(o.UID, extsync.Claims{c.Spec.ID: test.live})
				c.Status.AttributeOwners = st.Owners
				st, err = s.plan(t.Context(), c, fleetLive(c.Spec.ID, nil, test.live), attempt{}, tenant.Rules{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(st.ops).To(BeEmpty(), "the next fetch says what was to stand")
				for _, owner := range st.Owners {
					if owner.Key == "team" {
						g.Expect(owner.PreviousValue).To(Equal(test.given[0].PreviousValue), "which nobody takes for what somebody else had set")
					}
				}
			})
		}
	}
}
