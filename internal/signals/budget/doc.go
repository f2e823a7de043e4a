// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget decides what models may still cost, and keeps the Ledger of what they did cost. It is arithmetic: times and
// policies are handed in, and whoever stores the Ledger sees to it that one writer at a time changes it.
//
// # How a call counts
//
// A call is written into two scopes of the Ledger, that of the cluster and that of its namespace, each time into the bucket
// of the present moment. A bucket is a 24th of the scope's window wide and counts until a whole window after its end. So no
// call counts for less than a window, and none for more than 25/24 of it. Buckets of a scope are told apart by their end
// alone, which is all that this arithmetic looks at; their start is for people.
//
// A bucket of the future counts. A clock that jumps back frees nothing that would not be free without the jump.
//
// # How little a Ledger holds
//
// A scope holds at most 32 buckets. With many namespaces each holds fewer, so that scopes and buckets together stay near
// 10,000. Where a scope has more, its oldest are merged: from the start of the first to the end of the last, with all that
// was spent. That counts longer and never less. There is room for 4,500 scopes; a namespace that finds none is denied.
//
// A bucket is forgotten when it has not counted for any window of its scope, and at least 24 hours after its end. A scope
// remembers for up to 31 days a longer window that it was spent in, so that a policy that is deleted, or made short, for a
// moment refunds nothing. A window that is made longer counts what was not forgotten by then.
//
// # How a Ledger is read that Candor did not write
//
// Whatever it holds, reading it never fails, and doubt counts as spent:
//
//   - buckets in any order, and buckets that overlap: each counts
//   - several scopes of one name: they add up
//   - a bucket that ends before it starts: the later of the two is its end
//   - an amount below zero: its magnitude counts
//   - sums beyond what an int64 holds: the largest int64
//   - a time before 1970 or after the year 9999: that bound
//   - a scope that is neither the cluster nor a namespace: it counts for nobody and is kept as long as the cluster's
//
// The next change, which works in place, writes it in order again.
package budget
