// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package attributes

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const (
	external  = fleetmanagementv1alpha1.OwnerExternalAttributeSync
	collector = fleetmanagementv1alpha1.OwnerCollector
	policy    = fleetmanagementv1alpha1.OwnerRemoteAttributePolicy
)

type attrs = map[string]string

func TestMergeGivesEachKeyToTheFirstThatAsksAT15(t *testing.T) {
	for name, test := range map[string]struct {
		layers []Layer
		want   map[string]Claim
		ties   []Tie
	}{
		"nobody asks": {nil, map[string]Claim{}, nil},
		"a sync before a collector before a policy": {
			[]Layer{
				{policy, "n/p", 9, attrs{"a": "p", "b": "p", "c": "p"}},
				{collector, "n/c", 0, attrs{"a": "c", "b": "c"}},
				{external, "n/e", 0, attrs{"a": "e"}},
			},
			map[string]Claim{"a": {external, "n/e", "e"}, "b": {collector, "n/c", "c"}, "c": {policy, "n/p", "p"}},
			nil,
		},
		"each key has the policy that gives it for an owner (B21)": {
			[]Layer{{policy, "n/low", 1, attrs{"a": "low", "b": "low"}}, {policy, "n/high", 2, attrs{"a": "high"}}},
			map[string]Claim{"a": {policy, "n/high", "high"}, "b": {policy, "n/low", "low"}},
			nil,
		},
		"of equal priority, the first by name, and the tie is told": {
			[]Layer{{policy, "n/z", 1, attrs{"a": "z"}}, {policy, "n/y", 1, attrs{"a": "y"}}, {policy, "n/x", 1, attrs{"a": "x"}}},
			map[string]Claim{"a": {policy, "n/x", "x"}},
			[]Tie{{"a", policy, "n/x", []string{"n/y", "n/z"}}},
		},
		"equal values are no tie": {
			[]Layer{{policy, "n/z", 1, attrs{"a": "1"}}, {policy, "n/y", 1, attrs{"a": "1"}}},
			map[string]Claim{"a": {policy, "n/y", "1"}},
			nil,
		},
		"a tie below the winner is none": {
			[]Layer{{policy, "n/z", 1, attrs{"a": "z"}}, {policy, "n/y", 1, attrs{"a": "y"}}, {collector, "n/c", 0, attrs{"a": "c"}}},
			map[string]Claim{"a": {collector, "n/c", "c"}},
			nil,
		},
		"a negative priority loses against none": {
			[]Layer{{policy, "n/a", -1, attrs{"a": "1"}}, {policy, "n/b", 0, attrs{"a": "2"}}},
			map[string]Claim{"a": {policy, "n/b", "2"}},
			nil,
		},
		"syncs are equals, too": {
			[]Layer{{external, "n/b", 0, attrs{"a": "b"}}, {external, "n/a", 0, attrs{"a": "a"}}},
			map[string]Claim{"a": {external, "n/a", "a"}},
			[]Tie{{"a", external, "n/a", []string{"n/b"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Merge(test.layers, DefaultLimits())).To(Equal(Merged{Attributes: test.want, Ties: test.ties}))
		})
	}
}

func TestMergeDropsOnlyWhatCannotBeGivenAT16(t *testing.T) {
	long, wide := strings.Repeat("é", 150), strings.Repeat("k", 100)
	for name, test := range map[string]struct {
		layers  []Layer
		want    map[string]string
		refused []Refusal
	}{
		"a value of 151 characters among five": {
			[]Layer{{collector, "n/c", 0, attrs{"a": "1", "b": "2", "c": long + "x", "d": long, "e": ""}}},
			attrs{"a": "1", "b": "2", "d": long, "e": ""},
			[]Refusal{{"c", collector, "n/c", "a value has at most 150 characters, and this one has 151"}},
		},
		"a key of 101 characters": {
			[]Layer{{collector, "n/c", 0, attrs{wide: "1", wide + "k": "2"}}},
			attrs{wide: "1"},
			[]Refusal{{wide + "k", collector, "n/c", "a key has at most 100 characters, and this one has 101"}},
		},
		"a reserved key that somebody wrote into a status (B26)": {
			[]Layer{{external, "n/e", 0, attrs{"collector.os": "x", "collector": "y", "": "z"}}},
			attrs{"collector": "y"},
			[]Refusal{
				{"", external, "n/e", "a key must not be empty"},
				{"collector.os", external, "n/e", "keys that start with collector. are reserved"},
			},
		},
		"what is no UTF-8": {
			[]Layer{{external, "n/e", 0, attrs{"a": "\xff"}}},
			attrs{},
			[]Refusal{{"a", external, "n/e", "keys and values must be valid UTF-8"}},
		},
		"the next claim for the key is taken instead": {
			[]Layer{{collector, "n/c", 0, attrs{"a": long + "x"}}, {policy, "n/p", 0, attrs{"a": "p"}}},
			attrs{"a": "p"},
			[]Refusal{{"a", collector, "n/c", "a value has at most 150 characters, and this one has 151"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			merged := Merge(test.layers, DefaultLimits())
			g.Expect(merged.Desired()).To(Equal(test.want))
			g.Expect(merged.Refused).To(Equal(test.refused))
		})
	}
}

func numbered(prefix string, n int) attrs {
	all := attrs{}
	for i := range n {
		all[fmt.Sprintf("%s%03d", prefix, i)] = "1"
	}
	return all
}

func TestACollectorGetsNoMoreThanItCanHold(t *testing.T) {
	g := NewWithT(t)
	layers := []Layer{{policy, "n/p", 0, numbered("p", 60)}, {collector, "n/c", 0, numbered("c", 60)}}
	merged := Merge(layers, DefaultLimits())
	g.Expect(merged.Attributes).To(HaveLen(100))
	g.Expect(merged.Refused).To(HaveLen(20), "the last keys of the lowest layer")
	g.Expect(merged.Refused[0]).To(Equal(Refusal{"p040", policy, "n/p", "a collector has at most 100 attributes, and this one has 0 that others set"}))

	live := numbered("other", 5)
	live["c000"], live["released"], live["restored"], live["by hand"] = "taken over", "ours", "ours", "theirs"
	before := "theirs"
	owned := []fleetmanagementv1alpha1.AttributeOwner{
		{Key: "released", Value: "ours"}, {Key: "restored", Value: "ours", PreviousValue: &before}, {Key: "by hand", Value: "ours"},
	}
	limits := DefaultLimits().Beside(live, owned, layers, fleetmanagementv1alpha1.ReleaseRestore)
	g.Expect(limits.Others).To(Equal(7), "what others set, what is restored, and what is no longer as we set it")
	merged = Merge(layers, limits)
	g.Expect(merged.Attributes).To(HaveLen(93))
	g.Expect(merged.Refused[0].Reason).To(Equal("a collector has at most 100 attributes, and this one has 7 that others set"))
	g.Expect(DefaultLimits().Beside(live, owned, layers, fleetmanagementv1alpha1.ReleaseRemove).Others).To(Equal(6), "nothing is restored")
	g.Expect(Merge(layers, DefaultLimits().Beside(numbered("other", 200), nil, nil, "")).Attributes).To(BeEmpty())
}
