// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/llm"
)

const (
	// teams is how many namespaces run the image of shared besides its own.
	teams  = 20
	shared = "shop/web/envoy"

	callsAllowed = 5
	window       = time.Hour
)

// preview configures a model that is not asked yet.
func (d *demo) preview(ctx context.Context) ([]result, error) {
	operating, err := d.operatingPolicy()
	if err != nil {
		return nil, err
	}
	d.screen.title("A model is configured: from here on model calls are those that it gets.")
	d.screen.aside("It is a fake in this process that speaks the protocol of %s, and counts. Everything else is as with a real one.", operating.Spec.Model.Provider)
	d.asks(candorv1alpha1.ReasonAudit)
	audited, err := d.step(ctx, "An OperatingPolicy of mode Audit: what would be sent?", func(ctx context.Context) error {
		operating.Spec.Mode = candorv1alpha1.ModeAudit
		return d.cluster.Client.Create(ctx, operating)
	})
	if err != nil {
		return nil, err
	}
	spread, err := d.step(ctx, fmt.Sprintf("One image of %s goes to %d more namespaces.", shared, teams), d.spread)
	if err != nil {
		return nil, err
	}
	return []result{audited, spread}, d.printQuestions(ctx)
}

// operatingPolicy starts the fake, and returns the sample that points to it, with a small budget.
func (d *demo) operatingPolicy() (*candorv1alpha1.OperatingPolicy, error) {
	var p candorv1alpha1.OperatingPolicy
	if err := readSample("candor_v1alpha1_operatingpolicy.yaml", &p); err != nil {
		return nil, err
	}
	d.startModel(p.Spec.Model.Name)
	p.Spec.Model.BaseURL = d.model.AnthropicURL()
	p.Spec.Model.MaxConcurrent = 1 // of two calls that run at once, the milder one may take what is left of a budget
	p.Spec.Budget.MaxCalls, p.Spec.Budget.WindowSeconds = ptr.To[int32](callsAllowed), int32(window/time.Second)
	return &p, nil
}

