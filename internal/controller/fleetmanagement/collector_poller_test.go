// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"testing"

	. "github.com/onsi/gomega"

	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/inventory"
)

func fleetLive(id string, local, remote map[string]string) fleetclient.Collector {
	return fleetclient.Collector{ID: id, LocalAttributes: local, RemoteAttributes: remote}
}

func TestWhatAListMakesCollectorsBeLookedAtFor(t *testing.T) {
	edit := func(change func(*fleetclient.Collector)) inventory.Change[fleetclient.Collector] {
		before, after := fleetLive("edge", map[string]string{"a": "1"}, map[string]string{"b": "2"}), fleetLive("edge", map[string]string{"a": "1"}, map[string]string{"b": "2"})
		change(&after)
		return inventory.Change[fleetclient.Collector]{Before: &before, After: &after}
	}
	live := fleetLive("edge", nil, nil)
	for name, c := range map[string]struct {
		change inventory.Change[fleetclient.Collector]
		wakes  bool
	}{
		"nothing":                  {change: edit(func(*fleetclient.Collector) {})},
		"a ping":                   {change: edit(func(c *fleetclient.Collector) { c.UpdatedAt = c.UpdatedAt.AddDate(2026, 0, 0) })},
		"an attribute of its own":  {change: edit(func(c *fleetclient.Collector) { c.LocalAttributes["a"] = "2" }), wakes: true},
		"a remote attribute":       {change: edit(func(c *fleetclient.Collector) { c.RemoteAttributes = nil }), wakes: true},
		"its name":                 {change: edit(func(c *fleetclient.Collector) { c.Name = "new" }), wakes: true},
		"that it was turned on":    {change: edit(func(c *fleetclient.Collector) { c.Enabled = new(bool) }), wakes: true},
		"that it became inactive":  {change: edit(func(c *fleetclient.Collector) { c.MarkedInactiveAt = c.MarkedInactiveAt.AddDate(2026, 0, 0) }), wakes: true},
		"that it registered":       {change: inventory.Change[fleetclient.Collector]{After: &live}, wakes: true},
		"that it is not there now": {change: inventory.Change[fleetclient.Collector]{Before: &live}, wakes: true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(changed(c.change)).To(Equal(c.wakes))
		})
	}
}
