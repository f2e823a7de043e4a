// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package extsync

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/source"
)

type attrs = map[string]string

var mapping = fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "host", AttributeFields: attrs{"team": "owner", "cost": "cost_center"}}

func requiring(fields ...string) fleetmanagementv1alpha1.AttributeMapping {
	m := mapping
	m.RequiredKeys = fields
	return m
}

func records(t *testing.T, text string) []source.Record {
	t.Helper()
	var all []source.Record
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWhatRecordsComeTo(t *testing.T) {
	last, first := fleetmanagementv1alpha1.DuplicateLast, fleetmanagementv1alpha1.DuplicateFirst
	for name, test := range map[string]struct {
		records string
		mapping fleetmanagementv1alpha1.AttributeMapping
		policy  fleetmanagementv1alpha1.DuplicatePolicy
		want    Claims
		// problems is what the status says of them.
		problems string
	}{
		"one attribute of each mapped field": {
			`[{"host": "a", "owner": "x", "cost_center": "7", "more": "no"}]`, mapping, last, Claims{"a": {"team": "x", "cost": "7"}}, "",
		},
		"AT-17: numbers as written, booleans as words, null as absent (B23)": {
			`[{"host": "a", "owner": 1000000}, {"host": "b", "owner": 9007199254740993}, {"host": "c", "owner": 1.50},
			  {"host": "d", "owner": true}, {"host": "e", "owner": null, "cost_center": 1e6}]`, mapping, last,
			Claims{"a": {"team": "1000000"}, "b": {"team": "9007199254740993"}, "c": {"team": "1.50"}, "d": {"team": "true"}, "e": {"cost": "1e6"}},
			"",
		},
		"an ID that is a number":    {`[{"host": 12345678, "owner": "x"}]`, mapping, last, Claims{"12345678": {"team": "x"}}, ""},
		"an empty value is a value": {`[{"host": "a", "owner": ""}]`, mapping, last, Claims{"a": {"team": ""}}, ""},
		"lists and objects are no values": {
			`[{"host": "a", "owner": ["x"], "cost_center": "7"}]`, mapping, last, Claims{"a": {"cost": "7"}}, "Lists and objects where a value is needed, left out: 1.",
		},
		"records without an ID": {
			`[{"owner": "x"}, {"host": "", "owner": "x"}, {"host": " ", "owner": "x"}, {"host": null, "owner": "x"}, {"host": {}, "owner": "x"},
			  {"host": "` + strings.Repeat("h", 513) + `", "owner": "x"}]`, mapping, last, Claims{}, "Records without a usable collector ID, left out: 6.",
		},
		"records without a required field, or with null in it": {
			`[{"host": "a", "owner": "x"}, {"host": "b", "owner": "x", "site": null}, {"host": "c", "owner": "x", "site": ""}]`, requiring("site"), last,
			Claims{"c": {"team": "x"}},
			"Records without a field of mapping.requiredKeys, left out: 2.",
		},
		"records with nothing to give": {
			`[{"host": "a"}, {"host": "b", "owner": null}]`, mapping, last, Claims{}, "Records with none of the mapped fields, left out: 2.",
		},
		"a value that Fleet Management cannot hold": {
			`[{"host": "a", "owner": "` + strings.Repeat("é", 1025) + `", "cost_center": "` + strings.Repeat("é", 1024) + `"}]`, mapping, last,
			Claims{"a": {"cost": strings.Repeat("é", 1024)}},
			"Values longer than 1024 characters, left out: 1.",
		},
		"the last of two wins": {
			`[{"host": "a", "owner": "x", "cost_center": "7"}, {"host": "a", "owner": "y"}]`, mapping, last,
			Claims{"a": {"team": "y"}},
			"Records that name a collector which an earlier one names: 1.",
		},
		"or the first": {
			`[{"host": "a", "owner": "x"}, {"host": "a", "owner": "y"}]`, mapping, first,
			Claims{"a": {"team": "x"}},
			"Records that name a collector which an earlier one names: 1.",
		},
		"one that gives nothing is no duplicate": {
			`[{"host": "a", "owner": "x"}, {"host": "a"}]`, mapping, last, Claims{"a": {"team": "x"}}, "Records with none of the mapped fields, left out: 1.",
		},
		"none": {`[]`, mapping, last, Claims{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, all := NewWithT(t), records(t, test.records)
			p := Project(all, test.mapping, test.policy)
			g.Expect(p.Claims).To(Equal(test.want))
			g.Expect(p.Problems()).To(Equal(test.problems))
			g.Expect(p.Records).To(Equal(len(all)))
		})
	}
}

func TestASampleShowsTheFirstFewAndNoValuesIfAskedNotTo(t *testing.T) {
	g := NewWithT(t)
	var all []source.Record
	for i := range 20 {
		all = append(all, source.Record{"host": fmt.Sprintf("h-%02d", i), "owner": "secret"})
	}
	p := Project(all, mapping, fleetmanagementv1alpha1.DuplicateLast)
	g.Expect(p.Sample).To(HaveLen(5))
	g.Expect(Redacted(p.Sample)[4]).To(Equal(fleetmanagementv1alpha1.OwnedKeys{CollectorID: "h-04", Attributes: attrs{"team": "(redacted)"}}))
	shown := Shown(p.Sample)
	g.Expect(shown).To(Equal(p.Sample))
	shown[0].Attributes["team"] = "changed"
	g.Expect(p.Claims["h-00"]).To(Equal(attrs{"team": "secret"}), "what is shown may be changed")
}

func TestEachRecordIsCountedOnce(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(25, 0))
	values := []any{nil, "", "x", json.Number("1.50"), true, []any{"x"}}
	for range 2000 {
		var all []source.Record
		for range random.IntN(12) {
			record := source.Record{}
			for _, field := range []string{"host", "owner", "cost_center", "site"} {
				if random.IntN(4) > 0 {
					record[field] = values[random.IntN(len(values))]
				}
			}
			all = append(all, record)
		}
		m := mapping
		if random.IntN(2) == 0 {
			m = requiring("site")
		}
		lasts, firsts := Project(all, m, fleetmanagementv1alpha1.DuplicateLast), Project(all, m, fleetmanagementv1alpha1.DuplicateFirst)
		g.Expect(len(lasts.Claims) + lasts.Duplicates + lasts.Unnamed + lasts.Incomplete + lasts.Empty).To(Equal(len(all)))
		g.Expect(firsts.Duplicates).To(Equal(lasts.Duplicates))
		reversed := make([]source.Record, 0, len(all))
		for i := range all {
			reversed = append(reversed, all[len(all)-1-i])
		}
		g.Expect(Project(reversed, m, fleetmanagementv1alpha1.DuplicateFirst).Claims).To(Equal(lasts.Claims), "the last one is the first from behind")
		for id, of := range lasts.Claims {
			g.Expect(id).NotTo(BeEmpty())
			g.Expect(of).NotTo(BeEmpty())
		}
	}
}

