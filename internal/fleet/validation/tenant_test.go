// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

type tenantSpec = fleetmanagementv1alpha1.TenantPolicySpec

func aTenantPolicy(changes ...func(*tenantSpec)) *fleetmanagementv1alpha1.TenantPolicy {
	p := &fleetmanagementv1alpha1.TenantPolicy{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}
	p.Spec = tenantSpec{Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}, RequiredMatchers: []string{`team="a"`}}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func subjects(all ...rbacv1.Subject) func(*tenantSpec) {
	return func(s *tenantSpec) { s.Subjects = all }
}

func required(matchers ...string) func(*tenantSpec) {
	return func(s *tenantSpec) { s.RequiredMatchers = matchers }
}

func namespaces(selector *metav1.LabelSelector) func(*tenantSpec) {
	return func(s *tenantSpec) { s.NamespaceSelector = selector }
}

func allowed(attributes ...fleetmanagementv1alpha1.AllowedAttribute) func(*tenantSpec) {
	return func(s *tenantSpec) { s.AllowedAttributes = attributes }
}

func collectors(matchers ...string) func(*tenantSpec) {
	return func(s *tenantSpec) { s.AllowedCollectors = matchers }
}

func TestATenantPolicy(t *testing.T) {
	type attribute = fleetmanagementv1alpha1.AllowedAttribute
	broad := rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts"}
	sentence := metav1.LabelSelectorRequirement{Key: "team", Operator: "Is", Values: []string{"a"}}
	for name, test := range map[string]struct {
		policy *fleetmanagementv1alpha1.TenantPolicy
		want   []string
		warns  []string
	}{
		"of a user is fine": {policy: aTenantPolicy()},
		"that says everything is fine": {policy: aTenantPolicy(
			subjects(rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}, rbacv1.Subject{Kind: "Group", Name: "team-a"}, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ci", Name: "deploy"}),
			required(`team="a"`, "team = b"), namespaces(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}),
			allowed(attribute{Key: "region", Value: "eu|us"}, attribute{Key: "note"}), collectors(`collector.ID=~"a-.*"`),
		)},
		"without subjects":                  {policy: aTenantPolicy(subjects()), want: []string{"spec.subjects: Required value: name at least one User, Group or ServiceAccount"}},
		"of too many subjects":              {policy: aTenantPolicy(subjects(make([]rbacv1.Subject, 1001)...)), want: []string{"spec.subjects: Too many: 1001: must have at most 1000 items"}},
		"of a subject without a name":       {policy: aTenantPolicy(subjects(rbacv1.Subject{Kind: "User", Name: " "})), want: []string{"spec.subjects[0].name: Required value: write whom the policy binds"}},
		"of a kind that is none":            {policy: aTenantPolicy(subjects(rbacv1.Subject{Kind: "Team", Name: "a"})), want: []string{`spec.subjects[0].kind: Unsupported value: "Team": supported values: "User", "Group", "ServiceAccount"`}},
		"of a user in a namespace":          {policy: aTenantPolicy(subjects(rbacv1.Subject{Kind: "User", Name: "ann", Namespace: "a"})), want: []string{`spec.subjects[0].namespace: Invalid value: "a": users and groups have no namespace`}},
		"of a service account in none":      {policy: aTenantPolicy(subjects(rbacv1.Subject{Kind: "ServiceAccount", Name: "deploy"})), want: []string{"spec.subjects[0].namespace: Required value: write the namespace of the service account"}},
		"of a group that holds others, too": {policy: aTenantPolicy(subjects(broad)), warns: []string{"spec.subjects[0].name: system:serviceaccounts binds administrators and other controllers, too; this operator alone is exempt"}},
		"without matchers":                  {policy: aTenantPolicy(required()), want: []string{"spec.requiredMatchers: Required value: write at least one matcher"}},
		"of a matcher that is none":         {policy: aTenantPolicy(required("a=b", "a==b")), want: []string{`spec.requiredMatchers[1]: Invalid value: "a==b": there is no operator ==`}},
		"of too many matchers":              {policy: aTenantPolicy(required(make([]string, 101)...)), want: []string{"spec.requiredMatchers: Too many: 101: must have at most 100 items"}},
		"of a selector that is none": {policy: aTenantPolicy(namespaces(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{sentence}})), want: []string{
			`spec.namespaceSelector: Invalid value: "Is" is not a valid label selector operator`,
		}},
		"of a selector that is empty": {policy: aTenantPolicy(namespaces(&metav1.LabelSelector{})), warns: []string{
			"spec.namespaceSelector: is empty, so that the policy binds in all namespaces, and binds what is stored there, whoever wrote it",
		}},
		"of an attribute without a key":       {policy: aTenantPolicy(allowed(attribute{Value: "a"})), want: []string{"spec.allowedAttributes[0].key: Required value: write the key of an attribute"}},
		"of a subject of another API group":   {policy: aTenantPolicy(subjects(rbacv1.Subject{Kind: "User", APIGroup: "foo", Name: "ann"})), want: []string{`spec.subjects[0].apiGroup: Unsupported value: "foo": supported values: "", "rbac.authorization.k8s.io"`}},
		"of a reserved attribute":             {policy: aTenantPolicy(allowed(attribute{Key: "collector.os"})), want: []string{`spec.allowedAttributes[0].key: Invalid value: "collector.os": keys that start with collector. are reserved`}},
		"of a key that is too long":           {policy: aTenantPolicy(allowed(attribute{Key: strings.Repeat("k", 101)})), want: []string{"spec.allowedAttributes[0].key: Too long: may not be more than 100 characters"}},
		"of a value that is no expression":    {policy: aTenantPolicy(allowed(attribute{Key: "a", Value: "("})), want: []string{`spec.allowedAttributes[0].value: Invalid value: "(": the value is no regular expression of RE2`}},
		"of an expression that is too long":   {policy: aTenantPolicy(allowed(attribute{Key: "a", Value: strings.Repeat("x", 1025)})), want: []string{"spec.allowedAttributes[0].value: Too long: may not be more than 1024 characters"}},
		"of an expression that is too costly": {policy: aTenantPolicy(allowed(attribute{Key: "a", Value: "((x?){99}){99}"})), want: []string{`spec.allowedAttributes[0].value: Invalid value: "((x?){99}){99}": `}},
		"of too many attributes":              {policy: aTenantPolicy(allowed(make([]attribute, 101)...)), want: []string{"spec.allowedAttributes: Too many: 101: must have at most 100 items"}},
		"of collectors by what is no matcher": {policy: aTenantPolicy(collectors("a")), want: []string{`spec.allowedCollectors[0]: Invalid value: "a": the name is followed by one of`}},
		"of collectors by too many matchers":  {policy: aTenantPolicy(collectors(make([]string, 101)...)), want: []string{"spec.allowedCollectors: Too many: 101: must have at most 100 items"}},
		"of mistakes in each field names them all": {policy: aTenantPolicy(subjects(), required("a"), collectors("b"), allowed(attribute{})), want: []string{
			"spec.subjects", "spec.requiredMatchers[0]", "spec.allowedAttributes[0].key", "spec.allowedCollectors[0]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			warnings, errs := TenantPolicy(nil, test.policy, Options{})
			g.Expect(said(errs)).To(HaveLen(len(test.want)), "%v", said(errs))
			for i, want := range test.want {
				g.Expect(said(errs)[i]).To(HavePrefix(want))
			}
			g.Expect(warnings).To(Equal(test.warns))
			if _, err := tenant.Compile(test.policy); err != nil {
				g.Expect(errs).NotTo(BeEmpty(), "a policy that passes can be read")
			}
		})
	}
}

