// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

// Action is what is to be done.
type Action int

// Actions.
const (
	// Keep writes nothing: all stands as it is wanted, or differs in a way that is to be ignored.
	Keep Action = iota
	// Create writes a new pipeline.
	Create
	// Update writes a pipeline by its ID.
	Update
	// StepAside gives up a name by an Update, for another object that waits for it and has the name that is wanted here.
	StepAside
	// Refuse writes nothing, since the name is not the object's to take.
	Refuse
	// Leave writes nothing although the pipeline differs.
	Leave
)

// Live is what Fleet Management holds.
type Live interface {
	Get(id string) (fleetclient.Pipeline, bool)
	Named(name string) []fleetclient.Pipeline
}

// Holder is an object of this cluster that stands for a pipeline.
type Holder struct {
	UID             types.UID
	Namespace, Name string
	// Wants is the name that it wants its pipeline to have; empty while it writes none.
	Wants string
}

// Input is all that a decision rests on.
type Input struct {
	// Want is the Desired of the object.
	Want       fleetclient.Pipeline
	Owner      Owner
	Generation int64
	Status     fleetmanagementv1alpha1.PipelineStatus
	// Discovered is the ID of the pipeline that a discovery made the object of; empty for none.
	Discovered string
	Adoption   fleetmanagementv1alpha1.AdoptionPolicy
	Drift      fleetmanagementv1alpha1.DriftPolicy
	// Poll is the time between two looks at what Fleet Management holds.
	Poll time.Duration
	Now  time.Time
	Live Live
	// Stamped are the pipelines that carry the object's stamp.
	Stamped []fleetclient.Pipeline
	// HolderOf returns the object of this cluster that stands for a pipeline: by the UID of its stamp, or by the ID in the object's
	// status where there is no stamp.
	HolderOf func(fleetclient.Pipeline) (Holder, bool)
}

// Decision is what is to be done about a pipeline.
type Decision struct {
	Action Action
	// Reason is the reason of the event of a write, and of the condition of Refuse and Leave.
	Reason string
	// Message says in a sentence what Reason stands for. It names fields and owners, never contents.
	Message string
	// Write is the pipeline to write, with its ID for an Update or StepAside.
	Write fleetclient.Pipeline
	// Live is the object's pipeline as it stands; nil for none.
	Live *fleetclient.Pipeline
	// Adopted is whether the pipeline that is written existed before the object.
	Adopted bool
	// Strays are IDs of further pipelines that carry the object's stamp, such as after a crash in the middle of a rename.
	Strays []string
	// Fields are those in which somebody else changed the pipeline.
	Fields []string
	// Drift is what status.drift becomes.
	Drift *fleetmanagementv1alpha1.PipelineDrift
	// After is when to look again; zero for the next event.
	After time.Duration
}

// Decide returns what is to be done about a pipeline.
func Decide(in Input) Decision {
	ours := in.ours()
	d := Decision{Drift: in.Status.Drift}
	for _, other := range ours[min(1, len(ours)):] {
		d.Strays = append(d.Strays, other.ID)
	}
	if len(ours) > 0 {
		d.Live = &ours[0]
		return in.standing(d)
	}
	if taken, exists := in.Live.Get(in.Status.ID); exists {
		if claim := in.claim(taken); claim.other != "" {
			// It is the ID that both have: another name would mend nothing.
			claim.remedy = strings.Replace(claim.remedy, "choose another spec.name, or delete that", "delete this object, or that", 1)
			return d.refuse(fleetmanagementv1alpha1.ReasonOwnedByOther, fmt.Sprintf("Pipeline %s %s.", taken.ID, claim))
		}
	}
	if holders := in.Live.Named(in.Want.Name); len(holders) > 0 {
		return in.named(d, holders[0])
	}
	if in.Status.ID != "" && in.applied() {
		return in.missing(d)
	}
	return in.write(d, Create, fleetmanagementv1alpha1.EventCreated, fmt.Sprintf("Created the pipeline %q.", in.Want.Name))
}

