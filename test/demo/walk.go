// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// The containers that the story is about.
const (
	repaired = "shop/web/nginx"
	accepted = "payments/db/postgres"
	worst    = "payments/api/api"
)

// walk tells the story and returns what each step cost.
func (d *demo) walk(ctx context.Context) ([]result, error) {
	d.introduce()
	var results []result
	for _, chapter := range []func(context.Context) ([]result, error){
		d.arrive, d.nothingNew, d.repair, d.accept, d.sum, d.preview, d.pay, d.free, d.askNothing, d.account, d.tell, d.takeSignals, d.manageFleet,
	} {
		more, err := chapter(ctx)
		results = append(results, more...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// sum says what everything up to here cost.
func (d *demo) sum(context.Context) ([]result, error) {
	all := d.manager.counter.Writes()
	d.screen.title("So far: %s by the manager. A model would have been asked %s.",
		several(d.writes().Total(), "API write"), several(len(d.questions), "time"))
	d.screen.aside("Left out above: %s and %s.", several(all.Total()-all.Without("events").Total(), "write")+" of events",
		several(all.Total()-all.Without("leases").Total(), "write")+" of leases")
	return nil, nil
}

func (d *demo) introduce() {
	d.screen.title("Candor: %s in %s and a scanner; the manager runs as its own ServiceAccount with its own rights.",
		several(len(d.workloads), "workload"), several(len(d.namespaces()), "namespace"))
	d.screen.aside("API writes: what the manager asked the API server to store, counted at its client. Events and leases are left out.")
	d.screen.aside("Model calls: none is made yet, since no model is configured. Counted is what one would be asked: each open Finding")
	d.screen.aside("that nobody mutes, once for each content that it has had.")
}

// arrive is the first look at a cluster.
func (d *demo) arrive(ctx context.Context) ([]result, error) {
	title := fmt.Sprintf("A policy in each namespace, then %s are scanned.", several(len(d.workloads), "workload"))
	r, err := d.step(ctx, title, func(ctx context.Context) error {
		if err := d.applyPolicies(ctx); err != nil {
			return err
		}
		if _, err := d.settle(ctx); err != nil {
			return err
		}
		return d.publishAll(ctx)
	})
	if err != nil {
		return nil, err
	}
	if err := d.show(ctx, "findings"); err != nil {
		return nil, err
	}
	return []result{r}, d.describe(ctx, worst)
}

// nothingNew is what fills most days.
func (d *demo) nothingNew(ctx context.Context) ([]result, error) {
	scanned, err := d.step(ctx, "Trivy rescans everything: new UIDs, order, scores, times.", d.rescan)
	if err != nil {
		return nil, err
	}
	rolled, err := d.step(ctx, fmt.Sprintf("All %s roll out: new ReplicaSets, new tags.", several(len(d.deployments()), "Deployment")), d.rollOutAll)
	return []result{scanned, rolled}, err
}

func (d *demo) repair(ctx context.Context) ([]result, error) {
	w, c, err := find(d.workloads, repaired)
	if err != nil {
		return nil, err
	}
	r, err := d.step(ctx, "A fix ships: Deployment/"+w.Name+" gets another nginx.", func(ctx context.Context) error {
		c.Tags = append(c.Tags, c.Fixed.Tag)
		c.OS, c.Vulnerabilities = c.Fixed.OS, c.Fixed.Vulnerabilities
		return d.rollOut(ctx, w)
	})
	return []result{r}, err
}

// accept mutes a Finding, until it becomes worse.
func (d *demo) accept(ctx context.Context) ([]result, error) {
	w, c, err := find(d.workloads, accepted)
	if err != nil {
		return nil, err
	}
	muted, err := d.step(ctx, "A Suppression: someone accepts what "+w.Namespace+"/"+w.Name+" has.", func(ctx context.Context) error {
		return d.mute(ctx, findingOf(w, c))
	})
	if err != nil {
		return nil, err
	}
	if err := d.show(ctx, "signalpolicies", "suppressions"); err != nil {
		return nil, err
	}
	escalated, err := d.step(ctx, "Trivy finds another one there: the mute ends by itself.", func(ctx context.Context) error {
		c.Vulnerabilities += c.Discovered
		return d.publish(ctx, w)
	})
	if err != nil {
		return nil, err
	}
	return []result{muted, escalated}, d.show(ctx, "findings")
}

// lookAround leaves everything running for a person with kubectl.
func (d *demo) lookAround(ctx context.Context) error {
	kubeconfig := filepath.Join(d.home, "kubeconfig")
	if err := d.cluster.Kubeconfig(kubeconfig); err != nil {
		return err
	}
	d.screen.title("Look around, from another terminal. The manager goes on.")
	d.screen.say("\n  export KUBECONFIG=%s", kubeconfig)
	d.screen.say("  kubectl get findings -A")
	d.screen.say("  kubectl get candor -A")
	w, c, err := find(d.workloads, worst)
	if err != nil {
		return err
	}
	d.screen.say("  kubectl describe finding -n %s %s", w.Namespace, findingOf(w, c).Name)
	d.screen.say("  kubectl get events -n %s", w.Namespace)
	d.screen.say("\n  # Ask for more there, then for nothing, and look again:")
	d.screen.say("  kubectl patch signalpolicy default -n %s --type=merge -p '{\"spec\":{\"minSeverity\":\"LOW\"}}'", w.Namespace)
	d.screen.say("  kubectl delete signalpolicy default -n %s", w.Namespace)
	d.screen.say("\n  # The brake, and what was paid:")
	d.screen.say("  kubectl patch operatingpolicy default --type=merge -p '{\"spec\":{\"mode\":\"Audit\"}}'")
	d.screen.say("  kubectl get ledger default -o yaml")
	d.screen.say("\n  # Fleet Management, which a fake plays:")
	d.screen.say("  kubectl get pipelines,collectors,remoteattributepolicies -n %s", fleetNamespace)
	d.screen.say("\n  The manager's log: %s", d.manager.logPath)
	d.screen.say("  Ctrl-C ends and removes everything.")
	select {
	case <-ctx.Done():
		return nil
	case <-d.manager.done:
		return d.manager.explain(d.manager.health())
	}
}
