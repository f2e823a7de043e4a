// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// maxWord bounds what is told of a word that a person set, in bytes.
const maxWord = 32

// conclude says how a sync stands. What was fetched is given once that is stored.
func (s *ExternalSyncSyncer) conclude(ctx context.Context, p *syncPass) (lifecycle.Outcome, error) {
	p.setStalled()
	m := p.memory
	if !p.apply {
		s.settle(ctx, p)
	}
	if m.failures > 0 && !p.Spec.Suspend {
		return lifecycle.Outcome{}, p.failure()
	}
	if (m.last.IsZero() || m.fingerprint != p.fingerprint) && !p.Spec.Suspend {
		return lifecycle.Outcome{}, &fault.Fault{
			Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonRateLimited, After: p.pollAfter(), Unclear: true,
			Err: errors.New("others ask the same server or database: the first fetch of this spec comes when --controller-sync-target-rate lets it"),
		}
	}
	outcome := p.outcome()
	outcome.PollAfter = p.pollAfter()
	outcome.Then = func() {
		if p.apply {
			s.Claims.Put(p.UID, m.fetched.Claims)
			m.applied = true
			s.settle(ctx, p)
		}
		if p.looked && !p.hadDuplicates && m.fetched.Duplicates > 0 {
			lifecycle.Announce(s.Recorder, p.ExternalAttributeSync, warning, fleetmanagementv1alpha1.ReasonDuplicateRecords, fmt.Sprintf(
				"%s a collector that an earlier one names, such as %q.", recordsName(m.fetched.Duplicates), m.fetched.DuplicateIDs))
		}
	}
	return outcome, nil
}

// reasonsOfFetches are those of a fetch that fails.
var reasonsOfFetches = []string{
	fleetmanagementv1alpha1.ReasonSourceFailed, fleetmanagementv1alpha1.ReasonSecretUnreadable, fleetmanagementv1alpha1.ReasonDuplicateRecords,
}

// failure is the fault of the last fetch, whether this pass made it or not.
func (p *syncPass) failure() error {
	m := p.memory
	if m.message == "" {
		m.reason, m.message = fleetmanagementv1alpha1.ReasonSourceFailed, "The last fetch failed."
		if last := p.verdict(); last != nil && slices.Contains(reasonsOfFetches, last.Reason) {
			m.reason, m.message = last.Reason, last.Message
		}
	}
	return &fault.Fault{Kind: fault.Wait, Reason: m.reason, After: p.pollAfter(), Err: errors.New(m.message)}
}

// outcome is the verdict on a sync whose last fetch went well.
func (p *syncPass) outcome() lifecycle.Outcome {
	last, stalled, m := p.verdict(), p.stalled(), p.memory
	kept := func(reason string) bool {
		return m.fetched == nil && !p.counted && last != nil && last.Reason == reason
	}
	switch dry := p.dryRun() != ""; {
	case p.Spec.Suspend:
		return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonSuspended, Message: "Nothing is fetched while spec.suspend is set. What was given stays."}
	case p.unclear() != nil:
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonValidationError, Status: metav1.ConditionFalse,
			Message: p.unclear().Error() + ". " + p.dryMessage(),
		}
	case !dry && p.held:
		return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonStalled, Message: p.heldMessage(), Status: metav1.ConditionFalse}
	case !dry && m.fetched == nil && stalled != nil:
		// Another process held it back.
		return lifecycle.Outcome{Reason: stalled.Reason, Message: stalled.Message, Status: metav1.ConditionFalse}
	case dry && kept(fleetmanagementv1alpha1.ReasonDryRun), !dry && (kept(fleetmanagementv1alpha1.ReasonSynced) || kept(fleetmanagementv1alpha1.ReasonNoMatch)):
		return lifecycle.Outcome{Reason: last.Reason, Message: last.Message, Status: last.Status}
	case dry:
		return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonDryRun, Message: p.dryMessage()}
	case m.fetched != nil && !m.applied && !p.apply:
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonSynced, Status: metav1.ConditionUnknown, Silent: true,
			Message: fmt.Sprintf("Got %s. They are given once it is known which collectors there are.", count(m.fetched.Records, "record")),
		}
	case p.Status.RecordsSeen > 0 && p.Status.RecordsApplied == 0:
		message := fmt.Sprintf("None of %s gives a Collector anything. %s", count(int(p.Status.RecordsSeen), "record"), p.cause())
		return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonNoMatch, Message: p.withProblems(message), Status: metav1.ConditionFalse}
	default:
		return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonSynced, Message: p.syncedMessage()}
	}
}

// verdict is what the last pass said; nil before the first one.
func (p *syncPass) verdict() *metav1.Condition {
	return meta.FindStatusCondition(p.Status.Conditions, fleetmanagementv1alpha1.ConditionSynced)
}

