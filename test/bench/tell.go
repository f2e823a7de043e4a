// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

// sinksEach is how many sinks the policy of each namespace has.
const sinksEach = 2

// listen starts what the sinks of all namespaces are posted to.
func (b *bench) listen() error {
	b.sinks = sinkserver.Start(sinkserver.Options{})
	if err := os.WriteFile(b.sinkCA(), b.sinks.CA(), 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}

func (b *bench) sinkCA() string { return filepath.Join(b.folder, "sinks.pem") }

// telling gives a policy sinks.
func (b *bench) telling(p *candorv1alpha1.SignalPolicy) {
	p.Spec.Sinks = []candorv1alpha1.Sink{
		{Name: "hook", Type: candorv1alpha1.SinkWebhook, URL: b.sinks.URL(sinkserver.Webhook, p.Namespace)},
		{Name: "chat", Type: candorv1alpha1.SinkSlack, URL: b.sinks.URL(sinkserver.Slack, p.Namespace)},
	}
}

// startTelling starts Candor with leave to post to the sinks.
func (b *bench) startTelling(ctx context.Context) (*process, error) {
	return b.startManager(ctx, "--notification-allow-cidrs=127.0.0.0/8", "--notification-ca-bundle="+b.sinkCA())
}

// firstSync waits until every sink was told of what there is.
func (b *bench) firstSync(ctx context.Context) error {
	return b.manager.await(ctx, `candor_notifications_total{event="Created",outcome="delivered"`, float64(sinksEach*b.size.namespaces))
}

// sayTold prints what sinks have been told so far.
func (b *bench) sayTold() {
	fmt.Printf("first install: %d Findings, %d sinks, %d messages: %d to webhooks, %d to chats\n", b.size.reports, sinksEach*b.size.namespaces,
		len(b.sinks.Requests()), len(b.sinks.Requests(sinkserver.Webhook)), len(b.sinks.Requests(sinkserver.Slack)))
}
