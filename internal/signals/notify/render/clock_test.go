// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/render"
)

// Alertmanager refuses all alerts of a request in which one begins after its end, and takes one whose end is to come for firing.
func TestNoAlertIsOfTheFuture(t *testing.T) {
	for name, m := range messages(finding) {
		for _, events := range [][]notify.Event{m.Events, m.Open} {
			for i := range events {
				events[i].At = at.AddDate(1, 0, 0)
			}
		}
		requests, err := render.Requests(candorv1alpha1.SinkAlertmanager, m, notify.Options{})
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		for _, r := range requests {
			var alerts []struct{ StartsAt, EndsAt time.Time }
			g.Expect(json.Unmarshal(r.Body, &alerts)).To(Succeed())
			for _, a := range alerts {
				g.Expect(a.StartsAt).To(BeTemporally("<=", at), name)
				g.Expect(a.EndsAt).To(BeTemporally("<=", at.Add(72*time.Hour)), name)
				g.Expect(a.EndsAt).To(BeTemporally(">", a.StartsAt), name)
			}
		}
	}
}