// stalled is the condition that says that what was fetched is held back; nil if it does not.
func (p *syncPass) stalled() *metav1.Condition {
	c := meta.FindStatusCondition(p.Status.Conditions, fleetmanagementv1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != fleetmanagementv1alpha1.ReasonStalled {
		return nil
	}
	return c
}

func (p *syncPass) syncedMessage() string {
	status := &p.Status
	message := fmt.Sprintf("%s for %s, from %s.", count(int(status.AttributesApplied), "attribute"),
		count(int(status.RecordsApplied), "collector"), count(int(status.RecordsSeen), "record"))
	if status.RecordsSeen == 0 {
		message = "The source has no records: nothing is given."
	}
	return p.withProblems(message)
}

func (p *syncPass) dryMessage() string {
	message := "Dry run: what is fetched is not given, and what was given stays."
	if p.fresh {
		collectors, attributes := p.wanted().Count()
		message += fmt.Sprintf(" %s would come to %s for %s; status.sample shows what the first few come to.",
			count(p.memory.fetched.Records, "record"), count(attributes, "attribute"), count(collectors, "collector"))
		if collectors == 0 && p.memory.fetched.Records > 0 {
			message += " " + p.cause()
		}
	}
	if p.held {
		message += fmt.Sprintf(" That would be held back, since %s.", p.lossText())
	}
	return p.withProblems(message)
}

func (p *syncPass) heldMessage() string {
	message := fmt.Sprintf("Held back, since %s. What was given stays.", p.lossText())
	if !p.left && (!p.fresh || p.memory.fetched.Records > 0) {
		message += " " + p.cause()
	}
	message = p.withProblems(message)
	if word := p.Annotations[fleetmanagementv1alpha1.AnnotationApproveRemoval]; word != "" {
		message += " " + notThis(word)
	}
	return fmt.Sprintf("%s If that is right, set the annotation %s to %q.", message, fleetmanagementv1alpha1.AnnotationApproveRemoval, p.loss.Word)
}

func (p *syncPass) lossText() string {
	return fmt.Sprintf("%d of %s would lose all attributes, and %d of %s would go, such as of %q: spec.maxShrinkPercent is %d",
		p.loss.LostCollectors, count(p.loss.Collectors, "collector"), p.loss.LostAttributes, count(p.loss.Attributes, "attribute"), p.loss.IDs,
		ptr.Deref(p.Spec.MaxShrinkPercent, extsync.DefaultMaxShrinkPercent))
}

// notThis says that a word lets nothing through.
func notThis(word string) string {
	return fmt.Sprintf("The annotation %s holds another word, %q, which is not for this loss.",
		fleetmanagementv1alpha1.AnnotationApproveRemoval, fault.OneLine(word, maxWord))
}

func (p *syncPass) withProblems(message string) string {
	if p.memory.fetched == nil {
		return message
	}
	return strings.TrimSpace(message + " " + p.memory.fetched.Problems())
}

// setStalled says whether what was fetched is held back. A pass that does not decide leaves what was said.
func (p *syncPass) setStalled() {
	switch {
	case p.held && p.dryRun() == "":
		lifecycle.SetCondition(p.ExternalAttributeSync, p.now, metav1.Condition{
			Type: fleetmanagementv1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: fleetmanagementv1alpha1.ReasonStalled, Message: p.heldMessage(),
		})
	case p.loss != nil && (p.fresh || p.memory.applied):
		lifecycle.RemoveCondition(p.ExternalAttributeSync, fleetmanagementv1alpha1.ConditionStalled)
	}
}

func (p *syncPass) setTruncated(truncated bool, collectors int) {
	c := metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionTruncated, Status: metav1.ConditionFalse, Reason: fleetmanagementv1alpha1.ReasonNotTruncated,
		Message: "status.ownedKeys holds all of them.",
	}
	if truncated {
		c.Status, c.Reason = metav1.ConditionTrue, fleetmanagementv1alpha1.ReasonOwnedKeysTruncated
		c.Message = fmt.Sprintf("status.ownedKeys is empty, since what %s get is more than an object holds. All of them get their attributes.", count(collectors, "collector"))
	}
	lifecycle.SetCondition(p.ExternalAttributeSync, p.now, c)
}

// pollAfter is when there may be something to do.
func (p *syncPass) pollAfter() time.Duration {
	after := p.later
	if p.Spec.Suspend {
		return after
	}
	if next := p.next().Sub(p.now); next > 0 {
		after = sooner(after, next)
	}
	return max(after, time.Second)
}

// sooner is the shorter of two waits, of which zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