func TestWhatAnUpdateOfATenantPolicyLeavesAsItWasPasses(t *testing.T) {
	type attribute = fleetmanagementv1alpha1.AllowedAttribute
	nobody := rbacv1.Subject{Kind: "Team", Name: "a"}
	ann := rbacv1.Subject{Kind: "User", Name: "ann"}
	broken := func(s *tenantSpec) {
		subjects(nobody)(s)
		required("a==b")(s)
		allowed(attribute{Key: "a", Value: "("})(s)
		collectors("a")(s)
		namespaces(&metav1.LabelSelector{MatchLabels: map[string]string{"?": "?"}})(s)
	}
	touched, leaves := aTenantPolicy(broken), aTenantPolicy(broken)
	touched.Annotations, leaves.DeletionTimestamp = map[string]string{"a": "b"}, &metav1.Time{}
	for name, test := range map[string]struct {
		old, now *fleetmanagementv1alpha1.TenantPolicy
		want     []string
	}{
		"as a new one it is refused": {nil, aTenantPolicy(broken), []string{
			"spec.subjects[0].kind", "spec.requiredMatchers[0]", "spec.namespaceSelector", "spec.allowedAttributes[0].value", "spec.allowedCollectors[0]",
		}},
		"an annotation":                    {aTenantPolicy(broken), touched, nil},
		"an object that is being deleted":  {aTenantPolicy(), leaves, nil},
		"a subject more, before the other": {aTenantPolicy(broken), aTenantPolicy(broken, subjects(ann, nobody)), nil},
		"a subject more that is wrong":     {aTenantPolicy(broken), aTenantPolicy(broken, subjects(nobody, rbacv1.Subject{Kind: "User"})), []string{"spec.subjects[1].name"}},
		"a matcher more":                   {aTenantPolicy(broken), aTenantPolicy(broken, required("c=d", "a==b")), nil},
		"an attribute more":                {aTenantPolicy(broken), aTenantPolicy(broken, allowed(attribute{Key: "b"}, attribute{Key: "a", Value: "("})), nil},
		"another mistake in an attribute":  {aTenantPolicy(broken), aTenantPolicy(broken, allowed(attribute{Key: "b", Value: "("})), []string{"spec.allowedAttributes[0].value"}},
		"a selector that is mended":        {aTenantPolicy(broken), aTenantPolicy(broken, namespaces(nil)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := TenantPolicy(test.old, test.now, Options{})
			var fields []string
			for _, err := range errs {
				fields = append(fields, err.Field)
			}
			NewWithT(t).Expect(fields).To(Equal(test.want), "%v", said(errs))
		})
	}
}
