// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// keyOfSink reads the name of a sink in an outbox.
func keyOfSink(namespace, name string) sinkKey {
	policy, sink, _ := strings.Cut(name, "/")
	return sinkKey{namespace, policy, sink}
}

// target returns the sink as its policy has it now, and false when there is none any more.
func (n *Notifier) target(ctx context.Context, key sinkKey) (notify.Target, bool, error) {
	var p candorv1alpha1.SignalPolicy
	err := n.Client.Get(ctx, key.policyName(), &p)
	switch {
	case apierrors.IsNotFound(err):
		return notify.Target{}, false, nil
	case err != nil:
		return notify.Target{}, false, fmt.Errorf("reading SignalPolicy %s: %w", key.policyName(), err)
	}
	target, found := notify.Find([]candorv1alpha1.SignalPolicy{p}, key.policy+"/"+key.sink)
	return target, found, nil
}

// message makes the message of a batch, and says whether it is worth sending.
func (n *Notifier) message(ctx context.Context, b *batch, target notify.Target) (m notify.Message, worth bool, err error) {
	m = notify.Message{Kind: notify.KindEvents, Namespace: b.namespace, Policy: b.policy, Sink: b.sink, At: n.Clock.Now()}
	for _, p := range b.parcels {
		m.Events = append(m.Events, p.event)
	}
	if b.message == nil {
		return m, len(m.Events) > 0, nil
	}
	m.Key = b.message.Key
	if b.message.Event == candorv1alpha1.EventBudgetExhausted {
		m.Kind, m.Budget = notify.KindBudget, target.Policy.Status.Budget
		return m, m.Budget != nil, nil
	}
	var list candorv1alpha1.FindingList
	if err := n.Client.List(ctx, &list, client.InNamespace(b.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return m, false, fmt.Errorf("listing the Findings of %s: %w", b.namespace, err)
	}
	m.Open, m.Quiet = target.Open(list.Items)
	if b.message.Event == candorv1alpha1.EventCreated {
		summary, _ := notify.NewSummary(list.Items, target)
		m.Kind, m.Summary = notify.KindSummary, &summary
		return m, summary.Open > 0, nil
	}
	ledger, err := n.Ledger.Look(ctx)
	if err != nil {
		return m, false, err
	}
	since, at := b.message.Since.Time, b.message.At.Time
	cost := budget.Used(ledger, candorv1alpha1.LedgerScopeNamespace(b.namespace), at.Sub(since), at)
	digest := notify.NewDigest(list.Items, target, since, at, cost)
	m.Kind, m.Digest = notify.KindDigest, &digest
	return m, tells(digest), nil
}

// tells reports whether a digest says anything: nobody wants to hear every day that there is nothing.
func tells(d notify.Digest) bool {
	return d.StillPresent+d.Recurred+d.Stale+d.Muted+d.Changed.Created+d.Changed.Resolved > 0 || d.Spent.Calls > 0 || d.Spent.Shared > 0
}
