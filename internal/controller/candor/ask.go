// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/llm"
	"github.com/candor-dev/candor/internal/signals/policy"
)

// storeTimeout bounds what a call does at the API server before and after it asks the model.
const storeTimeout = 30 * time.Second

// question is what a pass decided to ask.
type question struct {
	name             types.NamespacedName
	uid              types.UID
	fingerprint, key string
	sharing          candorv1alpha1.Sharing
}

// result is what a question came to.
type result struct {
	question
	model      string
	hypotheses []candorv1alpha1.Hypothesis
	usage      llm.Usage
	cost       int64
	// failure is why there is no answer; nil when there is one, or when nothing was asked.
	failure *llm.Error
	// unasked is true when nothing was sent after all.
	unasked bool
}

// ready is a question that is ready to be sent.
type ready struct {
	question
	model     *Model
	operating *candorv1alpha1.OperatingPolicy
	payer     *candorv1alpha1.SignalPolicy
	body      []byte
}

// errUnasked says that what was decided does not hold any more.
var errUnasked = errors.New("nothing is asked")

// ask reserves, asks, settles, and returns what came of it. What it decided on is read once more past the cache, the brake
// above all.
func (e *Explainer) ask(ctx context.Context, q question) *result {
	r := &result{question: q, unasked: true}
	log := logf.Log.WithName("explain").WithValues("finding", q.name.String(), "request", q.key)
	prepared, receipt, err := e.reserve(ctx, q)
	e.Callers.reserved(q.uid)
	if err != nil {
		if !errors.Is(err, errUnasked) {
			log.Error(err, "Nothing is asked")
		}
		return r
	}
	r.unasked = false
	start, asked := e.Clock.Now(), prepared.model.identity
	reply, failure := e.send(ctx, prepared)
	took := e.Clock.Since(start)
	e.Pause.Heard(asked, failure, e.Clock.Now())
	used := &reply.Usage
	if failure == nil {
		r.model = signals.Clean(reply.Model, 128)
		r.hypotheses, failure = decode(reply)
	} else {
		used = failure.Usage
	}
	r.failure = failure
	actual := actualCost(receipt, failure, used, prepared.model.Prices)
	if used != nil {
		r.usage, r.cost = *used, actual.CostMicros
	}
	e.Metrics.called(prepared.model, failure, r.usage, r.cost, took)
	if failure != nil {
		log.Info("A model gave no answer", "reason", string(failure.Class), "message", failure.Err.Error(), "billed", failure.Billed)
	}
	if err := e.settle(ctx, prepared, receipt, actual); err != nil {
		log.Error(err, "What was reserved stays counted as spent")
	}
	return r
}

// reserve makes sure that the question still stands, and that both budgets have the money set aside.
func (e *Explainer) reserve(ctx context.Context, q question) (*ready, budget.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	p, err := e.prepare(ctx, q)
	if err != nil {
		return nil, budget.Receipt{}, err
	}
	var receipt budget.Receipt
	cost := budget.Estimate(len(p.body), p.model.Settings.MaxOutputTokens, p.model.Prices)
	err = e.Ledger.Change(ctx, func(ledger *candorv1alpha1.LedgerStatus) error {
		if until, _ := e.Pause.Until(p.model.identity, e.Clock.Now()); !until.IsZero() {
			return fmt.Errorf("%w: the server asked to wait meanwhile", errUnasked)
		}
		var denial *budget.Denial
		receipt, denial = budget.Reserve(ledger, q.name.Namespace, budget.Cluster(p.operating), budget.Namespace(p.operating, p.payer), cost, e.Clock.Now())
		if denial != nil {
			return fmt.Errorf("%w: the budget %s is exhausted", errUnasked, denial.Scope)
		}
		return nil
	})
	return p, receipt, err
}

// prepare reads everything once more, past the cache.
func (e *Explainer) prepare(ctx context.Context, q question) (*ready, error) {
	operating, err := operatingPolicy(ctx, e.Live)
	if err != nil {
		return nil, err
	}
	model, unusable := e.Models.For(operating)
	if audits(operating) || unusable != nil {
		return nil, errUnasked
	}
	f := &candorv1alpha1.Finding{}
	if err := e.Live.Get(ctx, q.name, f); err != nil {
		return nil, fmt.Errorf("reading the Finding: %w", err)
	}
	pays, err := payer(ctx, e.Live, f)
	if err != nil {
		return nil, err
	}
	if pays == nil {
		return nil, errUnasked
	}
	if enabled, sharing := policy.Explains(pays); !enabled || sharing != q.sharing || f.UID != q.uid || !current(f, q.fingerprint) || !present(f) {
		return nil, errUnasked
	}
	body, err := Compose(f, model, q.sharing)
	if err != nil {
		return nil, err
	}
	if keyOf(body) != q.key {
		return nil, errUnasked
	}
	return &ready{question: q, model: model, operating: operating, payer: pays, body: body}, nil
}

