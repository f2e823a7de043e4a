// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

var (
	other        = Owner{Cluster: "c1", Namespace: "team-b", Name: "two", UID: "uid-two"}
	otherCluster = Owner{Cluster: "c2", Namespace: "team-a", Name: "one", UID: "uid-one-1234"}
	// before is the object of our namespace and name that was there before.
	before = Owner{Cluster: "c1", Namespace: "team-a", Name: "one", UID: "uid-one-0000"}
)

// verdict is the part of a Decision that says what happens.
type verdict struct {
	Action Action
	Reason string
	// ID and Name are those of what is written.
	ID, Name string
}

func TestDecide(t *testing.T) {
	create := func(reason string) verdict { return verdict{Create, reason, "", "metrics"} }
	update := func(reason, id string) verdict { return verdict{Update, reason, id, "metrics"} }
	refuse := func(reason string) verdict { return verdict{Refuse, reason, "", ""} }
	leave := func(reason string) verdict { return verdict{Leave, reason, "", ""} }
	keep := verdict{}
	for name, test := range map[string]struct {
		in   Input
		want verdict
	}{
		"nothing of the name exists": {input(nil), create("Created")},
		"our pipeline stands as wanted": {
			input(shelf{live("1", by(us))}, synced("1")), keep,
		},
		"a crash after the creation finds the stamp": {
			input(shelf{live("1", by(us))}), keep,
		},
		"a crash after the creation, then another name": {
			input(shelf{live("1", by(us), called("old"))}), update("Renamed", "1"),
		},
		"the spec changed": {
			input(shelf{live("1", by(us), saying("old {}"))}, formerly("1", "metrics")), update("Updated", "1"),
		},
		"the spec changed to what somebody had written there": {
			input(shelf{live("1", by(us))}, formerly("1", "metrics")), keep,
		},
		"the name changed": {
			input(shelf{live("1", by(us), called("old"))}, formerly("1", "old")), update("Renamed", "1"),
		},
		"somebody changed the contents": {
			input(shelf{live("1", by(us), saying("theirs {}"))}, synced("1")), update("DriftCorrected", "1"),
		},
		"somebody changed the name": {
			input(shelf{live("1", by(us), called("theirs"))}, synced("1")), update("DriftCorrected", "1"),
		},
		"somebody changed the name and the policy is to warn": {
			input(shelf{live("1", by(us), called("theirs"))}, synced("1"), drift("Warn")), leave("RemoteModified"),
		},
		"somebody changed the contents and the policy is to warn": {
			input(shelf{live("1", by(us), saying("theirs {}"))}, synced("1"), drift("Warn")), leave("RemoteModified"),
		},
		"a new spec is written whatever the policy on drift": {
			input(shelf{live("1", by(us), saying("theirs {}"))}, formerly("1", "metrics"), drift("Warn")), update("Updated", "1"),
		},
		"somebody changed the contents and the policy is to ignore": {
			input(shelf{live("1", by(us), saying("theirs {}"))}, synced("1"), drift("Ignore")), keep,
		},
		"somebody deleted it": {
			input(nil, synced("1")), create("Recreated"),
		},
		"somebody deleted it and the policy is to warn": {
			input(nil, synced("1"), drift("Warn")), leave("RemoteDeleted"),
		},
		"somebody deleted it and the policy is to ignore": {
			input(nil, synced("1"), drift("Ignore")), leave("RemoteDeleted"),
		},
		"somebody deleted it and the spec changed": {
			input(nil, formerly("1", "metrics"), drift("Warn")), create("Created"),
		},
		"somebody deleted it and created it again": {
			input(shelf{live("2")}, synced("1")), update("Rebound", "2"),
		},
		"somebody deleted it and created another under its name": {
			input(shelf{live("2", saying("theirs {}"))}, synced("1")), update("Rebound", "2"),
		},
		"somebody deleted it and created it again, and nothing is ever taken over": {
			input(shelf{live("2")}, synced("1"), adoption("Never")), refuse("NameInUse"),
		},
		"an equal pipeline of nobody": {
			input(shelf{live("7")}), update("Adopted", "7"),
		},
		"another pipeline of nobody": {
			input(shelf{live("7", saying("theirs {}"))}), refuse("NameInUse"),
		},
		"another pipeline of nobody that is to be taken over": {
			input(shelf{live("7", saying("theirs {}"))}, adoption("Always")), update("Adopted", "7"),
		},
		"an equal pipeline that is never to be taken over": {
			input(shelf{live("7")}, adoption("Never")), refuse("NameInUse"),
		},
		"a pipeline of another cluster": {
			input(shelf{live("7", by(otherCluster))}, adoption("Always")), refuse("OwnedByOther"),
		},
		"a pipeline of another object": {
			input(shelf{live("7", by(other))}, adoption("Always"), held(map[string]Holder{"7": holder("two", "metrics")})), refuse("OwnedByOther"),
		},
		"a pipeline of another object that carries no stamp yet": {
			input(shelf{live("7")}, held(map[string]Holder{"7": holder("two", "metrics")})), refuse("OwnedByOther"),
		},
		"a pipeline of another object that is gone": {
			input(shelf{live("7", by(other))}, adoption("Always")), refuse("OwnedByOther"),
		},
		"an equal pipeline of this object before it was created anew": {
			input(shelf{live("7", by(before))}), update("Adopted", "7"),
		},
		"another pipeline of this object before it was created anew": {
			input(shelf{live("7", by(before), saying("old {}"))}), refuse("NameInUse"),
		},
		"an object from a backup, whose status came with it": {
			input(shelf{live("7", by(before), saying("old {}"))}, formerly("7", "metrics")), update("Updated", "7"),
		},
		"somebody else took over the pipeline of our status": {
			input(shelf{live("1", by(otherCluster))}, synced("1")), refuse("OwnedByOther"),
		},
		"an object of another operator, all as it is wanted": {
			input(shelf{live("1")}, formerOperator("1", 2)), keep,
		},
		"an object of another operator, whose spec is newer": {
			input(shelf{live("1", saying("old {}"))}, formerOperator("1", 1), drift("Warn")), update("Updated", "1"),
		},
		"an object of another operator, whose pipeline somebody changed": {
			input(shelf{live("1", saying("theirs {}"))}, formerOperator("1", 2), drift("Warn")), leave("RemoteModified"),
		},
		"an object of another operator, whose name has a scope now": {
			input(shelf{live("1", called("old"))}, formerOperator("1", 2), drift("Warn")), update("Renamed", "1"),
		},
		"the new name is that of a pipeline of nobody": {
			input(shelf{live("1", by(us), called("old")), live("7")}, formerly("1", "old"), adoption("Always")), refuse("NameInUse"),
		},
		"the new name is that of another object that keeps it": {
			input(shelf{live("1", by(us), called("old")), live("7", by(other))}, formerly("1", "old"),
				held(map[string]Holder{"7": holder("two", "metrics")})), refuse("OwnedByOther"),
		},
		"the new name is that of another object that gives it up": {
			input(shelf{live("1", by(us), called("old")), live("7", by(other))}, formerly("1", "old"),
				held(map[string]Holder{"7": holder("two", "elsewhere")})), refuse("OwnedByOther"),
		},
		"two objects swap their names": {
			input(shelf{live("1", by(us), called("old")), live("7", by(other))}, formerly("1", "old"),
				held(map[string]Holder{"7": holder("two", "old")})), verdict{StepAside, "OwnedByOther", "1", "metrics~uid-one-"},
		},
		"three objects pass their names round": {
			input(shelf{live("1", by(us), called("old")), live("7", by(other)), live("8", called("third"))}, formerly("1", "old"),
				held(map[string]Holder{"7": holder("two", "third"), "8": holder("three", "old")})), verdict{StepAside, "OwnedByOther", "1", "metrics~uid-one-"},
		},
		"the other of a swap is paused": {
			input(shelf{live("1", by(us), called("old")), live("7", by(other))}, formerly("1", "old"),
				held(map[string]Holder{"7": holder("two", "")})), refuse("OwnedByOther"),
		},
		"the name that a swap waits for is free": {
			input(shelf{live("1", by(us), called("metrics~uid-one-"))}, formerly("1", "metrics~uid-one-")), update("Renamed", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(test.in)
			NewWithT(t).Expect(verdict{d.Action, d.Reason, d.Write.ID, d.Write.Name}).To(Equal(test.want), d.Message)
			if d.Action == Keep {
				NewWithT(t).Expect(d.Live).NotTo(BeNil())
			}
		})
	}
}

