// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/source"
)

func selects(matchers ...string) func(*fleetmanagementv1alpha1.ExternalAttributeSyncSpec) {
	return func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Selector.Matchers = matchers }
}

func TestAnEditThatTakesAwayALotIsHeldBackAsAFetchIs(t *testing.T) {
	for name, test := range map[string]struct {
		edit   func(*fleetmanagementv1alpha1.ExternalAttributeSyncSpec)
		broken bool
		cause  string
	}{
		"the selector":                         {selects("os=linux"), false, "What was given stays. spec.selector means none of the Collectors that they name."},
		"the selector, while the source fails": {selects("os=linux"), true, ""},
		"the ID of the mapping": {
			func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Mapping.CollectorIDField = "hots" }, false,
			`No record has an ID in the field "hots" of spec.mapping.collectorIDField. The first record has the fields ["host" "owner"]. ` +
				"Records without a usable collector ID, left out: 10.",
		},
		"a field of the mapping": {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) {
			s.Mapping.AttributeFields = map[string]string{"team": "ownr"}
		}, false, `Records have none of the fields ["ownr"] of spec.mapping.attributeFields. The first record has the fields ["host" "owner"].`},
		"a key of the mapping": {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) {
			s.Mapping.AttributeFields = map[string]string{"taem": "owner"}
		}, false, "10 of 10 attributes would go"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newSyncBench(t, 10, aSync())
			b.records = hosts(10, "x")
			b.pass(t)
			b.woken = nil
			if test.broken {
				b.err = errors.New("down")
				b.step(11 * time.Minute)
				b.pass(t)
			}
			b.edit(t, respec(2, test.edit))
			o, _ := b.pass(t)
			g.Expect(saysOf(o, "Stalled")).To(Equal("True/Stalled"))
			g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
			g.Expect(b.woken).To(BeEmpty())
			g.Expect(b.config.Claims.Released(o.UID, "edge-0000")).To(BeFalse())
			if test.broken {
				g.Expect(saysOf(o, "Ready")).To(Equal("False/SourceFailed"))
				return
			}
			g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
			g.Expect(toldBy(o)).To(ContainSubstring(test.cause))

			b.restart()
			o, _ = b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
			g.Expect(b.woken).To(BeEmpty())
			b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationApproveRemoval, wordIn(t, o)))
			o, _ = b.pass(t)
			g.Expect(saysOf(o, "Stalled")).To(BeEmpty())
			g.Expect(b.woken).To(HaveLen(10))
		})
	}
}

func TestASelectorThatIsMendedEndsWhatWasHeldBack(t *testing.T) {
	for name, restarts := range map[string]bool{"in the same process": false, "in another one": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newSyncBench(t, 10, aSync())
			b.records = hosts(10, "x")
			b.pass(t)
			b.edit(t, respec(2, selects("os=linux")))
			b.pass(t)
			if restarts {
				b.restart()
				b.pass(t)
			}
			b.woken = nil
			b.edit(t, respec(3, selects("env!=prod")))
			o, _ := b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
			g.Expect(saysOf(o, "Stalled")).To(BeEmpty())
			g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
			g.Expect(b.woken).To(BeEmpty())
		})
	}
}

func TestWhatCollectorsSayTakesAwayALittleAndNotALot(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.records = hosts(10, "x")
	b.pass(t)
	moves := func(n int, env string) *fleetmanagementv1alpha1.ExternalAttributeSync {
		b.woken = nil
		for i := range n {
			b.registered[i].LocalAttributes = map[string]string{"env": env}
		}
		b.list(t)
		b.step(time.Minute)
		o, _ := b.pass(t)
		return o
	}
	o := moves(2, "prod")
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(o.Status.OwnedKeys).To(HaveLen(8))
	g.Expect(b.woken).To(Equal([]string{"edge-0000", "edge-0001"}))
	g.Expect(b.config.Claims.Released(o.UID, "edge-0000")).To(BeTrue())
	o = moves(10, "prod")
	g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
	g.Expect(o.Status.OwnedKeys).To(HaveLen(8))
	g.Expect(b.woken).To(BeEmpty())
	o = moves(10, "test")
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
	g.Expect(b.fetches).To(Equal(1))
}

func TestASuspendedSyncLetsNothingGo(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.records = hosts(10, "x")
	b.pass(t)
	b.edit(t, respec(2, func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { suspended(true)(s); selects("os=linux")(s) }))
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("True/Suspended"))
	b.restart()
	o, _ = b.pass(t)
	g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
	g.Expect(b.config.Claims.Released(o.UID, "edge-0000")).To(BeFalse())
	b.edit(t, respec(3, suspended(false)))
	o, _ = b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
}

func TestASyncThatGivesNothingSaysWhereToLook(t *testing.T) {
	record := source.Record{"a": 1, "b": 1, "c": 1, "host\n": 1, "d": 1, "secret": "s3cret", "host": "edge-0000", "owner": "x"}
	shown := ` The first record has the fields ["a" "b" "c" "d" "host"].`
	for name, test := range map[string]struct {
		change func(*fleetmanagementv1alpha1.ExternalAttributeSyncSpec)
		want   string
	}{
		"the field of the ID": {
			func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Mapping.CollectorIDField = "fdqn" },
			`No record has an ID in the field "fdqn" of spec.mapping.collectorIDField.` + shown + " Records without a usable collector ID, left out: 1.",
		},
		"another field than that of the ID": {
			func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Mapping.CollectorIDField = "secret" },
			`What they have in the field "secret" of spec.mapping.collectorIDField is the ID of no registered Collector of this namespace.` + shown,
		},
		"the fields of attributes": {
			func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) {
				s.Mapping.AttributeFields = map[string]string{"team": "ownr", "t": "ownr"}
			},
			`Records have none of the fields ["ownr"] of spec.mapping.attributeFields.` + shown + " Records with none of the mapped fields, left out: 1.",
		},
		"the required fields": {
			func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Mapping.RequiredKeys = []string{"site"} },
			"Records lack a field of spec.mapping.requiredKeys." + shown + " Records without a field of mapping.requiredKeys, left out: 1.",
		},
		"the selector": {selects("os=linux"), "spec.selector means none of the Collectors that they name."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newSyncBench(t, 1, aSync(func(o *fleetmanagementv1alpha1.ExternalAttributeSync) { test.change(&o.Spec) }))
			b.records = []source.Record{record}
			o, _ := b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal("False/NoMatch"))
			g.Expect(toldBy(o)).To(Equal("None of 1 record gives a Collector anything. " + test.want))
			writes := b.writes
			b.restart()
			b.pass(t)
			g.Expect(b.writes).To(Equal(writes), "a restart says the same")
		})
	}
}

func TestASourceThatIsEmptyIsWell(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 1, aSync())
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(toldBy(o)).To(Equal("The source has no records: nothing is given."))
}

func TestADryRunThatMeansNothingGivesNothing(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 1, aSync(annotate(fleetmanagementv1alpha1.AnnotationDryRun, "True")))
	b.records = hosts(1, "x")
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/ValidationError"))
	g.Expect(toldBy(o)).To(HavePrefix(`metadata.annotations[fleetmanagement.grafana.com/dry-run] is "True": it can be true or false or redacted; ` +
		"write one of these, or remove it. Dry run: what is fetched is not given, and what was given stays. 1 record would come to"))
	g.Expect(o.Status.Sample[0].Attributes).To(Equal(map[string]string{"team": "(redacted)"}))
	g.Expect(b.woken).To(BeEmpty())
	b.restart()
	b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationDryRun, "false"))
	o, _ = b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(b.woken).To(HaveLen(1))
}
