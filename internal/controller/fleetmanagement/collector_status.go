// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	// maxAttributes is how many attributes each field of a status holds.
	maxAttributes = 256
	// maxNamed is how many keys a message names.
	maxNamed = 10
	// maxNameLength and maxTypeLength bound what is shown of a collector, in characters.
	maxNameLength, maxTypeLength = 1024, 64
)

// conclude writes what stands into the status, and says how it stands.
func (s *CollectorSyncer) conclude(c *fleetmanagementv1alpha1.Collector, live fleetclient.Collector, st step, now attempt) lifecycle.Outcome {
	ties := decidedNow(c, st)
	show(c, live, st)
	invalid := invalidOf(st)
	changed := s.showInvalid(c, invalid)
	outcome := outcomeOf(c, st, len(invalid))
	if next := st.retryAt(); !next.IsZero() {
		outcome.PollAfter = next.Sub(s.Clock.Now())
	}
	id, uid := c.Spec.ID, c.UID
	outcome.Then = func() {
		s.announce(c, now, ties)
		if changed {
			lifecycle.Announce(s.Recorder, c, warning, fleetmanagementv1alpha1.ReasonAttributesRefused, list(invalid))
		}
		s.attempts.end(id, uid)
	}
	return outcome
}

// retryAt is when something that Fleet Management refused is asked for again; zero for never.
func (s step) retryAt() (next time.Time) {
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, r := range s.refused {
		sooner(r.until)
	}
	if s.misnamed != nil {
		sooner(s.misnamed.until)
	}
	return next
}

func outcomeOf(c *fleetmanagementv1alpha1.Collector, st step, invalid int) lifecycle.Outcome {
	if st.failed(c) {
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonAttributeConflict, Status: metav1.ConditionFalse, Message: fmt.Sprintf(
				"Somebody else set %s, so that nothing was changed: let them go in Fleet Management, or set spec.conflictPolicy to Overwrite or Skip.",
				list(st.Conflicts)),
		}
	}
	if st.forbidden != "" {
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonTenantForbidden, Status: metav1.ConditionFalse, Message: "Nothing is given. " + st.forbidden,
		}
	}
	given := slices.DeleteFunc(slices.Clone(st.Owners), func(o fleetmanagementv1alpha1.AttributeOwner) bool {
		return slices.ContainsFunc(st.refused, func(r refusedOp) bool { return r.op.Key == o.Key })
	})
	stand := count(len(given), "remote attribute") + " as asked for."
	if st.misnamed != nil {
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonValidationError, Status: metav1.ConditionFalse,
			Message: fmt.Sprintf("%s spec.name and spec.enabled cannot be given: %s", stand, st.misnamed.reason),
		}
	}
	if invalid > 0 {
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonValidationError, Status: metav1.ConditionFalse,
			Message: fmt.Sprintf("%s %d more cannot be given: AttributesInvalid says which and why.", stand, invalid),
		}
	}
	if len(st.Conflicts) > 0 {
		stand += fmt.Sprintf(" Left as somebody else set them: %s.", list(st.Conflicts))
	}
	return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonSynced, Message: stand}
}

// show writes what Fleet Management tells into the status. When it was last heard of the collector is no news by itself.
func show(c *fleetmanagementv1alpha1.Collector, live fleetclient.Collector, st step) {
	before := c.Status.DeepCopy()
	status := &c.Status
	status.Registered, status.Name, status.Enabled = true, cut(live.Name, maxNameLength), live.Enabled
	status.CollectorType, status.LocalAttributes = cut(live.Type, maxTypeLength), some(live.LocalAttributes)
	status.CreatedAt, status.MarkedInactiveAt = stored(live.CreatedAt), stored(live.MarkedInactiveAt)
	status.AttributeOwners = st.Owners
	others := maps.Clone(live.RemoteAttributes)
	for _, owner := range st.Owners {
		delete(others, owner.Key)
	}
	status.OtherRemoteAttributes = some(others)
	effective := st.want.Desired()
	for _, r := range st.refused {
		delete(effective, r.op.Key)
	}
	status.EffectiveRemoteAttributes = some(effective)
	if !equality.Semantic.DeepEqual(before, status) || pingLags(before.LastPing, live.UpdatedAt) {
		status.LastPing, status.UpdatedAt = stored(live.UpdatedAt), stored(live.UpdatedAt)
	}
}

