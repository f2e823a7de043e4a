// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// samples is how many scrapes a replica of the tests lives through.
const samples = 90

// scraped returns what Prometheus has of a replica that exported these families at each scrape. Counters grow by what they say
// with each one.
func (f families) scraped(pod string) memory {
	var m memory
	for name, family := range f {
		for _, metric := range family.GetMetric() {
			add := func(name string, value float64, grows bool, more ...string) {
				m = append(m, constant(identity(name, pod, metric.GetLabel(), more), value, grows))
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				add(name, metric.GetCounter().GetValue(), true)
			case dto.MetricType_GAUGE:
				add(name, metric.GetGauge().GetValue(), false)
			case dto.MetricType_HISTOGRAM:
				h := metric.GetHistogram()
				for _, b := range h.GetBucket() {
					add(name+"_bucket", float64(b.GetCumulativeCount()), true, "le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
				}
				add(name+"_bucket", float64(h.GetSampleCount()), true, "le", "+Inf")
				add(name+"_sum", h.GetSampleSum(), true)
				add(name+"_count", float64(h.GetSampleCount()), true)
			}
		}
	}
	return m
}

func identity(name, pod string, own []*dto.LabelPair, more []string) labels.Labels {
	all := append([]string{model.MetricNameLabel, name, "namespace", "candor-system", "job", "candor", "pod", pod}, more...)
	for _, pair := range own {
		if pair.GetValue() != "" { // for Prometheus, there is no such label
			all = append(all, pair.GetName(), pair.GetValue())
		}
	}
	return labels.FromStrings(all...)
}

func constant(metric labels.Labels, value float64, grows bool) promql.Series {
	series := promql.Series{Metric: metric}
	for i := range samples {
		v := value
		if grows {
			v *= float64(i + 1)
		}
		series.Floats = append(series.Floats, promql.FPoint{T: (time.Duration(i) * step).Milliseconds(), F: v})
	}
	return series
}
