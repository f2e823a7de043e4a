// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

type change func(*fleetmanagementv1alpha1.TenantPolicySpec)

// aPolicy binds the group payments, requires team="payments" and is set in the namespaces of that team.
func aPolicy(name string, changes ...change) *fleetmanagementv1alpha1.TenantPolicy {
	p := &fleetmanagementv1alpha1.TenantPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec = fleetmanagementv1alpha1.TenantPolicySpec{
		Subjects:          []rbacv1.Subject{{Kind: "Group", Name: "payments"}},
		RequiredMatchers:  []string{`team="payments"`},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "payments"}},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func subjects(all ...rbacv1.Subject) change {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.Subjects = all }
}

func requires(texts ...string) change {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.RequiredMatchers = texts }
}

func selects(selector *metav1.LabelSelector) change {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.NamespaceSelector = selector }
}

func collectors(texts ...string) change {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.AllowedCollectors = texts }
}

// gives takes keys and patterns in turn.
func gives(all ...string) change {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) {
		for i := 0; i < len(all); i += 2 {
			s.AllowedAttributes = append(s.AllowedAttributes, fleetmanagementv1alpha1.AllowedAttribute{Key: all[i], Value: all[i+1]})
		}
	}
}

func unreadable(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.RequiredMatchers = []string{"team=="} }

var (
	ofPayments = map[string]string{"team": "payments"}
	jane       = User{Name: "jane", Groups: []string{"system:authenticated", "payments"}}
)

func compiled(all ...*fleetmanagementv1alpha1.TenantPolicy) []Policy {
	policies := make([]Policy, 0, len(all))
	for _, p := range all {
		policy, _ := Compile(p)
		policies = append(policies, policy)
	}
	return policies
}

// rules are those of the namespaces of the team payments.
func rules(all ...*fleetmanagementv1alpha1.TenantPolicy) Rules {
	return ForNamespace(compiled(all...), ofPayments)
}

func TestWhomAPolicyBinds(t *testing.T) {
	robot := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ci", Name: "robot"}
	for name, test := range map[string]struct {
		subject rbacv1.Subject
		user    User
		want    bool
	}{
		"a user by name":                                {rbacv1.Subject{Kind: "User", Name: "jane"}, jane, true},
		"no user of another name":                       {rbacv1.Subject{Kind: "User", Name: "jan"}, jane, false},
		"no user by the name of a group":                {rbacv1.Subject{Kind: "User", Name: "payments"}, jane, false},
		"a member of a group":                           {rbacv1.Subject{Kind: "Group", Name: "payments"}, jane, true},
		"no group by the name of a user":                {rbacv1.Subject{Kind: "Group", Name: "jane"}, jane, false},
		"everybody by system:authenticated":             {rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, jane, true},
		"whatever API group is written":                 {rbacv1.Subject{Kind: "User", Name: "jane", APIGroup: "x"}, jane, true},
		"a service account":                             {robot, User{Name: "system:serviceaccount:ci:robot"}, true},
		"no service account of another namespace":       {robot, User{Name: "system:serviceaccount:cd:robot"}, false},
		"no user by the name of a service account":      {robot, User{Name: "robot"}, false},
		"a service account that is written as a user":   {rbacv1.Subject{Kind: "User", Name: "system:serviceaccount:ci:robot"}, User{Name: "system:serviceaccount:ci:robot"}, true},
		"the service accounts of a namespace as groups": {rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:ci"}, User{Name: "system:serviceaccount:ci:robot", Groups: []string{"system:serviceaccounts:ci"}}, true},
		"no user of another case":                       {rbacv1.Subject{Kind: "User", Name: "jane"}, User{Name: "Jane"}, false},
		"nobody by an empty group":                      {rbacv1.Subject{Kind: "Group", Name: "payments"}, User{Name: "joe", Groups: []string{""}}, false},
		"nobody without a name":                         {rbacv1.Subject{Kind: "User", Name: "jane"}, User{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policy, err := Compile(aPolicy("p", subjects(test.subject)))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policy.Names(test.user)).To(Equal(test.want))
			g.Expect(ForUser([]Policy{policy}, test.user, ofPayments).Bound()).To(Equal(test.want))
			g.Expect(ForUser([]Policy{policy}, test.user, nil).Bound()).To(BeFalse(), "elsewhere it binds nobody")
			g.Expect(ForNamespace([]Policy{policy}, ofPayments).Bound()).To(BeTrue(), "what is stored has no author")
		})
	}
}