func TestWhatMakesRecordsBeFetchedAnew(t *testing.T) {
	base := func() fleetmanagementv1alpha1.ExternalAttributeSyncSpec {
		return fleetmanagementv1alpha1.ExternalAttributeSyncSpec{
			Source: fleetmanagementv1alpha1.ExternalSource{
				Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: "https://cmdb.example/hosts"},
			},
			Schedule: "10m", Mapping: fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "host", AttributeFields: attrs{"team": "owner"}},
		}
	}
	for name, test := range map[string]struct {
		change func(*fleetmanagementv1alpha1.ExternalAttributeSyncSpec)
		anew   bool
	}{
		"the address": {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Source.HTTP.URL += "?all" }, true},
		"the Secret": {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) {
			s.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: "x"}
		}, true},
		"the mapping":       {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Mapping.AttributeFields["cost"] = "cost" }, true},
		"what is required":  {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Mapping.RequiredKeys = []string{"x"} }, true},
		"the duplicates":    {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.OnDuplicate = "Fail" }, true},
		"the schedule":      {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Schedule = "1h" }, false},
		"the zone":          {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.TimeZone = "UTC" }, false},
		"that it suspends":  {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Suspend = true }, false},
		"the selector":      {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Selector.CollectorIDs = []string{"x"} }, false},
		"the shrink guard":  {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.MaxShrinkPercent = new(int32) }, false},
		"the empty results": {func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.AllowEmptyResults = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, changed := NewWithT(t), base()
			test.change(&changed)
			differs := Fingerprint(changed) != Fingerprint(base())
			g.Expect(differs).To(Equal(test.anew))
			g.Expect(Fingerprint(changed)).To(Equal(Fingerprint(*changed.DeepCopy())))
		})
	}
}

func TestWhatRecordsComeToIsBounded(t *testing.T) {
	g := NewWithT(t)
	wide := fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "host", AttributeFields: attrs{}}
	for i := range 100 {
		wide.AttributeFields[fmt.Sprint(i)] = "owner"
	}
	all := make([]source.Record, 0, MaxAttributes/100+1)
	for i := range MaxAttributes / 100 {
		all = append(all, source.Record{"host": fmt.Sprint(i), "owner": "x"})
	}
	g.Expect(Project(all, wide, fleetmanagementv1alpha1.DuplicateLast).Claims).To(HaveLen(len(all)))
	g.Expect(Project(append(all, all...), wide, fleetmanagementv1alpha1.DuplicateLast).TooMany).To(BeFalse(), "of two for a collector one counts")
	more := Project(append(all, source.Record{"host": "more", "owner": "x"}), wide, fleetmanagementv1alpha1.DuplicateLast)
	g.Expect(more.TooMany).To(BeTrue())
	g.Expect(more.Claims).To(BeEmpty())
}

func TestWhatTheSourceListsBesideRecordsIsTold(t *testing.T) {
	NewWithT(t).Expect((&Projection{Skipped: 3}).Problems()).To(Equal("Elements of the list that are no records, left out: 3."))
}
