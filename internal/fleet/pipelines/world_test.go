// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var us = Owner{Cluster: "c1", Namespace: "team-a", Name: "one", UID: "uid-one-1234"}

func wanted() fleetclient.Pipeline {
	return fleetclient.Pipeline{
		Name: "metrics", Contents: "logging {\n}\n", Matchers: []string{`env="prod"`}, Enabled: true, ConfigType: fleetmanagementv1alpha1.ConfigTypeAlloy,
	}
}

// live is what is wanted, as Fleet Management holds it under an ID.
func live(id string, change ...func(*fleetclient.Pipeline)) fleetclient.Pipeline {
	p := wanted()
	p.ID = id
	for _, c := range change {
		c(&p)
	}
	return p
}

func by(owner Owner) func(*fleetclient.Pipeline) {
	return func(p *fleetclient.Pipeline) {
		metadata := maps.Clone(p.Metadata)
		p.Metadata = nil
		p.Metadata = stamped(metadata, owner, Hash(*p), false)
	}
}

func called(name string) func(*fleetclient.Pipeline) {
	return func(p *fleetclient.Pipeline) { p.Name = name }
}

func saying(contents string) func(*fleetclient.Pipeline) {
	return func(p *fleetclient.Pipeline) { p.Contents = contents }
}

// shelf is what Fleet Management holds.
type shelf []fleetclient.Pipeline

func (s shelf) Get(id string) (fleetclient.Pipeline, bool) {
	for _, p := range s {
		if p.ID == id {
			return p, true
		}
	}
	return fleetclient.Pipeline{}, false
}

func (s shelf) Named(name string) (all []fleetclient.Pipeline) {
	for _, p := range s {
		if p.Name == name {
			all = append(all, p)
		}
	}
	return all
}

// input is that of an object which was never synced.
func input(holds shelf, change ...func(*Input)) Input {
	in := Input{
		Want: wanted(), Owner: us, Generation: 2, Adoption: fleetmanagementv1alpha1.AdoptIfUnmanaged,
		Drift: fleetmanagementv1alpha1.DriftCorrect, Poll: 5 * time.Minute, Now: now, Live: holds,
		HolderOf: func(fleetclient.Pipeline) (Holder, bool) { return Holder{}, false },
	}
	for _, p := range holds {
		if us.Owns(p) {
			in.Stamped = append(in.Stamped, p)
		}
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

// synced has the object know its pipeline, whose spec stood there as it is now.
func synced(id string) func(*Input) {
	return func(in *Input) {
		in.Status.ID, in.Status.SyncedName, in.Status.SyncedHash, in.Status.ObservedGeneration = id, in.Want.Name, Hash(in.Want), in.Generation
	}
}

// formerly has the object know its pipeline, whose spec was another one.
func formerly(id, name string) func(*Input) {
	return func(in *Input) {
		in.Status.ID, in.Status.SyncedName, in.Status.SyncedHash, in.Status.ObservedGeneration = id, name, "another", in.Generation-1
	}
}

func adoption(policy fleetmanagementv1alpha1.AdoptionPolicy) func(*Input) {
	return func(in *Input) { in.Adoption = policy }
}

func drift(policy fleetmanagementv1alpha1.DriftPolicy) func(*Input) {
	return func(in *Input) { in.Drift = policy }
}

// held has objects of this cluster stand for pipelines, by the pipeline's ID.
func held(by map[string]Holder) func(*Input) {
	return func(in *Input) {
		in.HolderOf = func(p fleetclient.Pipeline) (Holder, bool) {
			h, exists := by[p.ID]
			return h, exists
		}
	}
}

func holder(name, wants string) Holder {
	return Holder{UID: types.UID("uid-" + name), Namespace: "team-b", Name: name, Wants: wants}
}

func at(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
