// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package anthropic asks models through the Messages API.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/candor-dev/candor/internal/signals/llm"
)

const defaultBaseURL = "https://api.anthropic.com"

// Backend is the Messages API of one server. It is safe for concurrent use.
type Backend struct {
	options  llm.Options
	messages sdk.MessageService
}

var _ llm.Backend = (*Backend)(nil)

// New returns a Backend that takes nothing from the environment, never retries, and records no spans of its own.
func New(options llm.Options) *Backend {
	options.BaseURL = cmp.Or(options.BaseURL, defaultBaseURL)
	client := sdk.NewClient(
		option.WithoutEnvironmentDefaults(),
		option.WithoutOpenTelemetry(),
		option.WithBaseURL(options.BaseURL),
		option.WithHTTPClient(options.HTTP),
		option.WithMaxRetries(0),
	)
	return &Backend{options: options, messages: client.Messages}
}

// Name implements llm.Backend.
func (*Backend) Name() string { return "anthropic" }

// Endpoint implements llm.Backend.
func (b *Backend) Endpoint() string { return b.options.BaseURL }

// Render implements llm.Backend. Its error is an *llm.Error that names a setting.
func (*Backend) Render(prompt llm.Prompt, settings llm.Settings) ([]byte, error) {
	if err := settings.Check(); err != nil {
		return nil, err
	}
	params := sdk.MessageNewParams{
		Model:        settings.Model,
		MaxTokens:    int64(settings.MaxOutputTokens),
		Messages:     []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock(prompt.User))},
		OutputConfig: sdk.OutputConfigParam{Format: sdk.JSONOutputFormatParam{Schema: llm.Schema()}},
	}
	if prompt.System != "" {
		params.System = []sdk.TextBlockParam{{Text: prompt.System}}
	}
	return json.Marshal(params)
}

// Call implements llm.Backend. The key goes out as x-api-key, which every server of this API knows. Without a key nothing is
// sent.
func (b *Backend) Call(ctx context.Context, body []byte) (llm.Reply, error) {
	exchange, err := llm.NewExchange(b.options)
	if err != nil {
		return llm.Reply{}, err
	}
	if exchange.Key() == "" {
		return llm.Reply{}, &llm.Error{Class: llm.AuthFailed, Err: errors.New("there is no key: store one as anthropic-api-key in the Secret candor-llm")}
	}
	message, err := b.messages.New(ctx, sdk.MessageNewParams{},
		option.WithRequestBody("application/json", body),
		option.WithHeader("x-api-key", exchange.Key()),
		option.WithMiddleware(exchange.Watch),
	)
	if err != nil {
		return llm.Reply{}, exchange.Failure(ctx, err)
	}
	return read(exchange, message)
}

// read takes the answer out of a message.
func read(exchange *llm.Exchange, message *sdk.Message) (llm.Reply, error) {
	if message == nil || message.Type != "message" {
		return llm.Reply{}, exchange.Unusable(llm.InvalidOutput, llm.Usage{}, "the answer is no message of the Messages API: check model.provider and model.baseURL")
	}
	usage := llm.Usage{
		InputTokens:  message.Usage.InputTokens + message.Usage.CacheCreationInputTokens + message.Usage.CacheReadInputTokens,
		OutputTokens: message.Usage.OutputTokens,
	}
	switch message.StopReason {
	case sdk.StopReasonRefusal:
		return llm.Reply{}, exchange.Unusable(llm.Refused, usage, "the model declined to answer")
	case sdk.StopReasonMaxTokens:
		return llm.Reply{}, exchange.Unusable(llm.Truncated, usage, "the answer is longer than allowed: raise model.maxOutputTokens")
	case sdk.StopReasonModelContextWindowExceeded:
		return llm.Reply{}, exchange.Unusable(llm.Truncated, usage, "request and answer are longer than the model can take: choose a model with a larger context window")
	case sdk.StopReasonToolUse, sdk.StopReasonPauseTurn:
		return llm.Reply{}, exchange.Unusable(llm.InvalidOutput, usage, "the model did not finish, although it has no tools to wait for")
	}
	var text strings.Builder
	for _, block := range message.Content {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	return exchange.Reply(text.String(), message.Model, usage), nil
}
