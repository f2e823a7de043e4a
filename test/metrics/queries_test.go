// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// targetLabels are those that Prometheus Operator gives to what a ServiceMonitor finds.
var targetLabels = []string{"namespace", "job", "pod", "container", "service", "endpoint", "instance"}

// values are what labels may say beyond what one run shows.
var values = map[string][]string{
	"severity": {
		string(candorv1alpha1.SeverityLow), string(candorv1alpha1.SeverityMedium), string(candorv1alpha1.SeverityHigh),
		string(candorv1alpha1.SeverityCritical),
	},
	"outcome": {
		string(candorv1alpha1.OutcomeStillPresent), string(candorv1alpha1.OutcomeRecurred), string(candorv1alpha1.OutcomeResolved),
		string(candorv1alpha1.OutcomeWorkloadGone), string(candorv1alpha1.OutcomeStale), string(candorv1alpha1.OutcomeOutOfPolicy),
	},
	"state": {
		string(candorv1alpha1.SinkWaiting), string(candorv1alpha1.SinkActive), string(candorv1alpha1.SinkFailing), string(candorv1alpha1.SinkMisconfigured),
	},
	"kind": {"ExternalAttributeSync"},
	"reason": {
		signals.DropMalformed, signals.DropNoResourceName, signals.DropScanJob, signals.DropOwnerGone, signals.DropOtherNamespace,
		signals.DropTooManyResources, signals.DropOwnReport, signals.DropRejected,
		fleetmanagementv1alpha1.ReasonNoCredentials, fleetmanagementv1alpha1.ReasonPaused, fleetmanagementv1alpha1.ReasonDryRun,
		fleetmanagementv1alpha1.ReasonNotRegistered, fleetmanagementv1alpha1.ReasonNoMatch, fleetmanagementv1alpha1.ReasonRateLimited,
		fleetmanagementv1alpha1.ReasonAuthFailed, fleetmanagementv1alpha1.ReasonContended, fleetmanagementv1alpha1.ReasonDeleteFailed,
		fleetmanagementv1alpha1.ReasonRemovalSuspended, fleetmanagementv1alpha1.ReasonStalled, fleetmanagementv1alpha1.ReasonSourceFailed,
		fleetmanagementv1alpha1.ReasonSecretUnreadable,
	},
}

// placeholder is a label in a legend.
var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// TestQueries holds every query to what managers export, so that a renamed metric or label cannot leave a panel empty or an
// alert silent.
func TestQueries(t *testing.T) {
	atWork, waits := work(t)
	panels := loadDashboard(t).queries()
	for _, q := range append(panels, ruleQueries(loadRules(t))...) {
		t.Run(q.where+" names what a manager exports", func(t *testing.T) { atWork.check(t, q.expr) })
	}
	one := atWork.scraped("candor-0")
	two := append(slices.Clone(one), waits.scraped("candor-1")...)
	two.load(t, `leader_election_master_status{namespace="candor-system", job="candor", pod="candor-1"} 0x90`)
	for _, q := range panels {
		t.Run(q.where+" shows the same with a replica that waits", func(t *testing.T) {
			g, alone := NewWithT(t), one.at(t, q.expr, time.Hour+10*time.Minute)
			if !strings.Contains(q.expr, `code!~`) { // no request failed
				g.Expect(shown(alone)).NotTo(BeEmpty(), q.expr)
			}
			for _, name := range placeholder.FindAllStringSubmatch(q.legend, -1) {
				for _, sample := range alone {
					g.Expect(sample.Metric.Get(name[1])).NotTo(BeEmpty(), "the legend says %s: %s", q.legend, q.expr)
				}
			}
			with := slices.DeleteFunc(two.at(t, q.expr, time.Hour+10*time.Minute), func(s promql.Sample) bool { return s.Metric.Get("pod") == "candor-1" })
			g.Expect(shown(with)).To(Equal(shown(alone)), q.expr)
		})
	}
}

// check fails where a query names a metric, a label or a value that there is not.
func (f families) check(t *testing.T, expr string) {
	t.Helper()
	g := NewWithT(t)
	root, err := promQL.ParseExpr(expr)
	g.Expect(err).NotTo(HaveOccurred(), expr)
	known := slices.Clone(targetLabels)
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			has := f.labels(selector.Name)
			g.Expect(has).NotTo(BeNil(), "no metric %s: %s", selector.Name, expr)
			known = slices.AppendSeq(known, maps.Keys(has))
			for _, m := range selector.LabelMatchers {
				if m.Name == model.MetricNameLabel || slices.Contains(targetLabels, m.Name) {
					continue
				}
				g.Expect(has).To(HaveKey(m.Name), "%s has no such label: %s", selector.Name, expr)
				g.Expect(append(has[m.Name], values[m.Name]...)).To(ContainElements(named(m)), "values of the label %s: %s", m.Name, expr)
			}
		}
		return nil
	})
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			g.Expect(known).To(ContainElements(n.Grouping), expr)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				g.Expect(known).To(ContainElements(n.VectorMatching.MatchingLabels), expr)
			}
		}
		return nil
	})
}

// named returns the values that a matcher spells out.
func named(m *labels.Matcher) []string {
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		return []string{m.Value}
	}
	return m.SetMatches()
}

var part = regexp.MustCompile(`_(bucket|sum|count)$`)

// labels returns the labels of a series with their values; nil when there is none of this name.
func (f families) labels(name string) map[string][]string {
	family, ok := f[name]
	if !ok {
		if family, ok = f[part.ReplaceAllString(name, "")]; !ok || family.GetType() != dto.MetricType_HISTOGRAM || !part.MatchString(name) {
			return nil
		}
	}
	has := map[string][]string{}
	if strings.HasSuffix(name, "_bucket") {
		has["le"] = nil
	}
	for _, m := range family.GetMetric() {
		for _, pair := range m.GetLabel() {
			has[pair.GetName()] = append(has[pair.GetName()], pair.GetValue())
		}
	}
	return has
}
