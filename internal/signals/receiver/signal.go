// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Signal is what a tool tells of one object, checked and cleaned: every text is one line of valid UTF-8 within its bound.
type Signal struct {
	Severity candorv1alpha1.Severity
	// Kind and Name say which object it is about: at most 63 and 253 bytes, and fit for the path of a request. A Pod stands for
	// its top owner.
	Kind, Name string
	// Container is empty where the signal names none; at most 253 bytes.
	Container string
	// ID tells the signals about one object apart; 1 to 128 bytes.
	ID string
	// Summary may be empty; at most 1,024 bytes.
	Summary string
	// Resolved says that it holds no more.
	Resolved bool
	// At is when it was signed, in whole seconds; zero where the request is not bound to a time.
	At time.Time
}

// Result is what became of a signal.
type Result string

// The results.
const (
	// Created means that the signal made a Finding.
	Created Result = "created"
	// Updated means that the Finding says something else than before, or is open again.
	Updated Result = "updated"
	// Unchanged means that the Finding says this already, or that nothing stands which could end.
	Unchanged Result = "unchanged"
	// Filtered means that the policy does not ask for such a signal.
	Filtered Result = "filtered"
	// Resolved means that the Finding has ended.
	Resolved Result = "resolved"
	// Full means that the policy has as many Findings as it may have, and that the signal is lost.
	Full Result = "full"
	// Late means that something signed later is known already.
	Late Result = "late"
)

// Store keeps what signals say.
type Store interface {
	// Take keeps a signal that a policy's key authenticated. An error is trouble of the API, and the sender may try again.
	Take(ctx context.Context, policy types.NamespacedName, s Signal) (Result, error)
}

// ErrUnknown means that a policy takes no signals: there is none of that name, or it has no receiver, or its key cannot be used.
var ErrUnknown = errors.New("no policy of that name takes signals")

// Keys finds what the requests to a policy are authenticated by.
type Keys interface {
	// Keys returns the credentials of a policy. The error is ErrUnknown unless the API server gave no answer.
	Keys(ctx context.Context, policy types.NamespacedName) (Credentials, error)
}

// Credentials are what a sender shares with Candor; either may be empty, and then nothing is accepted by it.
type Credentials struct {
	// Signing is the key of signatures.
	Signing []byte
	// Token is what a sender presents that cannot sign.
	Token []byte
}
