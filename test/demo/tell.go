// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

// tellingWindow is how long the demo's manager waits for more to tell in one message; so that a person need not wait.
const tellingWindow = time.Second

// sinks starts what plays the chat of every team, and lets the manager post there.
func (m *manager) sinks(home string, o *app.NotifyOptions) error {
	m.chat = sinkserver.Start(sinkserver.Options{})
	o.AllowCIDRs, o.CABundle, o.Window = "127.0.0.0/8", filepath.Join(home, "chat-ca.pem"), tellingWindow
	return os.WriteFile(o.CABundle, m.chat.CA(), 0o600)
}

// tell gives each team a chat, in which Candor tells what is new.
func (d *demo) tell(ctx context.Context) ([]result, error) {
	now, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	d.screen.title("Telling people: the policy of each namespace gets a sink, a chat of the form of Slack, which a fake plays and counts.")
	teams := len(now.policies)
	first, err := d.step(ctx, "A sink that is new is told in one message what there is.", func(ctx context.Context) error {
		if err := d.addSinks(ctx, now.policies); err != nil {
			return err
		}
		return d.told(ctx, teams)
	})
	if err != nil {
		return nil, err
	}
	d.screen.aside("%s for %s in %s.", several(len(d.manager.chat.Requests()), "message"), several(countOpen(now.findings), "open Finding"), several(teams, "namespace"))
	quiet, err := d.step(ctx, "Trivy rescans everything: nobody is told anything.", d.rescan)
	if err != nil {
		return nil, err
	}
	w, c, err := find(d.workloads, accepted)
	if err != nil {
		return nil, err
	}
	ended, err := d.step(ctx, "What "+w.Namespace+"/"+w.Name+" had is fixed.", func(ctx context.Context) error {
		c.Vulnerabilities = ""
		if err := d.publish(ctx, w); err != nil {
			return err
		}
		return d.told(ctx, teams+1)
	})
	if err != nil {
		return nil, err
	}
	return []result{first, quiet, ended}, d.printTold()
}

func countOpen(findings []candorv1alpha1.Finding) int {
	open := 0
	for i := range findings {
		if isOpen(&findings[i]) {
			open++
		}
	}
	return open
}

// addSinks gives every policy a sink, and lets the time pass in which a new sink waits for what is yet to come.
func (d *demo) addSinks(ctx context.Context, policies []candorv1alpha1.SignalPolicy) error {
	for i := range policies {
		after := policies[i].DeepCopy()
		after.Spec.Sinks = []candorv1alpha1.Sink{{Name: "chat", Type: candorv1alpha1.SinkSlack, URL: d.manager.chat.URL(sinkserver.Slack, after.Namespace)}}
		if err := d.cluster.Client.Patch(ctx, after, client.MergeFrom(&policies[i])); err != nil {
			return fmt.Errorf("adding a sink: %w", err)
		}
	}
	err := d.wait(ctx, "the policies to know their sinks", func(ctx context.Context) (bool, error) {
		now, err := d.look(ctx)
		return !slices.ContainsFunc(now.policies, func(p candorv1alpha1.SignalPolicy) bool { return len(p.Status.Sinks) == 0 }), err
	})
	if err != nil {
		return err
	}
	d.manager.clock.putForward(notify.QuietFor + time.Second)
	for i := range policies {
		select {
		case d.manager.wakePolicies <- event.GenericEvent{Object: &policies[i]}:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.manager.done:
			return errors.Join(d.manager.health(), errors.New("nobody can be woken"))
		}
	}
	return nil
}

// told waits until the chats have had so many messages, and nothing waits to be told.
func (d *demo) told(ctx context.Context, messages int) error {
	return d.wait(ctx, "people to be told", func(ctx context.Context) (bool, error) {
		now, err := d.look(ctx)
		return err == nil && len(d.manager.chat.Requests()) >= messages && !now.untold(), err
	})
}

// untold reports whether anything waits to be told.
func (s state) untold() bool {
	for i := range s.findings {
		for _, n := range s.findings[i].Status.Notified {
			if n.State == candorv1alpha1.NotificationPending {
				return true
			}
		}
	}
	for i := range s.policies {
		for _, sink := range s.policies[i].Status.Sinks {
			if len(sink.Pending) > 0 {
				return true
			}
		}
	}
	return false
}

// printTold prints the first and the last message as their receivers read them.
func (d *demo) printTold() error {
	all := d.manager.chat.Requests()
	d.screen.say("")
	for _, request := range []*sinkserver.Request{all[0], all[len(all)-1]} {
		var message struct{ Text string }
		if err := json.Unmarshal(request.Body, &message); err != nil {
			return fmt.Errorf("reading a message: %w", err)
		}
		d.screen.say("  %s", strings.ReplaceAll(message.Text, "\n", "\n  "))
	}
	return nil
}