func TestWhereAPolicyBinds(t *testing.T) {
	expression := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "NotIn", Values: []string{"ops"}}}}
	for name, test := range map[string]struct {
		selector     *metav1.LabelSelector
		labels       map[string]string
		user, stored bool
	}{
		"without a selector it binds users everywhere, and nothing that is stored": {nil, ofPayments, true, false},
		"an empty selector binds everywhere":                                       {&metav1.LabelSelector{}, nil, true, true},
		"a selector binds where it matches":                                        {aPolicy("").Spec.NamespaceSelector, ofPayments, true, true},
		"and nowhere else":                                                         {aPolicy("").Spec.NamespaceSelector, map[string]string{"team": "ops"}, false, false},
		"expressions count":                                                        {expression, ofPayments, true, true},
		"expressions exclude":                                                      {expression, map[string]string{"team": "ops"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policy, err := Compile(aPolicy("p", selects(test.selector)))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policy.BindsIn(test.labels)).To(Equal(test.user))
			g.Expect(policy.BindsStored(test.labels)).To(Equal(test.stored))
			g.Expect(ForUser([]Policy{policy}, jane, test.labels).Bound()).To(Equal(test.user))
			g.Expect(ForNamespace([]Policy{policy}, test.labels).Bound()).To(Equal(test.stored))
		})
	}
}

func TestRulesOfNobodyAllowEverything(t *testing.T) {
	g := NewWithT(t)
	for _, r := range []Rules{{}, ForUser(compiled(aPolicy("p")), User{Name: "root"}, ofPayments), ForNamespace(compiled(aPolicy("p")), nil)} {
		g.Expect(r.Bound()).To(BeFalse())
		g.Expect(r.Broken()).To(Succeed())
		g.Expect(r.CheckSelector(nil, []string{"edge-1"})).To(Succeed())
		g.Expect(r.CheckKey("any")).To(BeEmpty())
		g.Expect(r.CheckAttribute("any", "value")).To(BeEmpty())
		g.Expect(r.CheckCollector("any", nil)).To(BeEmpty())
		g.Expect(r.CheckCollectorID("any")).To(BeEmpty())
	}
}

func TestARequiredMatcherIsEqualHoweverItIsWritten(t *testing.T) {
	required := []string{`team=payments`, `team="payments"`, ` team = payments `}
	for _, text := range required {
		for name, test := range map[string]struct {
			matchers []string
			allowed  bool
		}{
			"without quotes":                  {[]string{`team=payments`}, true},
			"with quotes":                     {[]string{`team="payments"`}, true},
			"with spaces":                     {[]string{`team = payments`}, true},
			"beside others":                   {[]string{`env!=prod`, `"team"="payments"`}, true},
			"none at all":                     {nil, false},
			"another value":                   {[]string{`team="payment"`}, false},
			"a value that contains it":        {[]string{`team="payments,x"`}, false},
			"an expression that is as strict": {[]string{`team=~"payments"`}, false},
			"a stricter matcher of its own":   {[]string{`team=~"pay.*"`, `team!="x"`}, false},
			"its opposite":                    {[]string{`team!="payments"`}, false},
			"the value in other case":         {[]string{`team="Payments"`}, false},
			"what is no matcher":              {[]string{`team=="payments"`}, false},
		} {
			t.Run(text+" is required, and there is "+name, func(t *testing.T) {
				err := rules(aPolicy("p", requires(text))).CheckMatchers(test.matchers)
				NewWithT(t).Expect(err == nil).To(Equal(test.allowed), "%v", err)
			})
		}
	}
}

