// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slack writes messages for incoming webhooks of Slack, and of what understands the same and reads the text alone, such
// as Mattermost.
package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/candor-dev/candor/internal/signals/notify"
)

const (
	contentType = "application/json"
	// maxTitle is how much a header of Slack holds, in characters.
	maxTitle = 150
)

// payload is the body of an incoming webhook. Blocks are shown where they are understood, and the text elsewhere.
type payload struct {
	Text        string  `json:"text"`
	Blocks      []block `json:"blocks"`
	UnfurlLinks bool    `json:"unfurl_links"`
	UnfurlMedia bool    `json:"unfurl_media"`
}

type block struct {
	Type string `json:"type"`
	Text text   `json:"text"`
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
	// Verbatim keeps Slack from making links of names and addresses.
	Verbatim bool `json:"verbatim,omitempty"`
}

// Render returns the requests for a message.
func Render(m notify.Message) ([]notify.Request, error) {
	m = m.Clean()
	switch {
	case m.Kind == notify.KindEvents:
		return events(m)
	case m.Kind == notify.KindDigest && m.Digest != nil:
		return alone(m, "Digest of", digest(m.Digest))
	case m.Kind == notify.KindSummary && m.Summary != nil:
		return alone(m, "Findings in", summary(m))
	case m.Kind == notify.KindBudget && m.Budget != nil:
		return alone(m, "Budget exhausted in", budget(m))
	default:
		return nil, notify.Unknown(m)
	}
}

func events(m notify.Message) ([]notify.Request, error) {
	var requests []notify.Request
	for batch := range slices.Chunk(m.Events, notify.MaxEvents) {
		paragraphs := make([]string, 0, len(batch))
		for _, e := range batch {
			paragraphs = append(paragraphs, told(e))
		}
		r, err := request(m, notify.BatchKey(batch), title(batch), paragraphs)
		if err != nil {
			return nil, err
		}
		r.Events = notify.Keys(batch)
		requests = append(requests, r)
	}
	return requests, nil
}

func alone(m notify.Message, title string, paragraphs ...string) ([]notify.Request, error) {
	r, err := request(m, m.Key, title, paragraphs)
	return []notify.Request{r}, err
}

// request writes a message with a title that ends with the namespace.
func request(m notify.Message, key, title string, paragraphs []string) (notify.Request, error) {
	top := "*" + title + "* " + code(m.Namespace, maxName)
	p := payload{
		Text:   strings.Join(append([]string{top}, paragraphs...), "\n\n"),
		Blocks: []block{{Type: "header", Text: text{Type: "plain_text", Text: title + " " + escape(m.Namespace, maxTitle-len(title)-1)}}},
	}
	for _, paragraph := range paragraphs {
		p.Blocks = append(p.Blocks, block{Type: "section", Text: text{Type: "mrkdwn", Text: paragraph, Verbatim: true}})
	}
	body, err := json.Marshal(p)
	if err != nil {
		return notify.Request{}, fmt.Errorf("writing a message for Slack as JSON: %w", err)
	}
	return notify.Request{ContentType: contentType, Body: body, Key: key}, nil
}
