// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const (
	bucketsPerWindow = 24
	// maxBuckets is more than count at a time, so that merging does not reach what counts.
	maxBuckets = 32
	// maxEntries bounds the scopes and buckets of namespaces together: each is about a hundred bytes of JSON, and the
	// object has to stay under 1 MiB.
	maxEntries = 10_000
	// maxScopes is how many fit when each has the longest name and one bucket.
	maxScopes = 4500

	daySeconds = 24 * 60 * 60
	// longestMemory bounds how long a scope remembers a long window: many namespaces that come and go would fill the Ledger.
	longestMemory = 31 * daySeconds
	// lastSecond is the last second of the year 9999, the end of what JSON can say.
	lastSecond = 253_402_300_799
)

// slot is the bucket that a call is written into, and the window that it is counted in, in seconds.
type slot struct{ start, end, window int64 }

func slotAt(now time.Time, window time.Duration) slot {
	length := seconds(window)
	width := (length-1)/bucketsPerWindow + 1
	at := second(now.Unix())
	start := at - at%width
	return slot{start: start, end: second(start + width), window: length}
}

func second(s int64) int64 { return min(max(s, 0), lastSecond) }

// read returns a bucket as it counts, whatever is written.
func read(b candorv1alpha1.LedgerBucket) candorv1alpha1.LedgerBucket {
	start, end := second(b.Start), second(b.End)
	return candorv1alpha1.LedgerBucket{
		Start: min(start, end), End: max(start, end),
		Calls: magnitude(b.Calls), Tokens: magnitude(b.Tokens), CostMicros: magnitude(b.CostMicros),
	}
}

func magnitude(n int64) int64 {
	if n == math.MinInt64 {
		return math.MaxInt64
	}
	return max(n, -n)
}

func costOf(b candorv1alpha1.LedgerBucket) Cost { return Cost{b.Calls, b.Tokens, b.CostMicros} }

// counts reports whether a bucket counts in the window that ends now.
func counts(b candorv1alpha1.LedgerBucket, window int64, now time.Time) bool {
	return now.Unix() < b.End+window
}

// joined returns one bucket for two that have been read.
func joined(a, b candorv1alpha1.LedgerBucket) candorv1alpha1.LedgerBucket {
	return bucket(min(a.Start, b.Start), max(a.End, b.End), costOf(a).plus(costOf(b)))
}

func bucket(start, end int64, cost Cost) candorv1alpha1.LedgerBucket {
	return candorv1alpha1.LedgerBucket{Start: start, End: end, Calls: cost.Calls, Tokens: cost.Tokens, CostMicros: cost.CostMicros}
}

// ledger is a status whose scopes stand in the order of their names, each once, with buckets in the order of their ends, each
// end once, and no empty ones. Everything that changes a status works on that.
type ledger struct{ *candorv1alpha1.LedgerStatus }

// inOrder puts a status in order. Nothing counts less afterwards.
func inOrder(status *candorv1alpha1.LedgerStatus) ledger {
	scopes := status.Scopes
	if !slices.IsSortedFunc(scopes, byName) {
		slices.SortStableFunc(scopes, byName)
	}
	kept := scopes[:0]
	for _, scope := range scopes {
		if last := len(kept) - 1; last >= 0 && kept[last].Name == scope.Name {
			kept[last].Buckets = slices.Concat(kept[last].Buckets, scope.Buckets)
			kept[last].WindowSeconds = max(kept[last].WindowSeconds, scope.WindowSeconds)
			continue
		}
		kept = append(kept, scope)
	}
	clear(scopes[len(kept):])
	status.Scopes = kept
	for i := range kept {
		sortBuckets(&kept[i])
	}
	return ledger{status}
}

func byName(a, b candorv1alpha1.LedgerScope) int { return strings.Compare(a.Name, b.Name) }

func sortBuckets(scope *candorv1alpha1.LedgerScope) {
	scope.WindowSeconds = min(max(scope.WindowSeconds, 0), longestMemory)
	if ordered(scope.Buckets) {
		return
	}
	for i, b := range scope.Buckets {
		scope.Buckets[i] = read(b)
	}
	if !slices.IsSortedFunc(scope.Buckets, byEnd) {
		slices.SortStableFunc(scope.Buckets, byEnd)
	}
	kept := scope.Buckets[:0]
	for _, b := range scope.Buckets {
		switch last := len(kept) - 1; {
		case costOf(b) == Cost{}:
		case last >= 0 && kept[last].End == b.End:
			kept[last] = joined(kept[last], b)
		default:
			kept = append(kept, b)
		}
	}
	scope.Buckets = kept
}