// formerOperator is the status of an object that another operator synced.
func formerOperator(id string, observed int64) func(*Input) {
	return func(in *Input) { in.Status.ID, in.Status.ObservedGeneration = id, observed }
}

func TestAWriteIsStampedAndKeepsWhatOthersWrote(t *testing.T) {
	g := NewWithT(t)
	theirs := live("1", saying("old {}"), by(us), func(p *fleetclient.Pipeline) {
		p.Metadata["team"] = "sre"
		p.Source = &fleetclient.Source{Type: fleetmanagementv1alpha1.SourceGit, Namespace: "repo"}
	})
	d := Decide(input(shelf{theirs}, formerly("1", "metrics")))
	want := wanted()
	want.ID = "1"
	want.Metadata = map[string]any{
		"team": "sre", "k8s.managed-by": "candor", "k8s.cluster": "c1", "k8s.namespace": "team-a", "k8s.name": "one", "k8s.uid": "uid-one-1234",
		"k8s.spec-hash": Hash(wanted()),
	}
	g.Expect(d.Write).To(Equal(want))
	g.Expect(theirs.Metadata["k8s.spec-hash"]).NotTo(Equal(Hash(wanted())), "the inventory's own copy is not touched")
	g.Expect(Released(d.Write).Metadata).To(Equal(map[string]any{"team": "sre"}))
	g.Expect(d.Write.Metadata).To(HaveKey("k8s.uid"))
}

