// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package attributes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/client"
)

var keys = []string{"a", "b", "c", "d/e", "f~g", "collector.os", ""}

func randomAttributes(random *rand.Rand) attrs {
	all := attrs{}
	for _, key := range keys {
		if random.IntN(2) == 0 {
			all[key] = fmt.Sprint(random.IntN(3))
		}
	}
	return all
}

func randomLayers(random *rand.Rand) []Layer {
	var layers []Layer
	for i := range random.IntN(6) {
		layers = append(layers, Layer{
			Kind: precedence[random.IntN(3)], Name: fmt.Sprintf("n/%d", i), Priority: int32(random.IntN(3) - 1), Attributes: randomAttributes(random),
		})
	}
	return layers
}

// randomLive leaves out the empty key, which Fleet Management never holds.
func randomLive(random *rand.Rand) attrs {
	live := randomAttributes(random)
	delete(live, "")
	return live
}

// carryOut does what Fleet Management does with a plan, and fails if an operation does not find what it expects.
func carryOut(g *WithT, live attrs, plan Plan) attrs {
	before := maps.Clone(live)
	g.Expect(Fits(live, plan.Ops)).To(BeTrue(), "%v on %v", plan.Ops, live)
	after := Apply(live, plan.Ops)
	g.Expect(live).To(Equal(before), "Apply works on a copy")
	return after
}

func TestTheOrderOfLayersDoesNotMatter(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(21, 0))
	for range 2000 {
		layers, limits := randomLayers(random), Limits{Key: 3, Value: 1, Total: 1 + random.IntN(5)}
		merged := Merge(layers, limits)
		random.Shuffle(len(layers), func(i, j int) { layers[i], layers[j] = layers[j], layers[i] })
		g.Expect(Merge(layers, limits)).To(Equal(merged))
		g.Expect(len(merged.Attributes)).To(BeNumerically("<=", limits.Total))
		for key, claim := range merged.Attributes {
			g.Expect(limits.Check(key, claim.Value)).To(BeEmpty())
		}
	}
}

func TestAPlanIsCompleteAndLettingGoRestoresExactlyAT15(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(15, 0))
	for range 2000 {
		live, owned := randomLive(random), []owner(nil)
		unasked := maps.Clone(live) // what is to stand there while nobody asks for it
		for range 1 + random.IntN(4) {
			want := Merge(randomLayers(random), DefaultLimits())
			plan := Diff(want, live, owned, Policies{})
			live, owned = carryOut(g, live, plan), plan.Owners
			expected := maps.Clone(unasked)
			maps.Copy(expected, want.Desired())
			g.Expect(live).To(Equal(expected))
			again := Diff(want, live, owned, Policies{})
			g.Expect(again.Ops).To(BeEmpty())
			g.Expect(again.Conflicts).To(BeEmpty())
			g.Expect(again.Owners).To(Equal(owned))
		}
		g.Expect(carryOut(g, live, Diff(Merged{}, live, owned, Policies{}))).To(Equal(unasked))
	}
}

func TestAPlanTouchesOnlyWhatIsAskedForOrStillOurs(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(20, 0))
	conflicts := []fleetmanagementv1alpha1.ConflictPolicy{"", fleetmanagementv1alpha1.ConflictSkip, fleetmanagementv1alpha1.ConflictFail}
	releases := []fleetmanagementv1alpha1.ReleasePolicy{"", fleetmanagementv1alpha1.ReleaseRemove}
	for range 2000 {
		want, live := Merge(randomLayers(random), DefaultLimits()), randomLive(random)
		// Others have changed some of what is owned, and removed some.
		owned := Diff(Merge(randomLayers(random), DefaultLimits()), randomLive(random), nil, Policies{}).Owners
		values := map[string]string{}
		for _, o := range owned {
			values[o.Key] = o.Value
		}
		policies := Policies{Conflict: conflicts[random.IntN(3)], Release: releases[random.IntN(2)]}
		plan := Diff(want, live, owned, policies)
		after := carryOut(g, live, plan)
		for _, key := range keys {
			_, asked := want.Attributes[key]
			value, isOwned := values[key]
			mayChange := asked && (policies.Conflict == "" || !slices.Contains(plan.Conflicts, key)) || !asked && isOwned && live[key] == value
			if policies.Conflict == fleetmanagementv1alpha1.ConflictFail && len(plan.Conflicts) > 0 {
				mayChange = false
			}
			if !mayChange {
				g.Expect(after[key]).To(Equal(live[key]), "%q of %v by %v", key, live, plan)
			}
		}
		for _, op := range plan.Ops {
			g.Expect(op.Kind != client.OpReplace || op.Old != nil).To(BeTrue(), "each replacement says what it expects")
			g.Expect(op.Kind != client.OpRemove || op.Value == live[op.Key]).To(BeTrue(), "each removal says what it expects")
		}
		g.Expect(Diff(want, after, plan.Owners, policies).Ops).To(BeEmpty())
		g.Expect(Diff(want, live, owned, policies)).To(Equal(plan))
	}
}
