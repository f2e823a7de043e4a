// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

// maxHandled bounds what a status repeats of an annotation, in characters.
const maxHandled = 1024

// syncMemory is what this process knows of a sync. Its times are those of the status, which may be behind. One pass at a time uses it.
type syncMemory struct {
	// last, success and next are when records were asked for, were last got, and are asked for again after a failure; failures is
	// how many there were in a row, and handled the value of the annotation fetch-now that was heeded.
	last, success, next time.Time
	failures            int
	handled             string
	// reason and message say why the last fetch failed; empty where another process knew that.
	reason, message string
	// fingerprint is that of the spec that the last fetch went by.
	fingerprint string
	// fetched is what the last good fetch of this process came to, nil before that one, and version the source's name for it. applied
	// says that it is given.
	fetched *extsync.Projection
	version string
	applied bool
	// given is what collectors were last decided to get, nil before the first decision of this process.
	given extsync.Claims
	// begin is when the next fetch from a target may begin.
	begin  time.Time
	target string
	// counted is when the status last told of other numbers than before.
	counted time.Time
}

// restful are the reasons of a pass that does not fetch although the spec may have changed since the last one that did.
var restful = []string{fleetmanagementv1alpha1.ReasonSuspended, fleetmanagementv1alpha1.ReasonRateLimited}

// correct moves times that are yet to come to now: the clock was wrong when they were noted, and nothing would be fetched until it
// says the same again. interval is that of the schedule.
func (m *syncMemory) correct(now time.Time, interval time.Duration) {
	if ahead := m.last.Sub(now); ahead > 0 {
		m.last, m.next = now.Truncate(time.Second), m.next.Add(-ahead)
	}
	if m.success.After(m.last) {
		m.success = m.last
	}
	if latest := now.Add(max(interval, maxAskedWait)); m.next.After(latest) {
		m.next = latest.Truncate(time.Second)
	}
}

// memories holds what this process knows of syncs, by their UID. The zero value is ready.
type memories struct {
	mu   sync.Mutex
	byID map[types.UID]*syncMemory
}

// of returns what is known of a sync: at first, what its status tells.
func (m *memories) of(o *fleetmanagementv1alpha1.ExternalAttributeSync) *syncMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byID[o.UID]; known != nil {
		return known
	}
	told := &syncMemory{
		last: timeOf(o.Status.LastSyncTime), success: timeOf(o.Status.LastSuccessTime), next: timeOf(o.Status.NextSyncTime),
		failures: int(o.Status.Failures), handled: o.Status.HandledFetchNow,
	}
	if judged := meta.FindStatusCondition(o.Status.Conditions, fleetmanagementv1alpha1.ConditionSynced); judged != nil &&
		judged.ObservedGeneration == o.Generation && !slices.Contains(restful, judged.Reason) {
		told.fingerprint = extsync.Fingerprint(o.Spec)
	}
	if m.byID == nil {
		m.byID = map[types.UID]*syncMemory{}
	}
	m.byID[o.UID] = told
	return told
}

func (m *memories) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byID, uid)
}

// show writes the times into the status.
func (p *syncPass) show() {
	m, status := p.memory, &p.Status
	status.LastSyncTime, status.LastSuccessTime, status.NextSyncTime = stored(m.last), stored(m.success), nil
	if !p.Spec.Suspend {
		status.NextSyncTime = stored(p.next())
	}
	status.Failures, status.HandledFetchNow = int32(m.failures), m.handled //nolint:gosec // a failure takes at least half a minute
	if m.fetched != nil {
		status.RecordsSeen, status.Duplicates = int32(m.fetched.Records), int32(m.fetched.Duplicates) //nolint:gosec // bounded by source.MaxRecords
	}
	switch mode := p.dryRun(); {
	case mode == "":
		status.Sample = nil
	case m.fetched != nil && mode == fleetmanagementv1alpha1.DryRunRedacted:
		status.Sample = extsync.Redacted(m.fetched.Sample)
	case m.fetched != nil:
		status.Sample = extsync.Shown(m.fetched.Sample)
	}
}

// dryRun is how a sample is shown instead of anything being given: "true" or DryRunRedacted; empty for no dry run. A value that means
// nothing may be there to keep anything from being given.
func (p *syncPass) dryRun() string {
	switch mode, set := p.Annotations[fleetmanagementv1alpha1.AnnotationDryRun]; {
	case !set, mode == "false":
		return ""
	case mode == enabledValue:
		return mode
	default:
		return fleetmanagementv1alpha1.DryRunRedacted
	}
}

// unclear says that the annotation of a dry run has a value that means nothing.
func (p *syncPass) unclear() error {
	return pipelines.CheckAnnotation(p, fleetmanagementv1alpha1.AnnotationDryRun, extsync.DryRuns...)
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
