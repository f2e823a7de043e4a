// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notify decides what people are told of, through which sinks, when it is sent again, and in which words. It is pure:
// Findings, policies and times are handed in, and whoever sends a request hands in what became of it.
//
// # From a change to a delivery
//
//	Due      two statuses of a Finding, before and after a pass → the event that falls due, if any
//	Sinks    the policies of the namespace                      → the sinks that hear of it
//	Queue    the outbox in the status                           → the outbox with one entry for each of them
//	Ready    the outbox, once it is stored                      → the entries to send now
//	EventOf  an entry and the Finding                           → what a sink is told
//	render   a Message of events                                → the requests to send, in the form of the sink
//	Record   what became of them                                → the outbox to store
//
// The outbox is stored in the same write as the change that made the event due, so that neither is there without the other.
// What was sent and not recorded is sent again, with the same key.
//
// What concerns a whole policy (NewSummary, NewDigest, an exhausted budget) waits in the status of the policy in the same way:
// QueueMessage, then render, then RecordMessages.
//
// # What is said
//
// Numbers, names and the summary of the evidence. Nothing that a model wrote leaves through a sink. All of it comes from
// strangers: Message.Clean takes out what does not belong into a line, and each form of sink escapes what is left.
package notify
