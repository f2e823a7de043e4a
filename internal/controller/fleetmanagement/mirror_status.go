// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	// maxToldIDs is how many IDs a list in the status holds, and maxToldID the longest one.
	maxToldIDs = 100
	maxToldID  = 512
	// maxConflictEvents is how many events of conflicts one pass records.
	maxConflictEvents = 10
	// heldIDsTold is how many IDs a message names of those that are held back.
	heldIDsTold = 3
	// syncTimeSlack is how far status.lastSyncTime may lag behind before it alone is worth a write.
	syncTimeSlack = 30 * time.Minute
)

// findings is what a status tells of a pass.
type findings struct {
	observed, managed, outOfScope int
	stale                         []string
	staleTotal                    int
	conflicts                     []mirror.Conflict
	conflictsTotal                int
	lastSync, lastSuccess         *metav1.Time
}

// conclude writes what a pass found into the status, and judges it.
func (p *mirrorPass[D, T]) conclude(plan mirror.Plan, done applied) (lifecycle.Outcome, error) {
	if done.err == nil && done.more {
		p.queue.add(client.ObjectKeyFromObject(p.d))
		return lifecycle.Outcome{}, lifecycle.ErrPending // the status tells of the whole
	}
	if done.err == nil {
		done.err = p.refusals(plan)
	}
	before := p.kind.shown(p.d)
	after := findings{
		observed: plan.Observed, managed: plan.Managed + done.created, outOfScope: plan.OutOfScope,
		stale: told(plan.StaleIDs), staleTotal: len(plan.StaleIDs),
		conflicts: toldConflicts(plan.Conflicts), conflictsTotal: len(plan.Conflicts),
		lastSync: before.lastSync, lastSuccess: before.lastSuccess,
	}
	suspended := p.noteSuspended(plan.Suspended)
	truncated := p.noteTruncated(after)
	well := done.err == nil && plan.Suspended == nil
	if suspended || truncated || !reflect.DeepEqual(before, after) || p.isDue(before, well) {
		now := metav1.NewTime(p.Clock.Now().Truncate(time.Second))
		after.lastSync = &now
		if well {
			after.lastSuccess = &now
		}
	}
	p.kind.show(p.d, after)
	if done.err != nil {
		p.sayConflicts(before, after)
		return lifecycle.Outcome{}, done.err
	}
	return p.outcome(plan, func() { p.sayConflicts(before, after) }), nil
}

// isDue says that the times of the status have to move although nothing else does.
func (p *mirrorPass[D, T]) isDue(before findings, well bool) bool {
	wasWell := meta.IsStatusConditionTrue(*p.d.StatusConditions(), fleetmanagementv1alpha1.ConditionSynced)
	return well != wasWell || before.lastSync == nil || p.Clock.Since(before.lastSync.Time) >= syncTimeSlack
}

func (p *mirrorPass[D, T]) outcome(plan mirror.Plan, then func()) lifecycle.Outcome {
	words := p.kind.words()
	if held := plan.Suspended; held != nil {
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonRemovalSuspended, Status: metav1.ConditionFalse, Message: p.heldMessage(*held), PollAfter: p.spec.poll, Then: then,
		}
	}
	made := plan.Managed + len(plan.Create)
	message := fmt.Sprintf("%d of %s in scope have a %s of this discovery.", made, count(plan.Observed, words.thing), words.object)
	if len(plan.Conflicts) > 0 {
		message += fmt.Sprintf(" See status.conflicts for %s.", count(len(plan.Conflicts), "conflict"))
	}
	return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonSynced, Message: message, PollAfter: p.spec.poll, Then: then}
}

// heldMessage says what is held back, and what to do.
func (p *mirrorPass[D, T]) heldMessage(s mirror.Suspension) string {
	words, other := p.kind.words(), ""
	if word := p.d.GetAnnotations()[fleetmanagementv1alpha1.AnnotationApproveRemoval]; word != "" {
		other = notThis(word) + " "
	}
	return fmt.Sprintf("Fleet Management no longer lists %d of the %ss of this discovery's %d %ss (%s): so many at once are neither deleted nor marked. %s"+
		"If that is right, set the annotation %s to %q; otherwise nothing is to be done, and it ends when they are back.",
		len(s.IDs), words.thing, s.Known, words.object, firstOf(s.IDs, heldIDsTold), other, fleetmanagementv1alpha1.AnnotationApproveRemoval, s.Word)
}

