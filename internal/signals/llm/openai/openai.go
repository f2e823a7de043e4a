// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openai asks models through the Chat Completions API, of OpenAI or of the many servers that speak it too.
package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/llm"
)

const (
	defaultBaseURL = "https://api.openai.com/v1"
	schemaName     = "hypotheses"
)

// Backend is the Chat Completions API of one server. It is safe for concurrent use.
type Backend struct {
	options     llm.Options
	completions sdk.ChatCompletionService
}

var _ llm.Backend = (*Backend)(nil)

// New returns a Backend that never retries. It makes the service and not the SDK's client, since the client alone reads the
// environment, and cannot be told not to.
func New(options llm.Options) *Backend {
	options.BaseURL = cmp.Or(options.BaseURL, defaultBaseURL)
	return &Backend{options: options, completions: sdk.NewChatCompletionService(
		option.WithBaseURL(options.BaseURL),
		option.WithHTTPClient(options.HTTP),
		option.WithMaxRetries(0),
	)}
}

// Name implements llm.Backend.
func (*Backend) Name() string { return "openai" }

// Endpoint implements llm.Backend.
func (b *Backend) Endpoint() string { return b.options.BaseURL }

// Render implements llm.Backend. Its error is an *llm.Error that names a setting.
func (*Backend) Render(prompt llm.Prompt, settings llm.Settings) ([]byte, error) {
	if err := settings.Check(); err != nil {
		return nil, err
	}
	params := sdk.ChatCompletionNewParams{Model: settings.Model}
	if prompt.System != "" {
		params.Messages = append(params.Messages, sdk.SystemMessage(prompt.System))
	}
	params.Messages = append(params.Messages, sdk.UserMessage(prompt.User))
	switch limit := sdk.Int(int64(settings.MaxOutputTokens)); candorv1alpha1.TokenLimit(settings.TokenLimit) {
	case candorv1alpha1.TokenLimitMaxCompletionTokens, "":
		params.MaxCompletionTokens = limit
	case candorv1alpha1.TokenLimitMaxTokens:
		params.MaxTokens = limit
	default:
		return nil, unknown("tokenLimit", settings.TokenLimit, candorv1alpha1.TokenLimitMaxCompletionTokens, candorv1alpha1.TokenLimitMaxTokens)
	}
	switch candorv1alpha1.StructuredOutput(settings.StructuredOutput) {
	case candorv1alpha1.StructuredJSONSchema, "":
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: schemaName, Strict: sdk.Bool(true), Schema: llm.Schema()},
		}
	case candorv1alpha1.StructuredJSONObject:
		params.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	case candorv1alpha1.StructuredNone:
	default:
		return nil, unknown("structuredOutput", settings.StructuredOutput, candorv1alpha1.StructuredJSONSchema, candorv1alpha1.StructuredJSONObject, candorv1alpha1.StructuredNone)
	}
	return json.Marshal(params)
}

func unknown[T ~string](field, value string, known ...T) error {
	return &llm.Error{Class: llm.ConfigInvalid, Err: fmt.Errorf("model.%s is %q: set it to one of %v", field, value, known)}
}

// Call implements llm.Backend. Without a key no Authorization header is sent: many servers in a cluster need none.
func (b *Backend) Call(ctx context.Context, body []byte) (llm.Reply, error) {
	exchange, err := llm.NewExchange(b.options)
	if err != nil {
		return llm.Reply{}, err
	}
	completion, err := b.completions.New(ctx, sdk.ChatCompletionNewParams{},
		option.WithRequestBody("application/json", body),
		option.WithAPIKey(exchange.Key()),
		option.WithMiddleware(exchange.Watch),
	)
	if err != nil {
		return llm.Reply{}, exchange.Failure(ctx, err)
	}
	return read(exchange, completion)
}

// read takes the answer out of a completion.
func read(exchange *llm.Exchange, completion *sdk.ChatCompletion) (llm.Reply, error) {
	if completion == nil || len(completion.Choices) == 0 {
		return llm.Reply{}, exchange.Unusable(llm.InvalidOutput, usageOf(completion), "the answer is no completion of the Chat Completions API: check model.provider and model.baseURL")
	}
	usage, choice := usageOf(completion), completion.Choices[0]
	switch {
	case choice.FinishReason == "content_filter", choice.Message.Refusal != "":
		return llm.Reply{}, exchange.Unusable(llm.Refused, usage, "the model or a filter of its server declined to answer")
	case choice.FinishReason == "length":
		return llm.Reply{}, exchange.Unusable(llm.Truncated, usage, "the answer is longer than allowed: raise model.maxOutputTokens")
	case choice.FinishReason == "tool_calls", choice.FinishReason == "function_call":
		return llm.Reply{}, exchange.Unusable(llm.InvalidOutput, usage, "the model calls a tool, although it has none")
	}
	return exchange.Reply(choice.Message.Content, completion.Model, usage), nil
}

func usageOf(completion *sdk.ChatCompletion) llm.Usage {
	if completion == nil {
		return llm.Usage{}
	}
	return llm.Usage{InputTokens: completion.Usage.PromptTokens, OutputTokens: completion.Usage.CompletionTokens}
}
