// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package llm asks a language model what may be behind a Finding, and trusts nothing that it says.
package llm

import (
	"context"
	"net/http"
)

// MaxAnswer bounds what is read of an answer, in bytes.
const MaxAnswer = 1 << 20

// Prompt is what a model is asked. Nothing in it differs between Findings with equal evidence.
type Prompt struct {
	// System is the instruction, the same for every Finding.
	System string
	// User holds the evidence, fenced as data.
	User string
}

// Settings are a model and its limits. The words are those of the API of the OperatingPolicy.
type Settings struct {
	Model           string
	MaxOutputTokens int32
	// StructuredOutput is how a server is told the shape of the answer: JSONSchema, JSONObject or None. Only OpenAI's
	// protocol looks at it.
	StructuredOutput string
	// TokenLimit is the field that carries MaxOutputTokens: MaxCompletionTokens or MaxTokens. Only OpenAI's protocol looks
	// at it.
	TokenLimit string
}

// Backend is one model API.
type Backend interface {
	// Name is the label of metrics: anthropic or openai.
	Name() string
	// Endpoint is the address that calls go to.
	Endpoint() string
	// Render returns the exact body of the request. Equal prompts and settings give equal bytes.
	Render(prompt Prompt, settings Settings) ([]byte, error)
	// Call sends such a body once. Each error is an *Error.
	Call(ctx context.Context, body []byte) (Reply, error)
}

// Options are what every backend is made of.
type Options struct {
	// BaseURL is the address of the server; empty means that of the provider.
	BaseURL string
	// Key returns the present key; it is called for each request, since keys are renewed in place.
	Key func() string
	// HTTP sends the requests; egress.NewClient makes it, with MaxAnswer.
	HTTP *http.Client
}

// Reply is what a model said.
type Reply struct {
	// Text is the answer, not yet decoded.
	Text string
	// Model is the model as the server named it.
	Model string
	// RequestID is the server's name for the request; empty where it gives none.
	RequestID string
	Usage     Usage
}

// Usage counts tokens as the server reports them.
type Usage struct {
	// InputTokens counts what was read, also from a cache of the server.
	InputTokens int64
	// OutputTokens counts what was written, also while reasoning.
	OutputTokens int64
}