// noteSuspended sets or removes RemovalSuspended, and reports whether that changed something.
func (p *mirrorPass[D, T]) noteSuspended(s *mirror.Suspension) bool {
	if s == nil {
		was := meta.FindStatusCondition(*p.d.StatusConditions(), fleetmanagementv1alpha1.ConditionRemovalSuspended) != nil
		lifecycle.RemoveCondition(p.d, fleetmanagementv1alpha1.ConditionRemovalSuspended)
		return was
	}
	return lifecycle.SetCondition(p.d, p.Clock.Now(), metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionRemovalSuspended, Status: metav1.ConditionTrue,
		Reason: fleetmanagementv1alpha1.ReasonRemovalSuspended, Message: p.heldMessage(*s),
	})
}

func (p *mirrorPass[D, T]) noteTruncated(f findings) bool {
	c := metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionTruncatedConflicts, Status: metav1.ConditionFalse,
		Reason: fleetmanagementv1alpha1.ReasonNoConflictsTruncated, Message: "status.conflicts holds all of them.",
	}
	if len(f.conflicts) < f.conflictsTotal {
		c.Status, c.Reason = metav1.ConditionTrue, p.kind.words().truncated
		c.Message = fmt.Sprintf("status.conflicts holds the first %d of %d.", len(f.conflicts), f.conflictsTotal)
	}
	return lifecycle.SetCondition(p.d, p.Clock.Now(), c)
}

// sayConflicts records an event for each conflict that the status did not tell before, up to a bound.
func (p *mirrorPass[D, T]) sayConflicts(before, after findings) {
	known := make(map[string]bool, len(before.conflicts))
	for _, c := range before.conflicts {
		known[c.ID] = true
	}
	said := 0
	for _, c := range after.conflicts {
		if known[c.ID] {
			continue
		}
		if said++; said > maxConflictEvents {
			return
		}
		p.sayConflict(c)
	}
}

// sayConflict records an event that names the object in the way, without which all of them would count as the same event.
func (p *mirrorPass[D, T]) sayConflict(c mirror.Conflict) {
	var inTheWay runtime.Object
	if ref := p.refs[c.Name]; ref != nil {
		inTheWay = ref
	}
	reason := p.kind.words().inTheWay
	p.Recorder.Eventf(p.d, inTheWay, corev1.EventTypeWarning, reason, reason, "%s", p.conflictMessage(c))
}

func (p *mirrorPass[D, T]) conflictMessage(c mirror.Conflict) string {
	words := p.kind.words()
	switch c.Reason {
	case fleetmanagementv1alpha1.ConflictOwnedByOther:
		return fmt.Sprintf("The %s %s/%s, which another discovery made, stands for %s %s or has its name: it is left alone.", words.object, p.spec.namespace, c.Name, words.thing, c.ID)
	case fleetmanagementv1alpha1.ConflictNotOwned:
		return fmt.Sprintf("The %s %s/%s, which no discovery made, stands for %s %s or has its name: it is left alone.", words.object, p.spec.namespace, c.Name, words.thing, c.ID)
	default:
		return fmt.Sprintf("No name for a %s can be made of %s %s.", words.object, words.thing, c.ID)
	}
}

// told returns the IDs that a list of the status holds.
func told(ids []string) []string {
	all := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return len(id) > maxToldID })
	if len(all) == 0 {
		return nil
	}
	return all[:min(len(all), maxToldIDs)]
}

func toldConflicts(conflicts []mirror.Conflict) []mirror.Conflict {
	all := slices.DeleteFunc(slices.Clone(conflicts), func(c mirror.Conflict) bool { return len(c.ID) > maxToldID })
	if len(all) == 0 {
		return nil
	}
	return all[:min(len(all), maxToldIDs)]
}

// firstOf lists the first of names, and says how many more there are.
func firstOf(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}
