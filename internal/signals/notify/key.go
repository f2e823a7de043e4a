// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// keyDigits is the length of a key.
const keyDigits = 32

// Key returns what each delivery of an entry carries, 32 hexadecimal digits, so that a receiver can tell that it had it
// before. Equal content may be muted more than once, so the end of a mute is told apart by its moment.
func Key(uid types.UID, n candorv1alpha1.Notification) string {
	parts := []string{string(uid), string(n.Event), n.Fingerprint, strconv.Itoa(int(n.Occurrence)), n.Sink}
	if n.Event == candorv1alpha1.EventSuppressionEnded {
		parts = append(parts, moment(n.At.Time))
	}
	return hash(parts...)
}

// PolicyKey returns the key of a message about a whole policy that fell due at a time.
func PolicyKey(policy types.UID, event candorv1alpha1.EventType, at time.Time, sink string) string {
	return hash(string(policy), string(event), moment(at), sink)
}

// BatchKey returns the key of a request that carries several events: that of its only one, or one of the keys of all.
func BatchKey(events []Event) string {
	if len(events) == 1 {
		return events[0].Key
	}
	return hash(Keys(events)...)
}

// PartKey returns the key of one of several requests that carry one message together.
func PartKey(key string, part int) string { return hash(key, strconv.Itoa(part)) }

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:keyDigits]
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