// send asks the model.
func (e *Explainer) send(ctx context.Context, p *ready) (llm.Reply, *llm.Error) {
	ctx, cancel := context.WithTimeout(ctx, p.model.Timeout)
	defer cancel()
	reply, err := p.model.Backend.Call(ctx, p.body)
	if err == nil {
		return reply, nil
	}
	var failure *llm.Error
	if !errors.As(err, &failure) {
		failure = &llm.Error{Class: llm.Unavailable, Billed: true, Err: err}
	}
	return llm.Reply{}, failure
}

func decode(reply llm.Reply) ([]candorv1alpha1.Hypothesis, *llm.Error) {
	hypotheses, err := llm.Decode(reply.Text)
	if err == nil {
		return hypotheses, nil
	}
	var failure *llm.Error
	if !errors.As(err, &failure) {
		failure = &llm.Error{Class: llm.InvalidOutput, Billed: true, Err: err}
	}
	return nil, failure
}

// actualCost is what a call cost: what was used where the server told, nothing where it was not billed, and else what was
// reserved.
func actualCost(receipt budget.Receipt, failure *llm.Error, used *llm.Usage, prices *candorv1alpha1.Prices) budget.Cost {
	switch {
	case failure != nil && !failure.Billed:
		return budget.Cost{}
	case used != nil && *used != (llm.Usage{}):
		return budget.Of(*used, prices)
	default:
		return receipt.Cost
	}
}

// settle corrects the Ledger to what was spent, and takes out of it what counts nowhere any more.
func (e *Explainer) settle(ctx context.Context, p *ready, receipt budget.Receipt, actual budget.Cost) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	windows, err := e.windows(ctx, p.operating)
	if err != nil {
		return err
	}
	return e.Ledger.Correct(ctx, func(ledger *candorv1alpha1.LedgerStatus) error {
		budget.Settle(ledger, receipt, actual)
		budget.Prune(ledger, budget.Cluster(p.operating), windows, e.Clock.Now())
		return nil
	})
}

// windows returns a function that tells the longest window by which a namespace's spending is looked at.
func (e *Explainer) windows(ctx context.Context, operating *candorv1alpha1.OperatingPolicy) (func(string) time.Duration, error) {
	var policies candorv1alpha1.SignalPolicyList
	if err := e.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("listing policies: %w", err)
	}
	longest := map[string]time.Duration{}
	for i := range policies.Items {
		p := &policies.Items[i]
		longest[p.Namespace] = max(longest[p.Namespace], budget.Namespace(operating, p).Window)
	}
	return func(namespace string) time.Duration { return longest[namespace] }, nil
}

// record writes a result into the status of its Finding. It belongs to the content that was asked about, whatever the Finding
// says by now.
func (r *result) record(f *candorv1alpha1.Finding, now time.Time) {
	e := f.Status.Enrichment
	if e == nil {
		e = &candorv1alpha1.Enrichment{}
		f.Status.Enrichment = e
	}
	if a := e.Attempt; a != nil && a.Key == r.key && a.Running {
		a.Running = false
		switch {
		case r.unasked:
			a.Count--
			f.Status.Request = nil
		case r.failure != nil:
			if r.failure.OfBackend() {
				a.Count--
			}
			a.Failure, a.Message = string(r.failure.Class), signals.CutJSON(signals.Clean(r.failure.Err.Error(), 512), 512)
		}
		a.Count = max(a.Count, 0)
	}
	if r.unasked || r.failure != nil {
		return
	}
	f.Status.Hypotheses, f.Status.EnrichedFingerprint = r.hypotheses, r.fingerprint
	f.Status.Enrichment = &candorv1alpha1.Enrichment{
		Model: r.model, PromptVersion: llm.PromptVersion, Key: r.key, Sharing: r.sharing, CostMicros: r.cost, At: metav1.NewTime(now),
		Usage: candorv1alpha1.Usage{InputTokens: r.usage.InputTokens, OutputTokens: r.usage.OutputTokens},
	}
}