// standing decides about a pipeline that is the object's.
func (in Input) standing(d Decision) Decision {
	fields := Diff(in.Want, *d.Live)
	if len(fields) == 0 {
		return d
	}
	drifted := in.applied()
	if drifted && in.Drift == fleetmanagementv1alpha1.DriftIgnore {
		return d
	}
	if d.Live.Name != in.Want.Name && (!drifted || in.Drift != fleetmanagementv1alpha1.DriftWarn) {
		if taken, is := in.taken(*d.Live); is {
			return in.contest(d, taken)
		}
	}
	switch {
	case drifted:
		return in.drift(d, fields, fleetmanagementv1alpha1.ReasonRemoteModified)
	case d.Live.Name != in.Want.Name:
		return in.write(d, Update, fleetmanagementv1alpha1.EventRenamed, fmt.Sprintf("Renamed the pipeline from %q to %q.", d.Live.Name, in.Want.Name))
	default:
		return in.write(d, Update, fleetmanagementv1alpha1.EventUpdated, fmt.Sprintf("Updated the pipeline: %s.", strings.Join(fields, ", ")))
	}
}

// drift decides about fields that somebody else changed.
func (in Input) drift(d Decision, fields []string, reason string) Decision {
	d.Fields = fields
	if in.Drift == fleetmanagementv1alpha1.DriftWarn {
		d.Drift = in.noted(fields, false, in.isDrifted(reason))
		return d.leave(reason, fmt.Sprintf("Somebody else changed the pipeline: %s. The drift policy is Warn, so that it stays.", strings.Join(fields, ", ")))
	}
	if until := in.contended(); !until.IsZero() {
		d.Drift = in.noted(fields, false, wasContended(in.Status))
		d.After = until.Sub(in.Now)
		return d.leave(fleetmanagementv1alpha1.ReasonContended, fmt.Sprintf(
			"Somebody undoes each correction of %s: look for another tool that manages this pipeline. The next correction is due at %s.",
			strings.Join(fields, ", "), until.UTC().Format(time.RFC3339)))
	}
	d.Drift = in.noted(fields, true, false)
	return in.write(d, Update, fleetmanagementv1alpha1.EventDriftCorrected, fmt.Sprintf("Corrected what somebody else had changed: %s.", strings.Join(fields, ", ")))
}

// missing decides about a pipeline that somebody else deleted.
func (in Input) missing(d Decision) Decision {
	gone := fmt.Sprintf("Somebody deleted the pipeline %q, and the drift policy is %s: delete the object, or set spec.driftPolicy to Correct", in.Want.Name, in.Drift)
	switch in.Drift {
	case fleetmanagementv1alpha1.DriftIgnore:
		return d.leave(fleetmanagementv1alpha1.ReasonRemoteDeleted, gone+".")
	case fleetmanagementv1alpha1.DriftWarn:
		d.Fields = []string{fieldAll}
		d.Drift = in.noted(d.Fields, false, in.isDrifted(fleetmanagementv1alpha1.ReasonRemoteDeleted))
		return d.leave(fleetmanagementv1alpha1.ReasonRemoteDeleted, gone+".")
	default:
		d = in.drift(d, []string{fieldAll}, fleetmanagementv1alpha1.ReasonRemoteDeleted)
		if d.Action == Update {
			return in.write(d, Create, fleetmanagementv1alpha1.EventRecreated, fmt.Sprintf("Created the pipeline %q again, which somebody had deleted.", in.Want.Name))
		}
		return d
	}
}

