// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradeable

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var (
	start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	key   = client.ObjectKey{Namespace: "candor-system", Name: "candor.v0.1.0"}
)

// world is OLM's object and what is asked of it.
type world struct {
	client.WithWatch
	reads, writes int
	refuse        error
	left          int
	lines         []string
}

func newWorld(t *testing.T, conditions ...metav1.Condition) *world {
	t.Helper()
	w, scheme := &world{}, runtime.NewScheme()
	NewWithT(t).Expect(operatorsv2.AddToScheme(scheme)).To(Succeed())
	object := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	object.Spec.Deployments, object.Spec.Conditions = []string{"candor-controller-manager"}, conditions
	w.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			w.reads++
			return errors.Join(w.refuse, c.Get(ctx, key, o, options...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			w.writes++
			return c.Update(ctx, o, options...)
		},
	}).Build()
	return w
}

// reporter is that of a process that has just started.
func (w *world) reporter() *Reporter {
	return &Reporter{
		Client: w, Condition: key, Left: func(context.Context) (int, error) { return w.left, nil }, Clock: clocktesting.NewFakePassiveClock(start),
		Log: funcr.New(func(_, line string) { w.lines = append(w.lines, line) }, funcr.Options{}),
	}
}

func (w *world) conditions(t *testing.T) []metav1.Condition {
	t.Helper()
	var object operatorsv2.OperatorCondition
	NewWithT(t).Expect(w.WithWatch.Get(t.Context(), key, &object)).To(Succeed())
	NewWithT(t).Expect(object.Spec.Deployments).To(Equal([]string{"candor-controller-manager"}), "the rest is OLM's")
	return object.Spec.Conditions
}

func condition(status metav1.ConditionStatus, reason string) OmegaMatcher {
	return And(HaveField("Type", "Upgradeable"), HaveField("Status", status), HaveField("Reason", reason), HaveField("Message", Not(BeEmpty())))
}

func TestAMigrationIsReportedOnceAndSoIsItsEnd(t *testing.T) {
	g, w := NewWithT(t), newWorld(t, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "Any"})
	r := w.reporter()
	w.left = 3
	g.Expect(r.look(t.Context())).To(Succeed())
	w.left = 2
	g.Expect(r.look(t.Context())).To(Succeed())
	g.Expect([]int{w.reads, w.writes}).To(Equal([]int{1, 1}))
	g.Expect(w.conditions(t)).To(HaveExactElements(HaveField("Type", "Other"), condition(metav1.ConditionFalse, ReasonMigrating)))

	w.reads, w.left = 0, 0
	g.Expect(r.look(t.Context())).To(Succeed())
	g.Expect([]int{w.reads, w.writes}).To(Equal([]int{1, 2}))
	g.Expect(w.conditions(t)).To(HaveExactElements(HaveField("Type", "Other"), condition(metav1.ConditionTrue, ReasonMigrated)))
}

func TestAProcessGoesOnWhereTheLastOneStopped(t *testing.T) {
	for name, test := range map[string]struct {
		stored        []metav1.Condition
		left          int
		reads, writes int
		want          metav1.ConditionStatus
	}{
		"nothing was stored by an earlier version":      {nil, 0, 1, 1, metav1.ConditionTrue},
		"a migration begins":                            {nil, 5, 1, 1, metav1.ConditionFalse},
		"a migration was under way, and still is":       {[]metav1.Condition{{Type: "Upgradeable", Status: metav1.ConditionFalse}}, 5, 1, 0, metav1.ConditionFalse},
		"a migration was under way, and has ended":      {[]metav1.Condition{{Type: "Upgradeable", Status: metav1.ConditionFalse}}, 0, 1, 1, metav1.ConditionTrue},
		"this version had been done, so a restart":      {[]metav1.Condition{{Type: "Upgradeable", Status: metav1.ConditionTrue}}, 5, 1, 0, metav1.ConditionTrue},
		"this version had been done, and nothing is up": {[]metav1.Condition{{Type: "Upgradeable", Status: metav1.ConditionTrue}}, 0, 1, 0, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(t, test.stored...)
			w.left = test.left
			r := w.reporter()
			g.Expect(r.look(t.Context())).To(Succeed())
			g.Expect(r.said).To(Equal(test.want))
			g.Expect([]int{w.reads, w.writes}).To(Equal([]int{test.reads, test.writes}))
			g.Expect(w.conditions(t)).To(HaveExactElements(HaveField("Status", test.want)))
		})
	}
}

func TestTheReporterEndsOnceTheVersionIsDone(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	r, done := w.reporter(), 0
	r.Done = func() { done++ }
	g.Expect(r.Start(t.Context())).To(Succeed())
	g.Expect(done).To(Equal(1))
}

func TestAProblemIsLoggedOnceForAsLongAsItLasts(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	r, resource := w.reporter(), schema.GroupResource{Group: "operators.coreos.com", Resource: "operatorconditions"}
	for _, err := range []error{
		apierrors.NewForbidden(resource, key.Name, nil), apierrors.NewForbidden(resource, key.Name, nil), apierrors.NewConflict(resource, key.Name, nil),
		apierrors.NewNotFound(resource, key.Name),
	} {
		w.refuse = err
		r.complain(r.look(t.Context()))
	}
	g.Expect(w.lines).To(HaveExactElements(
		ContainSubstring("reading OperatorCondition candor-system/candor.v0.1.0, which OLM makes: operatorconditions.operators.coreos.com \\\"candor.v0.1.0\\\" is forbidden"),
		ContainSubstring("not found")))
}
