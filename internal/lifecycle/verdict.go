// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/candor-dev/candor/internal/fault"
)

const (
	// terminalRecheck is how long a fault that only a new spec can mend is left alone: a rule outside the spec may change.
	terminalRecheck = 30 * time.Minute
	// reasonFailed is the reason of an error that names none.
	reasonFailed = "Failed"
	// noteBytes is the longest note that the events API takes.
	noteBytes = 1024
	// messageBytes is the longest message that a condition takes.
	messageBytes = 32768
)

// verdict turns one pass into a condition, an event and a result, so that the three never disagree.
type verdict struct {
	reason, message string
	status          metav1.ConditionStatus
	silent          bool
	after           time.Duration
	then            func()
	fault           *fault.Fault
	// err is the fault with what was wrapped around it.
	err error
}

func judge(o Outcome, err error) verdict {
	if err == nil {
		status := o.Status
		if status == "" {
			status = metav1.ConditionTrue
		}
		return verdict{reason: o.Reason, message: o.Message, status: status, silent: o.Silent, after: o.PollAfter, then: o.Then}
	}
	f := fault.Of(err, reasonFailed)
	status := metav1.ConditionFalse
	if f.Unclear {
		status = metav1.ConditionUnknown
	}
	return verdict{reason: f.Reason, message: err.Error(), status: status, after: f.After, fault: f, err: err}
}

// mark writes the verdict into obj and reports whether it differs from the last one. observedGeneration moves on success
// and on a terminal fault only: anything else is still owed.
func (v verdict) mark(condition, summary string, obj Object, now time.Time) bool {
	if summary != "" && (!v.unclear() || !isWell(obj, summary)) {
		SetCondition(obj, now, metav1.Condition{Type: summary, Status: v.status, Reason: v.reason, Message: v.message})
	}
	changed := SetCondition(obj, now, metav1.Condition{Type: condition, Status: v.status, Reason: v.reason, Message: v.message})
	settles := v.fault == nil || v.fault.Kind == fault.Terminal
	if observed := obj.ObservedGeneration(); observed != nil && settles {
		*observed = obj.GetGeneration()
	}
	return changed
}

func (v verdict) unclear() bool { return v.fault != nil && v.fault.Unclear }

// isWell says that a condition is True of the present generation.
func isWell(obj Object, condition string) bool {
	c := meta.FindStatusCondition(*obj.StatusConditions(), condition)
	return c != nil && c.Status == metav1.ConditionTrue && (obj.ObservedGeneration() == nil || c.ObservedGeneration == obj.GetGeneration())
}

func (v verdict) announce(recorder events.EventRecorder, obj runtime.Object) {
	if v.silent {
		return
	}
	kind := corev1.EventTypeNormal
	if v.status != metav1.ConditionTrue {
		kind = corev1.EventTypeWarning
	}
	Announce(recorder, obj, kind, v.reason, v.message)
}

func (v verdict) result() (ctrl.Result, error) {
	switch {
	case v.fault == nil, v.fault.Kind == fault.Wait:
		return ctrl.Result{RequeueAfter: v.after}, nil
	case v.fault.Kind == fault.Terminal:
		return ctrl.Result{RequeueAfter: terminalRecheck}, nil
	default:
		return ctrl.Result{}, v.err
	}
}

// SetCondition stores a condition that speaks of obj's present generation, and reports whether its status or its reason
// changed. Message and generation alone are no transition.
func SetCondition(obj Object, now time.Time, c metav1.Condition) bool {
	last := meta.FindStatusCondition(*obj.StatusConditions(), c.Type)
	changed := last == nil || last.Status != c.Status || last.Reason != c.Reason
	if obj.ObservedGeneration() != nil {
		c.ObservedGeneration = obj.GetGeneration()
	}
	c.Message = cut(c.Message, messageBytes)
	if last == nil || last.Status != c.Status {
		c.LastTransitionTime = metav1.NewTime(now)
	}
	meta.SetStatusCondition(obj.StatusConditions(), c)
	return changed
}

// RemoveCondition forgets a condition that says nothing any more.
func RemoveCondition(obj Object, condition string) {
	meta.RemoveStatusCondition(obj.StatusConditions(), condition)
}

// Announce records an event whose action is its reason.
func Announce(recorder events.EventRecorder, obj runtime.Object, kind, reason, message string) {
	recorder.Eventf(obj, nil, kind, reason, reason, "%s", cut(message, noteBytes))
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit]
}