// named decides about a pipeline that has the wanted name while the object has none.
func (in Input) named(d Decision, live fleetclient.Pipeline) Decision {
	if claim := in.claim(live); claim.other != "" {
		return d.refuse(fleetmanagementv1alpha1.ReasonOwnedByOther, fmt.Sprintf("A pipeline named %q exists and %s.", live.Name, claim))
	}
	fields := Diff(in.Want, live)
	d.Live = &live
	rebind := in.Status.ID != "" && (in.Status.SyncedName == "" || in.Status.SyncedName == live.Name)
	switch {
	case in.Adoption == fleetmanagementv1alpha1.AdoptNever:
		return d.nameInUse(in.Want.Name, "spec.adoptionPolicy is Never: choose another spec.name, or set spec.adoptionPolicy to Always")
	case rebind && in.Drift != fleetmanagementv1alpha1.DriftCorrect && in.applied():
		in.Want = live
		fallthrough
	case rebind:
		return in.write(d, Update, fleetmanagementv1alpha1.EventRebound, fmt.Sprintf(
			"Somebody deleted the pipeline %q and created it again: the object stands for %s now.", live.Name, live.ID))
	case in.Adoption == fleetmanagementv1alpha1.AdoptAlways || len(fields) == 0:
		return in.write(d, Update, fleetmanagementv1alpha1.EventAdopted, fmt.Sprintf("Took over the pipeline %q, which existed before.", live.Name))
	default:
		return d.nameInUse(in.Want.Name, "it differs in "+strings.Join(fields, ", ")+": make it equal, choose another spec.name, or set spec.adoptionPolicy to Always")
	}
}

// taken returns another pipeline that has the name which is wanted.
func (in Input) taken(own fleetclient.Pipeline) (fleetclient.Pipeline, bool) {
	for _, other := range in.Live.Named(in.Want.Name) {
		if other.ID != own.ID {
			return other, true
		}
	}
	return fleetclient.Pipeline{}, false
}

// contest decides about a rename to a name that another pipeline has.
func (in Input) contest(d Decision, taken fleetclient.Pipeline) Decision {
	claim := in.claim(taken)
	if claim.other == "" {
		return d.nameInUse(in.Want.Name, "a rename takes over no other pipeline: choose another spec.name, or delete that pipeline in Grafana")
	}
	if claim.holder == nil || !in.waitsForUs(*claim.holder, d.Live.Name) {
		return d.refuse(fleetmanagementv1alpha1.ReasonOwnedByOther, fmt.Sprintf("A pipeline named %q exists and %s.", taken.Name, claim))
	}
	d = in.write(d, StepAside, fleetmanagementv1alpha1.ReasonOwnedByOther, fmt.Sprintf(
		"Waits for the name %q, which %s/%s is about to give up.", in.Want.Name, claim.holder.Namespace, claim.holder.Name))
	d.Write.Name = in.Want.Name + "~" + string(in.Owner.UID)[:min(8, len(in.Owner.UID))]
	return d
}

// waitsForUs reports whether an object, or one that it waits for in turn, wants the name that ours has.
func (in Input) waitsForUs(holder Holder, ourName string) bool {
	const longestCycle = 100
	for range longestCycle {
		if holder.Wants == "" {
			return false
		}
		if holder.Wants == ourName {
			return true
		}
		holders := in.Live.Named(holder.Wants)
		if len(holders) == 0 {
			return false
		}
		next, exists := in.HolderOf(holders[0])
		if !exists || next.UID == holder.UID {
			return false
		}
		holder = next
	}
	return false
}

