// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=remoteattributepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=remoteattributepolicies/status,verbs=update

// maxMatchedIDs is how many IDs status.matchedCollectorIDs holds.
const maxMatchedIDs = 1000

// PolicySyncer says which collectors a RemoteAttributePolicy concerns. That they get its attributes is the collector controller's
// doing: this one never calls Fleet Management.
type PolicySyncer struct {
	// Client reads from a cache.
	Client    client.Reader
	Selectors *Selectors
	// Known says why it is not known yet which collectors there are; nil if nobody asks.
	Known func() error
	// Tenancy says what may be asked for where; nil allows all.
	Tenancy *Tenancy
	Clock   clock.PassiveClock
	Metrics *Metrics
}

// Settled implements lifecycle.Settler: whom it concerns changes with the Collectors.
func (s *PolicySyncer) Settled(*fleetmanagementv1alpha1.RemoteAttributePolicy) (time.Duration, bool) {
	return 0, false
}

// Sync implements lifecycle.Syncer. The verdict is Ready's; Synced differs from it where nothing matches, which is no failure.
func (s *PolicySyncer) Sync(ctx context.Context, p *fleetmanagementv1alpha1.RemoteAttributePolicy) (lifecycle.Outcome, error) {
	ids, err := s.match(ctx, p)
	if err != nil {
		f := fault.Of(err, fleetmanagementv1alpha1.ReasonListFailed)
		s.setSynced(p, metav1.ConditionFalse, f.Reason, err.Error())
		return lifecycle.Outcome{}, err
	}
	p.Status.MatchedCount = int32(len(ids)) //nolint:gosec // the objects of a cluster do not reach 2^31
	s.setTruncated(p, len(ids))
	p.Status.MatchedCollectorIDs = ids[:min(len(ids), maxMatchedIDs)]
	if outcome, forbids, err := s.forbidden(ctx, p); err != nil || forbids {
		return outcome, err
	}
	if len(ids) == 0 {
		if outcome, waits := s.waiting(p); waits {
			return outcome, nil
		}
		outcome := lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonNoMatch, Status: metav1.ConditionFalse,
			Message: "No registered Collector of this namespace is meant by the selector: nothing gets these attributes.",
		}
		s.setSynced(p, metav1.ConditionTrue, outcome.Reason, outcome.Message)
		return outcome, nil
	}
	outcome := lifecycle.Outcome{
		Reason: fleetmanagementv1alpha1.ReasonMatched, Message: fmt.Sprintf("Concerns %s.", count(len(ids), "collector")),
	}
	s.setSynced(p, metav1.ConditionTrue, outcome.Reason, outcome.Message)
	return outcome, nil
}

// waiting concludes a pass over a policy that matches none while nobody knows which collectors there are, unless it was known before.
func (s *PolicySyncer) waiting(p *fleetmanagementv1alpha1.RemoteAttributePolicy) (outcome lifecycle.Outcome, waits bool) {
	last := meta.FindStatusCondition(p.Status.Conditions, fleetmanagementv1alpha1.ConditionReady)
	if s.Known == nil || last != nil && last.Reason == fleetmanagementv1alpha1.ReasonNoMatch && last.ObservedGeneration == p.Generation {
		return lifecycle.Outcome{}, false
	}
	err := s.Known()
	if err == nil {
		return lifecycle.Outcome{}, false
	}
	outcome = lifecycle.Outcome{
		Reason: fault.Of(err, fleetmanagementv1alpha1.ReasonListCollectorsFailed).Reason, Status: metav1.ConditionUnknown, Message: err.Error(),
		PollAfter: listedRecheck, Silent: true,
	}
	s.setSynced(p, outcome.Status, outcome.Reason, outcome.Message)
	return outcome, true
}

// forbidden concludes a pass over a policy that the rules of its namespace do not allow.
func (s *PolicySyncer) forbidden(ctx context.Context, p *fleetmanagementv1alpha1.RemoteAttributePolicy) (outcome lifecycle.Outcome, forbids bool, err error) {
	rules, err := s.Tenancy.Rules(ctx, p.Namespace)
	if err != nil {
		s.setSynced(p, metav1.ConditionUnknown, fault.Of(err, fleetmanagementv1alpha1.ReasonListFailed).Reason, err.Error())
		return lifecycle.Outcome{}, false, err
	}
	why := rules.CheckSelector(p.Spec.Selector.Matchers, p.Spec.Selector.CollectorIDs)
	if why == nil {
		return lifecycle.Outcome{}, false, nil
	}
	outcome = lifecycle.Outcome{
		Reason: fleetmanagementv1alpha1.ReasonTenantForbidden, Status: metav1.ConditionFalse, Message: "Nothing gets these attributes. " + why.Error(),
	}
	if rules.Broken() != nil {
		outcome.Message = "Nothing is given, and what was given stays. " + why.Error()
	}
	s.setSynced(p, outcome.Status, outcome.Reason, outcome.Message)
	return outcome, true, nil
}

// match returns the IDs of the collectors that are meant, in order.
func (s *PolicySyncer) match(ctx context.Context, p *fleetmanagementv1alpha1.RemoteAttributePolicy) ([]string, error) {
	compiled, err := s.Selectors.of(p)
	if err != nil {
		return nil, &fault.Fault{
			Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonValidationError, Err: fmt.Errorf("spec.selector cannot be used: %w", err),
		}
	}
	var list fleetmanagementv1alpha1.CollectorList
	if err := s.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, &fault.Fault{
			Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonListFailed, Err: fmt.Errorf("listing the Collectors of %s: %w", p.Namespace, err),
		}
	}
	var ids []string
	for i := range list.Items {
		if c := &list.Items[i]; compiled.meets(factsOf(c)) {
			ids = append(ids, c.Spec.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func (s *PolicySyncer) setSynced(p *fleetmanagementv1alpha1.RemoteAttributePolicy, status metav1.ConditionStatus, reason, message string) {
	lifecycle.SetCondition(p, s.Clock.Now(), metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionSynced, Status: status, Reason: reason, Message: message,
	})
}

func (s *PolicySyncer) setTruncated(p *fleetmanagementv1alpha1.RemoteAttributePolicy, matched int) {
	c := metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionTruncated, Status: metav1.ConditionFalse, Reason: fleetmanagementv1alpha1.ReasonNotTruncated,
		Message: "status.matchedCollectorIDs holds all of them.",
	}
	if matched > maxMatchedIDs {
		c.Status, c.Reason = metav1.ConditionTrue, fleetmanagementv1alpha1.ReasonMatchedIDsTruncated
		c.Message = fmt.Sprintf("status.matchedCollectorIDs holds the first %d of %d. All of them get the attributes.", maxMatchedIDs, matched)
	}
	lifecycle.SetCondition(p, s.Clock.Now(), c)
}

// count says how many there are of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
