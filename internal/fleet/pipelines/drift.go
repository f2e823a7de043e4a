// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const (
	// maxCorrections is how many corrections within a window make the next one wait.
	maxCorrections = 3
	// shortestWindow is the window of polls that come often.
	shortestWindow = 10 * time.Minute
	// contendedPause is how long the next correction waits.
	contendedPause = 15 * time.Minute
)

// window is the time in which corrections are counted: 10 minutes, or longer where polls are so far apart that three in a row
// would not fit.
func window(poll time.Duration) time.Duration { return max(shortestWindow, poll*5/2) }

// contended returns until when a correction has to wait, since somebody undoes each of them; zero when it need not.
func (in Input) contended() time.Time {
	drift := in.Status.Drift
	if drift == nil || drift.SeenAt == nil || drift.WindowStart == nil || drift.Corrections < maxCorrections {
		return time.Time{}
	}
	if wasContended(in.Status) {
		// A clock that was set back must not make the pause longer.
		if until := drift.SeenAt.Add(contendedPause); in.Now.Before(until) && !in.Now.Before(drift.SeenAt.Time) {
			return until
		}
		return time.Time{}
	}
	if in.Now.Sub(drift.WindowStart.Time) > window(in.Poll) {
		return time.Time{}
	}
	return in.Now.Add(contendedPause)
}

func wasContended(status fleetmanagementv1alpha1.PipelineStatus) bool {
	c := meta.FindStatusCondition(status.Conditions, fleetmanagementv1alpha1.ConditionDrifted)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == fleetmanagementv1alpha1.ReasonContended
}

// noted returns the drift to store: seen now, and counted when it is corrected. A drift that is left, and was left at the last
// look, keeps its time.
func (in Input) noted(fields []string, corrected, known bool) *fleetmanagementv1alpha1.PipelineDrift {
	now := metav1.NewTime(in.Now.Truncate(time.Second))
	next := &fleetmanagementv1alpha1.PipelineDrift{}
	if in.Status.Drift != nil {
		next = in.Status.Drift.DeepCopy()
	}
	next.Fields = fields
	if !known {
		next.SeenAt = &now
	}
	switch {
	case !corrected:
	case wasContended(in.Status):
		// One more drift within the window is enough to wait again.
		next.Corrections, next.WindowStart = maxCorrections, &now
	case next.WindowStart == nil || in.Now.Sub(next.WindowStart.Time) > window(in.Poll):
		next.Corrections, next.WindowStart = 1, &now
	default:
		next.Corrections++
	}
	return next
}