// ours returns the pipelines that are the object's. The first is the one to go on with: the one of the wanted name, else the one
// that the status knows.
func (in Input) ours() []fleetclient.Pipeline {
	all := slices.Clone(in.Stamped)
	known, exists := in.Live.Get(in.Status.ID)
	if exists && in.claim(known).ours && !slices.ContainsFunc(all, func(p fleetclient.Pipeline) bool { return p.ID == known.ID }) {
		all = append(all, known)
	}
	rank := func(p fleetclient.Pipeline) int {
		switch {
		case p.Name == in.Want.Name:
			return 0
		case p.ID == in.Status.ID:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(all, func(a, b fleetclient.Pipeline) int {
		if by := rank(a) - rank(b); by != 0 {
			return by
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// Belongings returns the pipelines that are the object's to delete, or to leave without its stamp: one that existed before counts
// while it carries the stamp, or when a discovery made the object of it.
func Belongings(in Input) []fleetclient.Pipeline {
	return slices.DeleteFunc(in.ours(), func(p fleetclient.Pipeline) bool {
		_, isStamped := StampOf(p)
		return !isStamped && in.Status.Adopted && p.ID != in.Discovered
	})
}

// claim is whose a pipeline is: ours, somebody else's, or nobody's.
type claim struct {
	ours bool
	// other completes the sentence "The pipeline …", and remedy says what to do then; empty when it is ours or nobody's.
	other, remedy string
	// holder is the object of this cluster that other speaks of; nil where it is none.
	holder *Holder
}

// String returns other and remedy.
func (c claim) String() string { return c.other + ": " + c.remedy }

func (in Input) claim(p fleetclient.Pipeline) claim {
	owner, isStamped := StampOf(p)
	known := p.ID == in.Status.ID
	switch {
	case isStamped && owner.Cluster != in.Owner.Cluster && owner.String() == in.Owner.String():
		return claim{
			other:  fmt.Sprintf("carries the stamp of %s in the cluster %q, while this one is %q", owner, owner.Cluster, in.Owner.Cluster),
			remedy: "if this is that cluster, start Candor with its --cluster-id, else choose another spec.name, or delete that object",
		}
	case isStamped && owner.Cluster != in.Owner.Cluster:
		return claim{
			other:  fmt.Sprintf("carries the stamp of %s in the cluster %q", owner, owner.Cluster),
			remedy: "choose another spec.name, or delete that object",
		}
	}
	if isStamped && owner.UID == in.Owner.UID || !isStamped && known {
		return claim{ours: true}
	}
	if holder, exists := in.HolderOf(p); exists && holder.UID != in.Owner.UID {
		return claim{
			other:  fmt.Sprintf("is that of the Pipeline %s/%s", holder.Namespace, holder.Name),
			remedy: "choose another spec.name, or delete that object", holder: &holder,
		}
	}
	if isStamped && owner.String() != in.Owner.String() {
		return claim{
			other:  fmt.Sprintf("carries the stamp of the Pipeline %s, which is gone", owner),
			remedy: "choose another spec.name, or delete that pipeline in Grafana",
		}
	}
	return claim{ours: known}
}

// applied reports whether what is wanted was written, or found, before: what differs now was changed by somebody else. An object
// of another operator has no hash; its generation says the same.
func (in Input) applied() bool {
	s := in.Status
	if s.SyncedHash != "" {
		return s.SyncedHash == Hash(in.Want)
	}
	if s.ID == "" || s.ObservedGeneration != in.Generation {
		return false
	}
	live, exists := in.Live.Get(s.ID)
	return !exists || live.Name == in.Want.Name
}

func (in Input) isDrifted(reason string) bool {
	c := meta.FindStatusCondition(in.Status.Conditions, fleetmanagementv1alpha1.ConditionDrifted)
	return c != nil && c.Reason == reason
}

// write completes a decision to write what is wanted, stamped. It keeps the metadata of others.
func (in Input) write(d Decision, action Action, reason, message string) Decision {
	d.Action, d.Reason, d.Message = action, reason, message
	d.Write, d.Adopted = in.Want, false
	var metadata map[string]any
	if action != Create && d.Live != nil {
		d.Write.ID, metadata = d.Live.ID, d.Live.Metadata
		_, isStamped := StampOf(*d.Live)
		// What this object's former life created, or adopted, is so again.
		d.Adopted = in.Status.Adopted || IsAdopted(*d.Live) || reason == fleetmanagementv1alpha1.EventAdopted && !isStamped
	}
	d.Write.Metadata = stamped(metadata, in.Owner, Hash(in.Want), d.Adopted)
	return d
}

func (d Decision) refuse(reason, message string) Decision {
	d.Action, d.Reason, d.Message = Refuse, reason, message
	return d
}

func (d Decision) leave(reason, message string) Decision {
	d.Action, d.Reason, d.Message = Leave, reason, message
	return d
}

func (d Decision) nameInUse(name, because string) Decision {
	return d.refuse(fleetmanagementv1alpha1.ReasonNameInUse, fmt.Sprintf(
		"A pipeline named %q exists that is not this object's. It is not taken over, since %s.", name, because))
}