// spread runs the image of shared in other namespaces, under other names.
func (d *demo) spread(ctx context.Context) error {
	_, c, err := find(d.workloads, shared)
	if err != nil {
		return err
	}
	for n := range teams {
		w := &workload{Namespace: fmt.Sprintf("team-%02d", n+1), Kind: "StatefulSet", Name: fmt.Sprintf("gateway-%d", n+1)}
		w.Containers = []*container{{Name: fmt.Sprintf("proxy-%d", n+1), content: c.content, Image: c.Image, Tags: []string{fmt.Sprintf("v1.27.0-build.%d", n+1)}}}
		w.advance()
		d.workloads = append(d.workloads, w)
		if err := d.cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}); err != nil {
			return err
		}
		if err := d.applyPolicy(ctx, w.Namespace); err != nil {
			return err
		}
		if err := d.deploy(ctx, w); err != nil {
			return err
		}
		if err := d.publish(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// printQuestions says how many different requests the open Findings come to.
func (d *demo) printQuestions(ctx context.Context) error {
	now, err := d.look(ctx)
	if err != nil {
		return err
	}
	open, keys, bytes := 0, map[string]int{}, int32(0)
	for i := range now.findings {
		if f := &now.findings[i]; isOpen(f) {
			open++
			keys[f.Status.Request.Key]++
			bytes = max(bytes, f.Status.Request.Bytes)
		}
	}
	d.screen.title("%s are %s: equal evidence makes an equal request.", several(open, "open Finding"), several(len(keys), "question"))
	d.screen.aside("status.request of each Finding has the SHA-256 of the exact bytes, %d at most. manager preview NAMESPACE/NAME prints them.", bytes)
	return nil
}

// pay lets the model be asked, and the budget run out.
func (d *demo) pay(ctx context.Context) ([]result, error) {
	d.asks(candorv1alpha1.ReasonEnriched, candorv1alpha1.ReasonSharedResult, candorv1alpha1.ReasonBudgetExhausted)
	title := fmt.Sprintf("Mode Active, with a budget of %d calls in an hour.", callsAllowed)
	r, err := d.step(ctx, title, func(ctx context.Context) error { return d.setMode(ctx, candorv1alpha1.ModeActive) })
	if err != nil {
		return nil, err
	}
	w, _, err := find(d.workloads, worst)
	if err != nil {
		return nil, err
	}
	if err := d.showIn(ctx, w.Namespace, "findings"); err != nil {
		return nil, err
	}
	if err := d.showIn(ctx, "", "operatingpolicies"); err != nil {
		return nil, err
	}
	if err := d.printHeldBack(ctx); err != nil {
		return nil, err
	}
	return []result{r}, d.opinion(ctx, worst)
}

func (d *demo) setMode(ctx context.Context, mode candorv1alpha1.Mode) error {
	var p candorv1alpha1.OperatingPolicy
	if err := d.cluster.Client.Get(ctx, client.ObjectKey{Name: candorv1alpha1.Singleton}, &p); err != nil {
		return err
	}
	before := p.DeepCopy()
	p.Spec.Mode = mode
	return d.cluster.Client.Patch(ctx, &p, client.MergeFrom(before))
}

// free lets the window pass.
func (d *demo) free(ctx context.Context) ([]result, error) {
	d.asks(candorv1alpha1.ReasonEnriched, candorv1alpha1.ReasonSharedResult)
	r, err := d.step(ctx, "The manager's clock is put forward: the window frees.", func(ctx context.Context) error {
		return d.passTime(ctx, window+window/10)
	})
	return []result{r}, err
}

// askNothing is what fills most days.
func (d *demo) askNothing(ctx context.Context) ([]result, error) {
	r, err := d.step(ctx, "Trivy rescans everything once more.", d.rescan)
	return []result{r}, err
}

// account compares what the fake counted with what the Ledger holds, and says how to go on with a real model.
func (d *demo) account(ctx context.Context) ([]result, error) {
	now, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	explained, overtaken := 0, 0
	for i := range now.findings {
		if f := &now.findings[i]; f.Status.Explained == candorv1alpha1.ExplainedTrue {
			explained++
			if f.Status.Enrichment.Shared {
				overtaken++
			}
		}
	}
	ledger, err := d.ledger(ctx)
	if err != nil {
		return nil, err
	}
	counted := d.model.Stats()
	d.screen.title("%s explained by %s; %d took over an equal answer.", several(explained, "Finding"), several(counted.Calls, "model call"), overtaken)
	d.screen.aside("The fake counted %s with %s, %d tokens read and %d written.", several(counted.Calls, "call"),
		several(len(counted.ByKey), "different request"), counted.InputTokens, counted.OutputTokens)
	d.screen.aside("The Ledger counted %s and %d tokens, which cost %.4f at the prices of the OperatingPolicy.", several(int(ledger.Calls), "call"),
		ledger.Tokens, float64(ledger.CostMicros)/1e6)
	d.pointToRealModel()
	return nil, nil
}

func (d *demo) pointToRealModel() {
	d.screen.title("With a real model, two commands do it, on a cluster where Candor runs. Set model, prices and budget in the second first:")
	d.screen.say("\n  kubectl create secret generic candor-llm -n candor-system --from-literal=anthropic-api-key=…")
	d.screen.say("  kubectl apply -f %s/candor_v1alpha1_operatingpolicy.yaml", samples)
	d.screen.say("\n  A server of your own that speaks the protocol of OpenAI, such as Ollama or vLLM, needs provider OpenAI and its baseURL,")
	d.screen.say("  such as http://ollama.models:11434/v1, and no key. With mode Audit nothing is sent, and what would be can be read first.")
	d.screen.say("  docs/explain.md says more.")
}

// printHeldBack says who was explained, who has to wait, and what a person reads about that.
func (d *demo) printHeldBack(ctx context.Context) error {
	now, err := d.look(ctx)
	if err != nil {
		return err
	}
	explained, waiting := map[candorv1alpha1.Severity]int{}, map[candorv1alpha1.Severity]int{}
	for i := range now.findings {
		switch f := &now.findings[i]; f.Status.Explained {
		case candorv1alpha1.ExplainedTrue:
			explained[f.Spec.Severity]++
		case candorv1alpha1.ExplainedBudget:
			waiting[f.Spec.Severity]++
		}
	}
	d.screen.say("")
	d.screen.aside("Worst first: explained are %s. Held back are %s; the window begins to free at %s.", bySeverity(explained), bySeverity(waiting),
		now.operating.Status.Budget.NextFree.UTC().Format("15:04 UTC"))
	f, err := d.finding(ctx, shared)
	if err != nil {
		return err
	}
	out, field := d.fields()
	if c := meta.FindStatusCondition(f.Status.Conditions, candorv1alpha1.ConditionEnriched); c != nil {
		field("  "+shared, "%s. %s", c.Reason, c.Message)
	}
	return out.Flush()
}

// bySeverity writes counts such as "5 CRITICAL and 2 HIGH".
func bySeverity(counts map[candorv1alpha1.Severity]int) string {
	var parts []string
	for _, severity := range []candorv1alpha1.Severity{
		candorv1alpha1.SeverityCritical, candorv1alpha1.SeverityHigh, candorv1alpha1.SeverityMedium, candorv1alpha1.SeverityLow,
	} {
		if counts[severity] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[severity], severity))
		}
	}
	return strings.Join(parts, " and ")
}

// opinion prints what a model thinks of a Finding.
func (d *demo) opinion(ctx context.Context, path string) error {
	f, err := d.finding(ctx, path)
	if err != nil {
		return err
	}
	d.screen.command(fmt.Sprintf("kubectl describe finding -n %s %s     # what the model thinks, rearranged", f.Namespace, f.Name))
	e := f.Status.Enrichment
	d.screen.say("An opinion of %s, prompt %s, %d tokens read and %d written, cost %.4f:", e.Model, llm.PromptVersion, e.Usage.InputTokens,
		e.Usage.OutputTokens, float64(e.CostMicros)/1e6)
	out, field := d.fields()
	for _, h := range f.Status.Hypotheses {
		field(fmt.Sprintf("%d %%", h.Confidence), "%s. %s Recommended: %s.", h.Cause, h.Rationale, h.RecommendedAction)
	}
	return out.Flush()
}

func (d *demo) finding(ctx context.Context, path string) (*candorv1alpha1.Finding, error) {
	w, c, err := find(d.workloads, path)
	if err != nil {
		return nil, err
	}
	f := &candorv1alpha1.Finding{}
	return f, d.cluster.Client.Get(ctx, findingOf(w, c), f)
}