// invalidOf says of each attribute that cannot be given why. No value is told.
func invalidOf(st step) []string {
	var invalid []string
	for _, r := range st.want.Refused {
		invalid = append(invalid, fmt.Sprintf("%s of %s %s: %s", quote(r.Key), r.Kind, r.Name, r.Reason))
	}
	for _, r := range st.refused {
		invalid = append(invalid, fmt.Sprintf("%s: Fleet Management refuses it: %s", quote(r.op.Key), r.reason))
	}
	return invalid
}

// showInvalid writes which attributes cannot be given, and reports whether that is news.
func (s *CollectorSyncer) showInvalid(c *fleetmanagementv1alpha1.Collector, invalid []string) bool {
	if len(invalid) == 0 {
		lifecycle.RemoveCondition(c, fleetmanagementv1alpha1.ConditionAttributesInvalid)
		return false
	}
	return lifecycle.SetCondition(c, s.Clock.Now(), metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionAttributesInvalid, Status: metav1.ConditionTrue,
		Reason: fleetmanagementv1alpha1.ReasonAttributesRefused, Message: "Not given: " + list(invalid) + ".",
	})
}

// decidedNow says of which keys a tie decides anew.
func decidedNow(c *fleetmanagementv1alpha1.Collector, st step) []string {
	var ties []string
	for _, tie := range st.want.Ties {
		decided := slices.ContainsFunc(c.Status.AttributeOwners, func(o fleetmanagementv1alpha1.AttributeOwner) bool {
			return o.Key == tie.Key && o.OwnerKind == tie.Kind && o.OwnerName == tie.Winner
		})
		if !decided {
			ties = append(ties, fmt.Sprintf("%s: that of %s %s is taken, not that of %s", quote(tie.Key), tie.Kind, tie.Winner, strings.Join(tie.Others, ", ")))
		}
	}
	return ties
}

// announce tells what was done to the collector, once it stands in the status.
func (s *CollectorSyncer) announce(c *fleetmanagementv1alpha1.Collector, now attempt, ties []string) {
	if now.changed > 0 {
		lifecycle.Announce(s.Recorder, c, normal, fleetmanagementv1alpha1.EventAttributesUpdated, fmt.Sprintf("Changed %s.", count(now.changed, "remote attribute")))
	}
	if len(now.overwritten) > 0 {
		lifecycle.Announce(s.Recorder, c, warning, fleetmanagementv1alpha1.EventAttributeTakenOver, fmt.Sprintf("Overwrote what somebody else had set: %s.", list(now.overwritten)))
	}
	if len(ties) > 0 {
		lifecycle.Announce(s.Recorder, c, warning, fleetmanagementv1alpha1.EventPriorityTie, fmt.Sprintf(
			"Objects of equal standing give different values: %s. Of policies the higher spec.priority wins, of ExternalAttributeSyncs the first by name.", list(ties)))
	}
}

// list names the first few of many.
func list(all []string) string {
	if len(all) <= maxNamed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), len(all)-maxNamed)
}

// quote shows a key of any length and content.
func quote(key string) string { return fmt.Sprintf("%q", cut(key, 100)) }

func cut(text string, characters int) string {
	if runes := []rune(text); len(runes) > characters {
		return string(runes[:characters])
	}
	return text
}

// some returns as many attributes as a status takes, the first ones by key; nil for none.
func some(all map[string]string) map[string]string {
	switch {
	case len(all) == 0:
		return nil
	case len(all) <= maxAttributes:
		return all
	}
	first := make(map[string]string, maxAttributes)
	for _, key := range slices.Sorted(maps.Keys(all))[:maxAttributes] {
		first[key] = all[key]
	}
	return first
}