func TestAPipelineCreatedAgainIsNotChangedWhereDriftStays(t *testing.T) {
	g := NewWithT(t)
	d := Decide(input(shelf{live("2", saying("theirs {}"))}, synced("1"), drift("Warn")))
	g.Expect(d.Write.Contents).To(Equal("theirs {}"))
	g.Expect(us.Owns(d.Write)).To(BeTrue())
}

func TestWhatCarriesOurStampBesidesIsAStray(t *testing.T) {
	g := NewWithT(t)
	holds := shelf{live("1", by(us), called("old")), live("2", by(us))}
	d := Decide(input(holds, formerly("1", "old")))
	g.Expect(d.Action).To(Equal(Keep), "the new one stands already")
	g.Expect(d.Live.ID).To(Equal("2"))
	g.Expect(d.Strays).To(Equal([]string{"1"}))
}

func TestBelongings(t *testing.T) {
	ids := func(in Input) (all []string) {
		for _, p := range Belongings(in) {
			all = append(all, p.ID)
		}
		return all
	}
	adopted := func(in *Input) { in.Status.Adopted = true }
	for name, test := range map[string]struct {
		in   Input
		want []string
	}{
		"what carries our stamp":                         {input(shelf{live("1", by(us))}), []string{"1"}},
		"what the status knows":                          {input(shelf{live("1")}, synced("1")), []string{"1"}},
		"what existed before and carries our stamp":      {input(shelf{live("1", by(us))}, synced("1"), adopted), []string{"1"}},
		"not what existed before and carries no stamp":   {input(shelf{live("1")}, synced("1"), adopted), nil},
		"not what carries another stamp":                 {input(shelf{live("1", by(otherCluster))}, synced("1")), nil},
		"not what has our name only":                     {input(shelf{live("1")}), nil},
		"what we wrote in a former life, by the status":  {input(shelf{live("1", by(before))}, synced("1")), []string{"1"}},
		"not what we wrote in a former life, without it": {input(shelf{live("1", by(before))}), nil},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(ids(test.in)).To(Equal(test.want)) })
	}
}

func TestThatAPipelineExistedBeforeIsWrittenOnIt(t *testing.T) {
	adopted := func(p *fleetclient.Pipeline) { p.Metadata["k8s.adopted"] = "true" }
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"a pipeline of nobody":                         {input(shelf{live("7")}), true},
		"an adopted one, whose status got lost":        {input(shelf{live("1", by(us), saying("old {}"), adopted)}), true},
		"one that the status says was adopted":         {input(shelf{live("1", saying("old {}"))}, formerly("1", "metrics"), func(in *Input) { in.Status.Adopted = true }), true},
		"one that this object created":                 {input(shelf{live("1", by(us), saying("old {}"))}, formerly("1", "metrics")), false},
		"one that the object's former life created":    {input(shelf{live("7", by(before))}), false},
		"one that the object's former life adopted":    {input(shelf{live("7", by(before), adopted)}), true},
		"none: the adopted one is gone and made again": {input(nil, synced("1"), func(in *Input) { in.Status.Adopted = true }), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := Decide(test.in)
			g.Expect(d.Adopted).To(Equal(test.want))
			g.Expect(IsAdopted(d.Write)).To(Equal(test.want))
			g.Expect(IsAdopted(Released(d.Write))).To(BeFalse())
		})
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		in   Input
		want string
	}{
		"a pipeline of nobody that differs":      {input(shelf{live("7", saying("theirs {}"))}), "it differs in contents: make it equal, choose another spec.name, or set spec.adoptionPolicy to Always."},
		"a pipeline that is never to be taken":   {input(shelf{live("7")}, adoption("Never")), "choose another spec.name, or set spec.adoptionPolicy to Always."},
		"a rename to the name of another":        {input(shelf{live("1", by(us), called("old")), live("7")}, formerly("1", "old")), "choose another spec.name, or delete that pipeline in Grafana."},
		"a pipeline of another cluster":          {input(shelf{live("7", by(Owner{Cluster: "c2", Namespace: "x", Name: "y", UID: "z"}))}), `carries the stamp of x/y in the cluster "c2": choose another spec.name, or delete that object.`},
		"a pipeline of this object elsewhere":    {input(shelf{live("7", by(otherCluster))}), "if this is that cluster, start Candor with its --cluster-id, else choose another spec.name, or delete that object."},
		"a pipeline of another object":           {input(shelf{live("7", by(other))}, held(map[string]Holder{"7": holder("two", "metrics")})), "choose another spec.name, or delete that object."},
		"the ID of another object":               {input(shelf{live("7", by(other))}, synced("7"), held(map[string]Holder{"7": holder("two", "metrics")})), "is that of the Pipeline team-b/two: delete this object, or that object."},
		"a pipeline of another object that went": {input(shelf{live("7", by(other))}), "choose another spec.name, or delete that pipeline in Grafana."},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Decide(test.in).Message).To(HaveSuffix(test.want)) })
	}
}
