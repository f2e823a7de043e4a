// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

var (
	matchers = []string{"team=a", `team="b"`, "team=~a|b", "env!=prod", "site=berlin", "collector.id=edge-1", `collector.ID=~"core-.*"`}
	keys     = []string{"team", "env", "site"}
	values   = []string{"", "a", "b", "ab", "prod", "berlin"}
	patterns = []string{"", "a", "a|b", "a.*", "[^a]*"}
	ids      = []string{"edge-1", "core-1", "x"}
)

func some(random *rand.Rand, from []string, least int) []string {
	texts := make([]string, 0, 3)
	for range least + random.IntN(3) {
		texts = append(texts, from[random.IntN(len(from))])
	}
	return texts
}

func randomPolicies(random *rand.Rand) []*fleetmanagementv1alpha1.TenantPolicy {
	selectors := []*metav1.LabelSelector{nil, {}, {MatchLabels: map[string]string{"team": "a"}}, {MatchLabels: map[string]string{"team": "b"}}}
	all := make([]*fleetmanagementv1alpha1.TenantPolicy, 0, 4)
	for i := range 1 + random.IntN(4) {
		p := aPolicy(fmt.Sprintf("p-%d", i), requires(some(random, matchers, 1)...), collectors(some(random, matchers, 0)...),
			selects(selectors[random.IntN(len(selectors))]),
			subjects(rbacv1.Subject{Kind: "User", Name: []string{"jane", "joe"}[random.IntN(2)]}))
		for range random.IntN(3) {
			gives(keys[random.IntN(len(keys))], patterns[random.IntN(len(patterns))])(&p.Spec)
		}
		all = append(all, p)
	}
	return all
}

// answers are what rules say to some questions, empty for what they allow, by dimension.
type answers struct{ matchers, attributes, collectors []string }

// ask asks the same questions for the same seed.
func ask(r Rules, seed uint64) answers {
	random := rand.New(rand.NewPCG(seed, 1))
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	var a answers
	for range 10 {
		facts := map[string]string{}
		for _, key := range keys {
			facts[key] = values[random.IntN(len(values))]
		}
		id, key, value := ids[random.IntN(len(ids))], keys[random.IntN(len(keys))], values[random.IntN(len(values))]
		a.matchers = append(a.matchers, text(r.CheckSelector(some(random, matchers, 0), nil)))
		a.attributes = append(a.attributes, r.CheckAttribute(key, value), r.CheckKey(key))
		a.collectors = append(a.collectors, r.CheckCollector(id, func(key string) string { return facts[key] }), r.CheckCollectorID(id))
	}
	return a
}

var (
	namespaces = []map[string]string{nil, {"team": "a"}, {"team": "b"}}
	people     = []User{{Name: "jane"}, {Name: "joe"}}
)

// everybody returns the rules for each user, and for none, in each namespace.
func everybody(policies []Policy) []Rules {
	var all []Rules
	for _, namespace := range namespaces {
		all = append(all, ForNamespace(policies, namespace))
		for _, user := range people {
			all = append(all, ForUser(policies, user, namespace))
		}
	}
	return all
}

func TestTheOrderOfPoliciesDoesNotMatter(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(42, 0))
	for round := range uint64(500) {
		policies := compiled(randomPolicies(random)...)
		shuffled := slices.Clone(policies)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		after := everybody(shuffled)
		for i, r := range everybody(policies) {
			g.Expect(ask(after[i], round)).To(Equal(ask(r, round)))
		}
	}
}

func TestAnotherPolicyForbidsOnlyWhatNobodyBoundBefore(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(43, 0))
	kept, forbade := 0, 0
	stays := func(before, after []string) {
		for i := range before {
			if before[i] == "" {
				kept++
				g.Expect(after[i]).To(BeEmpty())
			}
		}
	}
	for round := range uint64(500) {
		policies := compiled(randomPolicies(random)...)
		more := everybody(policies)
		for i, r := range everybody(policies[1:]) {
			before, after := ask(r, round), ask(more[i], round)
			if r.Bound() {
				stays(before.matchers, after.matchers)
			} else if more[i].Bound() {
				forbade++
			}
			if slices.ContainsFunc(r.policies, constrainsAttributes) {
				stays(before.attributes, after.attributes)
			}
			if slices.ContainsFunc(r.policies, constrainsCollectors) {
				stays(before.collectors, after.collectors)
			}
		}
	}
	t.Logf("%d answers stayed, and %d times a policy was the first", kept, forbade)
	g.Expect(kept).To(BeNumerically(">", 10000))
	g.Expect(forbade).To(BeNumerically(">", 100))
}

func TestWhatACollectorMayGetItsIDDoesNotForbid(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(44, 0))
	for range 2000 {
		r := rules(randomPolicies(random)...)
		id, value := ids[random.IntN(len(ids))], values[random.IntN(len(values))]
		if r.CheckCollector(id, func(string) string { return value }) == "" {
			g.Expect(r.CheckCollectorID(id)).To(BeEmpty())
		}
	}
}
