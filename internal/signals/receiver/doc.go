// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package receiver takes signals of other tools by HTTP. It knows neither Kubernetes' API nor the time: whoever uses it hands in
// where signals are kept, where keys come from, and a clock.
//
// # From a request to an answer
//
//	path, body   POST /webhook/{namespace}/{policy}, at most 256 KiB        → else 404 or the refusal
//	authenticate a signature with or without a time, or a token             → else the refusal
//	replays      one that was taken, and another of its subject after it    → the refusal
//	rates        ten a second for a policy                                  → else 429
//	decode       Candor's own body, Falco's, or a CloudEvent of either      → else 400
//	overtaken    by one of its subject that was signed later                → 202 late
//	Store        what becomes of it                                         → 202, 429 or 503
//
// The refusal is one answer, 401, whatever is wrong, takes the same work, and at least a quarter of a second, so that nobody learns
// which policies there are.
package receiver
