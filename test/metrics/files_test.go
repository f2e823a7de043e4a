// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"sigs.k8s.io/yaml"
)

const (
	dashboardFile = "../../config/grafana/candor.json"
	rulesFile     = "../../config/prometheus/rules.yaml"
)

// query is one expression, where it stands, and how its series are called in a panel.
type query struct{ where, expr, legend string }

// panel is what there is to say about a panel of the dashboard.
type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Expr           string
		LegendFormat   string
		Instant, Range bool
		Datasource     struct{ Type, UID string }
	}
}

// dashboard is the part of Grafana's model that tests look at.
type dashboard struct {
	UID, Title string
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(dashboardFile)
	g.Expect(err).NotTo(HaveOccurred())
	var d dashboard
	g.Expect(json.Unmarshal(content, &d)).To(Succeed())
	return d
}

// filledIn replaces the variables of a query by what Grafana puts there.
func filledIn(expr string) string {
	return strings.NewReplacer("$__range", "1h", "$__rate_interval", "5m", "$namespace", "candor-system", "$job", "candor").Replace(expr)
}

func (d dashboard) queries() []query {
	var all []query
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, query{"the panel " + p.Title, filledIn(target.Expr), target.LegendFormat})
		}
	}
	return all
}

// ruleGroups returns the rules as a file of Prometheus, which has no more than the spec of the PrometheusRule.
func ruleGroups(t *testing.T) []byte {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(rulesFile)
	g.Expect(err).NotTo(HaveOccurred())
	var rule struct {
		Kind string
		Spec any
	}
	g.Expect(yaml.Unmarshal(content, &rule)).To(Succeed())
	g.Expect(rule.Kind).To(Equal("PrometheusRule"))
	groups, err := yaml.Marshal(rule.Spec)
	g.Expect(err).NotTo(HaveOccurred())
	return groups
}

// loadRules reads the rules as Prometheus does.
func loadRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse(ruleGroups(t), false, model.UTF8Validation, promQL)
	NewWithT(t).Expect(errs).To(BeEmpty())
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

func ruleQueries(rules []rulefmt.Rule) []query {
	var all []query
	for _, r := range rules {
		all = append(all, query{where: "the alert " + r.Alert, expr: r.Expr})
	}
	return all
}