func TestWhatRulesRefuseAndWhy(t *testing.T) {
	two := []*fleetmanagementv1alpha1.TenantPolicy{
		aPolicy("b", requires("team=payments", "env = dev"), gives("tier", "gold|silver", "team", "payments"), collectors("site=berlin", "collector.id=~edge-.*")),
		aPolicy("a", gives("tier", "bronze", "note", ""), collectors("site=paris")),
		aPolicy("c"),
	}
	facts := func(site string) func(string) string {
		return func(key string) string { return map[string]string{"site": site}[key] }
	}
	for name, test := range map[string]struct{ got, want string }{
		"matchers": {
			fmt.Sprint(rules(two...).CheckMatchers([]string{"x=y"})),
			`TenantPolicies a, b, c: one of the matchers has to be env="dev" or team="payments"`,
		},
		"IDs": {
			fmt.Sprint(rules(aPolicy("p")).CheckIDs([]string{"edge-1"})),
			"TenantPolicy p: collectors must not be named by their IDs: select them by matchers",
		},
		"IDs beside an allowed matcher": {
			fmt.Sprint(rules(aPolicy("p")).CheckSelector([]string{"team=payments"}, []string{"edge-1"})),
			"TenantPolicy p: collectors must not be named by their IDs: select them by matchers",
		},
		"no IDs":         {fmt.Sprint(rules(aPolicy("p")).CheckSelector([]string{"team=payments"}, nil)), "<nil>"},
		"a key":          {rules(two...).CheckKey("env"), "TenantPolicies a, b: only these attributes may be set: note, team, tier"},
		"another key":    {rules(two...).CheckKey("tier"), ""},
		"a key's value":  {rules(two...).CheckAttribute("tier", "platinum"), "TenantPolicies a, b: its value has to match bronze or gold|silver"},
		"a part of one":  {rules(two...).CheckAttribute("tier", "gold1"), "TenantPolicies a, b: its value has to match bronze or gold|silver"},
		"its first line": {rules(two...).CheckAttribute("tier", "gold\n"), "TenantPolicies a, b: its value has to match bronze or gold|silver"},
		"one policy's":   {rules(two...).CheckAttribute("tier", "silver"), ""},
		"another's":      {rules(two...).CheckAttribute("tier", "bronze"), ""},
		"any value":      {rules(two...).CheckAttribute("note", ""), ""},
		"values of a key that one leaves free": {
			rules(aPolicy("a", gives("tier", "")), aPolicy("b", gives("tier", "x"))).CheckAttribute("tier", "y"), "",
		},
		"the key's value alone": {rules(two...).CheckAttribute("env", "gold"), "TenantPolicies a, b: only these attributes may be set: note, team, tier"},
		"attributes that nobody bounds": {
			rules(aPolicy("p")).CheckAttribute("any", "value"), "",
		},
		"a collector":            {rules(two...).CheckCollector("edge-1", facts("rome")), `TenantPolicies a, b: the collector has to match site="berlin" and collector.ID=~"edge-.*" or site="paris"`},
		"half a collector":       {rules(two...).CheckCollector("core-1", facts("berlin")), `TenantPolicies a, b: the collector has to match site="berlin" and collector.ID=~"edge-.*" or site="paris"`},
		"a whole collector":      {rules(two...).CheckCollector("edge-1", facts("berlin")), ""},
		"another's collector":    {rules(two...).CheckCollector("core-1", facts("paris")), ""},
		"collectors left free":   {rules(aPolicy("p")).CheckCollector("core-1", facts("")), ""},
		"an ID that may do":      {rules(two[0]).CheckCollectorID("edge-1"), ""},
		"an ID that cannot do":   {rules(two[0]).CheckCollectorID("core-1"), `TenantPolicy b: the collector has to match site="berlin" and collector.ID=~"edge-.*"`},
		"an ID that nobody asks": {rules(two...).CheckCollectorID("core-1"), ""},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(test.got).To(Equal(test.want)) })
	}
}

func TestAPolicyThatCannotBeReadAllowsNothing(t *testing.T) {
	const want = `TenantPolicy bad cannot be read: spec.requiredMatchers[0]: Invalid value: "team==": there is no operator ==: write team=""`
	for name, r := range map[string]Rules{
		"to those whom it names":    ForUser(compiled(aPolicy("bad", unreadable), aPolicy("good")), jane, ofPayments),
		"in what is stored there":   rules(aPolicy("good"), aPolicy("bad", unreadable)),
		"and no other lets it pass": rules(aPolicy("another"), aPolicy("bad", unreadable, requires("team=="), gives("a", ""))),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(r.Broken()).To(MatchError(want))
			g.Expect(r.CheckMatchers([]string{"team=payments"})).To(MatchError(want))
			g.Expect(r.CheckIDs([]string{"edge-1"})).To(MatchError(want))
			g.Expect(r.CheckKey("a")).To(Equal(want))
			g.Expect(r.CheckAttribute("a", "b")).To(Equal(want))
			g.Expect(r.CheckCollector("edge-1", func(string) string { return "" })).To(Equal(want))
			g.Expect(r.CheckCollectorID("edge-1")).To(Equal(want))
		})
	}
	g := NewWithT(t)
	g.Expect(ForUser(compiled(aPolicy("bad", unreadable)), User{Name: "root"}, ofPayments).Bound()).To(BeFalse(), "it names others")
	g.Expect(rules(aPolicy("bad", unreadable, selects(nil))).Bound()).To(BeFalse(), "it says nothing of what is stored")
	nowhere := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Is"}}}
	g.Expect(ForNamespace(compiled(aPolicy("bad", selects(nowhere))), nil).Broken()).To(MatchError(ContainSubstring("spec.namespaceSelector")), "where it binds is unknown")
}

