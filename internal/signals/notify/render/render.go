// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render chooses the form in which a sink is told.
package render

import (
	"fmt"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/alertmanager"
	"github.com/candor-dev/candor/internal/signals/notify/cloudevents"
	"github.com/candor-dev/candor/internal/signals/notify/slack"
	"github.com/candor-dev/candor/internal/signals/notify/webhook"
)

// Requests returns what to post to a sink of a type, in order. There is nothing to post where a message says nothing to it.
func Requests(sink candorv1alpha1.SinkType, m notify.Message, o notify.Options) ([]notify.Request, error) {
	switch sink {
	case candorv1alpha1.SinkWebhook:
		return webhook.Render(m)
	case candorv1alpha1.SinkSlack:
		return slack.Render(m)
	case candorv1alpha1.SinkAlertmanager:
		return alertmanager.Render(m, o)
	case candorv1alpha1.SinkCloudEvents:
		return cloudevents.Render(m)
	default:
		return nil, fmt.Errorf("type %q of the sink is unknown: use Webhook, Slack, Alertmanager or CloudEvents", sink)
	}
}
