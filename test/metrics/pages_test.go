// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

const (
	runbooks   = "../../docs/runbooks"
	runbookURL = "https://github.com/candor-dev/candor/blob/main/docs/runbooks/"
)

// deprecated are types of panels that Grafana has replaced.
var deprecated = []string{"graph", "singlestat", "table-old", "grafana-piechart-panel", "grafana-worldmap-panel", "natel-discrete-panel"}

func TestPanelsTellWhatTheyShow(t *testing.T) {
	d := loadDashboard(t)
	NewWithT(t).Expect(d.UID).To(Equal("candor"))
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		t.Run(p.Title, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(p.Title).To(Or(HaveSuffix("?"), ContainSubstring(" ")), "a question or a statement")
			g.Expect(p.Description).To(HaveSuffix("."))
			g.Expect(p.FieldConfig.Defaults.Unit).NotTo(BeEmpty())
			g.Expect(deprecated).NotTo(ContainElement(p.Type))
			g.Expect(p.Targets).NotTo(BeEmpty())
			for _, target := range p.Targets {
				g.Expect(target.Datasource.UID).To(Equal("${datasource}"))
				g.Expect(target.Expr).To(ContainSubstring(`namespace=~"$namespace", job=~"$job"`))
				g.Expect(target.Instant).NotTo(Equal(target.Range))
			}
		})
	}
}

func TestVariables(t *testing.T) {
	g := NewWithT(t)
	var names []string
	for _, v := range loadDashboard(t).Templating.List {
		names = append(names, v.Name)
	}
	g.Expect(names).To(Equal([]string{"datasource", "namespace", "job"}))
}

// TestJob holds what gives the series their job to what the rules ask for.
func TestJob(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../config/prometheus/monitor.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var monitor struct {
		Spec struct {
			JobLabel string
			Selector struct{ MatchLabels map[string]string }
		}
	}
	g.Expect(yaml.Unmarshal(content, &monitor)).To(Succeed())
	g.Expect(monitor.Spec.Selector.MatchLabels).To(HaveKeyWithValue(monitor.Spec.JobLabel, "candor"))
	selector := regexp.MustCompile(`[a-z_]+\{[^}]*\}`)
	for _, q := range ruleQueries(loadRules(t)) {
		g.Expect(selector.FindAllString(q.expr, -1)).To(HaveEach(ContainSubstring(`job="candor"`)), q.where)
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	g := NewWithT(t)
	index, err := os.ReadFile(filepath.Join(runbooks, "README.md"))
	g.Expect(err).NotTo(HaveOccurred())
	want := []string{"README.md"}
	for _, rule := range loadRules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			g, page := NewWithT(t), rule.Alert+".md"
			g.Expect(rule.Labels["severity"]).To(BeElementOf("critical", "warning"))
			g.Expect(rule.Annotations).To(And(HaveKey("summary"), HaveKey("description")))
			g.Expect(rule.Annotations["runbook_url"]).To(Equal(runbookURL + page))
			g.Expect(string(index)).To(ContainSubstring("(" + page + ")"))
			text, err := os.ReadFile(filepath.Join(runbooks, page))
			g.Expect(err).NotTo(HaveOccurred())
			var headings []string
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "#") {
					headings = append(headings, strings.TrimSpace(line))
				}
			}
			g.Expect(headings).To(Equal([]string{"# " + rule.Alert, "## What it means", "## Look first", "## What to do", "## When it is fine"}))
		})
		want = append(want, rule.Alert+".md")
	}
	pages, err := filepath.Glob(filepath.Join(runbooks, "*"))
	g.Expect(err).NotTo(HaveOccurred())
	for i := range pages {
		pages[i] = path.Base(pages[i])
	}
	slices.Sort(want)
	g.Expect(pages).To(Equal(want), "a runbook of no alert")
}
