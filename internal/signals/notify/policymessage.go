// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// QueueMessage returns the messages about a policy that one sink waits for, with one for what fell due at now and began at
// since. Of one event there is one message at most: a digest that could not be delivered is part of the next. What is handed in
// is not changed.
func QueueMessage(
	pending []candorv1alpha1.PolicyMessage, policy types.UID, sink string, event candorv1alpha1.EventType, since, now time.Time,
) []candorv1alpha1.PolicyMessage {
	queued, key := slices.Clone(pending), PolicyKey(policy, event, now, sink)
	i := slices.IndexFunc(queued, func(m candorv1alpha1.PolicyMessage) bool { return m.Event == event })
	if i >= 0 {
		old := queued[i]
		if old.Key == key {
			return queued
		}
		if event == candorv1alpha1.EventDigest && old.Since.Time.Before(since) {
			since = old.Since.Time
		}
		queued = slices.Delete(queued, i, i+1)
	}
	return append(queued, candorv1alpha1.PolicyMessage{
		Event: event, Key: key, Since: seconds(since), At: seconds(now),
	})
}

// RecordMessages returns the messages that wait yet after results, and those that were given up because of them: what could not
// be delivered for 24 h. What is handed in is not changed.
func RecordMessages(pending []candorv1alpha1.PolicyMessage, results []Result) (waiting, failed []candorv1alpha1.PolicyMessage) {
	waiting = slices.Clone(pending)
	for _, r := range results {
		i := slices.IndexFunc(waiting, func(m candorv1alpha1.PolicyMessage) bool { return m.Key == r.Key })
		if i < 0 {
			continue
		}
		m := &waiting[i]
		givenUp := !r.Delivered && postpone(r, patient(*m, r.At), &m.Attempts, &m.NextAttempt)
		if givenUp {
			failed = append(failed, *m)
		}
		if givenUp || r.Delivered {
			waiting = slices.Delete(waiting, i, i+1)
		}
	}
	return waiting, failed
}

func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// Lasts reports whether a message is sent however late it gets: the one about what there was counts that when it is sent, and
// nothing makes up for it.
func Lasts(m candorv1alpha1.PolicyMessage) bool { return m.Event == candorv1alpha1.EventCreated }

// patient returns since when a message has been tried, as far as that counts.
func patient(m candorv1alpha1.PolicyMessage, now time.Time) metav1.Time {
	if Lasts(m) {
		return metav1.NewTime(now)
	}
	return m.At
}
