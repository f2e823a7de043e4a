// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

// Reason is why a request was not taken, for whoever runs Candor. A sender that is not authenticated never learns it.
type Reason string

// The reasons.
const (
	// ReasonBusy means that 64 requests are being answered already, or the very same one.
	ReasonBusy Reason = "busy"
	// ReasonClock means that it was signed more than five minutes before or after now.
	ReasonClock Reason = "clock"
	// ReasonInvalid means that the body of an authenticated request cannot be used; the sender is told what is wrong.
	ReasonInvalid Reason = "invalid"
	// ReasonMalformed means that a header of the authentication is there twice, or is not of its form.
	ReasonMalformed Reason = "malformed"
	// ReasonRate means that a policy was sent more than it takes.
	ReasonRate Reason = "rate"
	// ReasonReplay means that it was taken before, and something else after it.
	ReasonReplay Reason = "replay"
	// ReasonSignature means that the signature is not that of the policy's key.
	ReasonSignature Reason = "signature"
	// ReasonSize means that the body is larger than 256 KiB.
	ReasonSize Reason = "size"
	// ReasonToken means that the token is not that of the policy.
	ReasonToken Reason = "token"
	// ReasonTrouble means that the API server gave no answer in time.
	ReasonTrouble Reason = "trouble"
	// ReasonUnknown means that no policy of that name takes signals in this way: there is none, or its Secret cannot be used.
	ReasonUnknown Reason = "unknown"
	// ReasonUnread means that the body ended early, or did not come in time.
	ReasonUnread Reason = "unread"
	// ReasonUnsigned means that it holds neither a signature nor a token.
	ReasonUnsigned Reason = "unsigned"
)