// ordered reports that there is nothing to put in order, which is so whenever Candor wrote the buckets.
func ordered(buckets []candorv1alpha1.LedgerBucket) bool {
	last := int64(-1)
	for i := range buckets {
		b := &buckets[i]
		if b.Start < 0 || b.Start > b.End || b.End <= last || b.End > lastSecond {
			return false
		}
		if min(b.Calls, b.Tokens, b.CostMicros) < 0 || max(b.Calls, b.Tokens, b.CostMicros) == 0 {
			return false
		}
		last = b.End
	}
	return true
}

func byEnd(a, b candorv1alpha1.LedgerBucket) int { return cmp.Compare(a.End, b.End) }

// add counts a cost in a slot.
func (l ledger) add(name string, s slot, cost Cost) {
	i, found := l.scope(name)
	if !found {
		l.Scopes = slices.Insert(l.Scopes, i, candorv1alpha1.LedgerScope{Name: name})
	}
	scope := &l.Scopes[i]
	if s.window > daySeconds {
		scope.WindowSeconds = max(scope.WindowSeconds, min(s.window, longestMemory))
	}
	added := bucket(s.start, s.end, cost)
	j, found := atEnd(scope, s.end)
	if found {
		scope.Buckets[j] = joined(scope.Buckets[j], added)
		return
	}
	scope.Buckets = slices.Insert(scope.Buckets, j, added)
}

// subtract takes a cost out of the bucket that holds what was counted in a slot: the one with the same end or, since the oldest
// are merged, the first that spans it. Without either there is nothing to take from.
func (l ledger) subtract(name string, s slot, cost Cost) {
	i, found := l.scope(name)
	if !found {
		return
	}
	scope := &l.Scopes[i]
	j, found := atEnd(scope, s.end)
	if !found && (j > 0 || len(scope.Buckets) == 0 || scope.Buckets[0].Start > s.start) {
		return
	}
	b := scope.Buckets[j]
	rest := costOf(b).minus(cost)
	if (rest == Cost{}) {
		scope.Buckets = slices.Delete(scope.Buckets, j, j+1)
		return
	}
	scope.Buckets[j] = bucket(b.Start, b.End, rest)
}

func (l ledger) scope(name string) (int, bool) {
	return slices.BinarySearchFunc(l.Scopes, name, func(s candorv1alpha1.LedgerScope, name string) int {
		return strings.Compare(s.Name, name)
	})
}

// atEnd returns where the bucket with an end stands, or would stand.
func atEnd(scope *candorv1alpha1.LedgerScope, end int64) (int, bool) {
	return slices.BinarySearchFunc(scope.Buckets, end, func(b candorv1alpha1.LedgerBucket, end int64) int {
		return cmp.Compare(b.End, end)
	})
}

// forget drops what has not counted for longer than the scope keeps it.
func forget(scope *candorv1alpha1.LedgerScope, window time.Duration, now time.Time) {
	keep := max(keeps(*scope), seconds(window))
	gone := 0
	for gone < len(scope.Buckets) && !counts(scope.Buckets[gone], keep, now) {
		gone++
	}
	scope.Buckets = slices.Delete(scope.Buckets, 0, gone)
}

// keeps is how long after their end a scope keeps its buckets at least, in seconds.
func keeps(scope candorv1alpha1.LedgerScope) int64 {
	return max(daySeconds, min(scope.WindowSeconds, longestMemory))
}

// shrink drops scopes without buckets, and merges the oldest buckets of each scope until it has no more than its share.
func (l ledger) shrink() {
	l.Scopes = slices.DeleteFunc(l.Scopes, func(s candorv1alpha1.LedgerScope) bool { return len(s.Buckets) == 0 })
	share := min(max(maxEntries/max(1, len(l.Scopes))-1, 1), maxBuckets)
	for i := range l.Scopes {
		scope := &l.Scopes[i]
		allowed := share
		if scope.Name == candorv1alpha1.LedgerScopeCluster {
			allowed = maxBuckets
		}
		if surplus := len(scope.Buckets) - allowed; surplus > 0 {
			for j := range surplus {
				scope.Buckets[j+1] = joined(scope.Buckets[j], scope.Buckets[j+1])
			}
			scope.Buckets = slices.Delete(scope.Buckets, 0, surplus)
		}
	}
}