func TestEachMistakeIsNamedByItsField(t *testing.T) {
	for name, test := range map[string]struct {
		change change
		field  string
	}{
		"no subject":                         {subjects(), "spec.subjects"},
		"a subject without a name":           {subjects(rbacv1.Subject{Kind: "User", Name: " "}), "spec.subjects[0].name"},
		"a subject of another kind":          {subjects(rbacv1.Subject{Kind: "Role", Name: "x"}), "spec.subjects[0].kind"},
		"a service account without one":      {subjects(rbacv1.Subject{Kind: "ServiceAccount", Name: "x"}), "spec.subjects[0].namespace"},
		"a user with a namespace":            {subjects(rbacv1.Subject{Kind: "User", Name: "x", Namespace: "y"}), "spec.subjects[0].namespace"},
		"a group with a namespace":           {subjects(rbacv1.Subject{Kind: "Group", Name: "x", Namespace: "y"}), "spec.subjects[0].namespace"},
		"no required matcher":                {requires(), "spec.requiredMatchers"},
		"a required matcher that is none":    {requires("a=b", "a"), "spec.requiredMatchers[1]"},
		"a selector that cannot be read":     {selects(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}}), "spec.namespaceSelector"},
		"an attribute without a key":         {gives("", "x"), "spec.allowedAttributes[0].key"},
		"a reserved attribute":               {gives("collector.os", ""), "spec.allowedAttributes[0].key"},
		"a value that is no expression":      {gives("a", "", "b", "("), "spec.allowedAttributes[1].value"},
		"an expression that escapes anchors": {gives("a", "x)|(y"), "spec.allowedAttributes[0].value"},
		"an expression that costs too much":  {gives("a", "((a?){1000}){3}"), "spec.allowedAttributes[0].value"},
		"a collector matcher that is none":   {collectors("a=b", "{a=b}"), "spec.allowedCollectors[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := aPolicy("p", test.change)
			errs := Validate(&p.Spec)
			g.Expect(errs).To(HaveLen(1))
			g.Expect(errs[0].Field).To(Equal(test.field))
			_, err := Compile(p)
			g.Expect(err).To(MatchError(errs.ToAggregate().Error()))
		})
	}
	NewWithT(t).Expect(Validate(&aPolicy("p", gives("a", "x|y"), collectors("a=b")).Spec)).To(BeEmpty())
}

func TestMessagesAreSortedAndBounded(t *testing.T) {
	g := NewWithT(t)
	var many []*fleetmanagementv1alpha1.TenantPolicy
	for i := range 50 {
		n := (i * 7) % 50
		many = append(many, aPolicy(fmt.Sprintf("p-%02d", n), requires(fmt.Sprintf("team=t-%02d", n)), gives(fmt.Sprintf("k-%02d", n), "")))
	}
	message := rules(many...).CheckMatchers(nil).Error()
	g.Expect(message).To(And(HavePrefix("TenantPolicies p-00, p-01, "), ContainSubstring(`p-09, and 40 more: one of the matchers has to be team="t-00" or `),
		HaveSuffix(`team="t-09", and 40 more`)))
	g.Expect(rules(many...).CheckKey("x")).To(HaveSuffix("only these attributes may be set: k-00, k-01, k-02, k-03, k-04, k-05, k-06, k-07, k-08, k-09, and 40 more"))

	long := strings.Repeat("x", 1000)
	g.Expect(len(rules(aPolicy("p", gives("a", long))).CheckAttribute("a", "b"))).To(BeNumerically("<", 200))
	var bad []*fleetmanagementv1alpha1.TenantPolicy
	for i := range 50 {
		var texts []string
		for j := range 100 {
			texts = append(texts, fmt.Sprintf("%d-%s", j, long))
		}
		bad = append(bad, aPolicy(fmt.Sprintf("p-%02d", i), requires(texts...)))
	}
	g.Expect(len(rules(bad...).Broken().Error())).To(BeNumerically("<", 32<<10))
}
