// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"slices"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Denial says why a call may not be made now.
type Denial struct {
	// Scope is the scope that denies: that of the cluster, or that of the namespace.
	Scope string
	// Unit is what does not suffice.
	Unit Unit
	// Free is when enough of every unit of this scope is free, if nothing more is spent meanwhile. It is zero when waiting
	// does not help: the call alone costs more than the ceiling.
	Free time.Time
}

// Receipt is what a reservation counted, and where. Its zero value is of no reservation; settling it does nothing.
type Receipt struct {
	// Cost is what counts for the call.
	Cost Cost

	namespace          string
	inCluster, inScope slot
}

// Check returns nil when both ceilings leave room for a cost, else why not. The cluster is asked first.
func Check(status *candorv1alpha1.LedgerStatus, namespace string, cluster, own Ceiling, cost Cost, now time.Time) *Denial {
	cost = cost.atLeastZero()
	if d := check(status, candorv1alpha1.LedgerScopeCluster, cluster, cost, now); d != nil {
		return d
	}
	name := candorv1alpha1.LedgerScopeNamespace(namespace)
	if d := check(status, name, own, cost, now); d != nil {
		return d
	}
	return room(status, name, now)
}

// Reserve counts a cost in the scopes of the cluster and of the namespace, or in neither when one of the ceilings leaves no
// room for it. It changes the status in place, and a denial changes nothing. A cost of nothing is no reservation.
func Reserve(status *candorv1alpha1.LedgerStatus, namespace string, cluster, own Ceiling, cost Cost, now time.Time) (Receipt, *Denial) {
	cost = cost.atLeastZero()
	if d := Check(status, namespace, cluster, own, cost, now); d != nil {
		return Receipt{}, d
	}
	if (cost == Cost{}) {
		return Receipt{}, nil
	}
	receipt := Receipt{
		Cost: cost, namespace: candorv1alpha1.LedgerScopeNamespace(namespace),
		inCluster: slotAt(now, cluster.Window), inScope: slotAt(now, own.Window),
	}
	l := inOrder(status)
	l.add(candorv1alpha1.LedgerScopeCluster, receipt.inCluster, cost)
	l.add(receipt.namespace, receipt.inScope, cost)
	l.shrink()
	return receipt, nil
}

// Settle corrects what a receipt counted to what the call cost, unit by unit, in place. The Cost{} refunds all of it. It finds
// what was counted also in a merged bucket; where nothing is left of it, only what is missing is counted.
//
// It returns the receipt of what counts now. A receipt is settled once: after that the returned one takes its place, with
// which the same cost corrects nothing. Where the status could not be stored, the former receipt stays valid for the status
// that is. Receipts are for a day; one that is older, or of a Ledger that was deleted, is to be dropped.
func Settle(status *candorv1alpha1.LedgerStatus, receipt Receipt, actual Cost) Receipt {
	if receipt.namespace == "" {
		return receipt
	}
	actual = actual.atLeastZero()
	more, less := actual.minus(receipt.Cost), receipt.Cost.minus(actual)
	l := inOrder(status)
	l.correct(candorv1alpha1.LedgerScopeCluster, receipt.inCluster, more, less)
	l.correct(receipt.namespace, receipt.inScope, more, less)
	l.shrink()
	receipt.Cost = actual
	return receipt
}

func (l ledger) correct(name string, s slot, more, less Cost) {
	if (less != Cost{}) {
		l.subtract(name, s, less)
	}
	if (more != Cost{}) {
		l.add(name, s, more)
	}
}

// Prune forgets what counts in no window any more, in place. window returns the longest window of the policies of a namespace,
// and zero for one that has none. A bucket is kept for 24 hours after its end at least.
func Prune(status *candorv1alpha1.LedgerStatus, cluster Ceiling, window func(namespace string) time.Duration, now time.Time) {
	l := inOrder(status)
	for i := range l.Scopes {
		longest := cluster.Window
		if namespace, ok := namespaceOf(l.Scopes[i].Name); ok {
			longest = window(namespace)
		}
		forget(&l.Scopes[i], longest, now)
	}
	l.shrink()
}

// check asks the ceiling of one scope.
func check(status *candorv1alpha1.LedgerStatus, scope string, c Ceiling, cost Cost, now time.Time) *Denial {
	if unit := c.lacking(Cost{}, cost); unit != "" {
		return &Denial{Scope: scope, Unit: unit}
	}
	unit := c.lacking(Used(status, scope, c.Window, now), cost)
	if unit == "" {
		return nil
	}
	var counting []candorv1alpha1.LedgerBucket
	eachCounting(status, scope, c.Window, now, func(b candorv1alpha1.LedgerBucket) { counting = append(counting, b) })
	slices.SortFunc(counting, byEnd)
	denial := &Denial{Scope: scope, Unit: unit}
	var rest Cost
	for _, b := range slices.Backward(counting) {
		if rest = rest.plus(costOf(b)); c.lacking(rest, cost) != "" {
			denial.Free = leaves(b, c.Window)
			break
		}
	}
	return denial
}

// room denies a namespace that is not in the Ledger while that holds as many scopes as it can. It frees when the first of them
// may be forgotten, and is asked again no sooner than in a minute.
func room(status *candorv1alpha1.LedgerStatus, name string, now time.Time) *Denial {
	if len(status.Scopes) < maxScopes {
		return nil
	}
	earliest := int64(lastSecond)
	for _, scope := range status.Scopes {
		if scope.Name == name {
			return nil
		}
		if scope.Name == candorv1alpha1.LedgerScopeCluster {
			continue
		}
		last := int64(0)
		for _, b := range scope.Buckets {
			last = max(last, read(b).End)
		}
		earliest = min(earliest, last+keeps(scope))
	}
	free := time.Unix(max(earliest, second(now.Unix())+60), 0).UTC()
	return &Denial{Scope: name, Unit: UnitNamespaces, Free: free}
}
