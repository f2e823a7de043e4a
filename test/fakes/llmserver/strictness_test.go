// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/test/fakes/llmserver"
)

const (
	a = llmserver.Anthropic
	o = llmserver.OpenAI
)

// strictness is one change of a good request, and how the original refuses it.
type strictness struct {
	protocol llmserver.Protocol
	change   func(header map[string]string, request object) any // returns a body of its own, or nil for the request
	status   int
	says     string
}

func body(change func(request object)) func(map[string]string, object) any {
	return func(_ map[string]string, request object) any {
		change(request)
		return nil
	}
}

func header(name, value string) func(map[string]string, object) any {
	return func(header map[string]string, _ object) any {
		header[name] = value
		return nil
	}
}

func text(raw string) func(map[string]string, object) any {
	return func(map[string]string, object) any { return raw }
}

func set(name string, value any) func(map[string]string, object) any {
	return body(func(request object) { request[name] = value })
}

func drop(name string) func(map[string]string, object) any {
	return body(func(request object) { delete(request, name) })
}

func keyword(protocol llmserver.Protocol, property, name string, value any) func(map[string]string, object) any {
	return body(func(request object) { at(items(request, formats[protocol]...), property)[name] = value })
}

func schemaOf(protocol llmserver.Protocol, change func(schema object)) func(map[string]string, object) any {
	return body(func(request object) { change(at(request, append(formats[protocol], "schema")...)) })
}

func TestTheServerIsAsStrictAsTheOriginals(t *testing.T) {
	for name, test := range map[string]strictness{
		"Anthropic: no key":                       {a, header("x-api-key", ""), 401, "x-api-key header is required"},
		"Anthropic: a wrong key":                  {a, header("x-api-key", "other"), 401, "invalid x-api-key"},
		"Anthropic: no version":                   {a, header("anthropic-version", ""), 400, "anthropic-version: header is required"},
		"Anthropic: a version that never was":     {a, header("anthropic-version", "2020-01-01"), 400, "is not a valid version"},
		"Anthropic: no JSON by its type":          {a, header("Content-Type", "text/plain"), 400, "Content-Type"},
		"Anthropic: no JSON":                      {a, text(`{"model":`), 400, "not valid JSON"},
		"Anthropic: no model":                     {a, drop("model"), 400, "model: Field required"},
		"Anthropic: a model that does not exist":  {a, set("model", "claude-2"), 404, "model: claude-2"},
		"Anthropic: no max_tokens":                {a, drop("max_tokens"), 400, "max_tokens: Field required"},
		"Anthropic: max_tokens of none":           {a, set("max_tokens", 0), 400, "max_tokens: Input should be greater"},
		"Anthropic: no messages":                  {a, drop("messages"), 400, "at least one message"},
		"Anthropic: an empty text":                {a, set("messages", []any{object{"role": "user", "content": ""}}), 400, "must be non-empty"},
		"Anthropic: an empty system":              {a, set("system", ""), 400, "system: text content blocks must be non-empty"},
		"Anthropic: a role of the other API":      {a, set("messages", []any{object{"role": "tool", "content": "x"}}), 400, "role: Input should be"},
		"Anthropic: a field of the other API":     {a, set("response_format", object{}), 400, "response_format: Extra inputs are not permitted"},
		"Anthropic: a temperature":                {a, set("temperature", 1), 400, "temperature: Extra inputs are not permitted"},
		"Anthropic: top_p":                        {a, set("top_p", 1), 400, "top_p: Extra inputs are not permitted"},
		"Anthropic: an effort":                    {a, body(func(r object) { at(r, "output_config")["effort"] = "low" }), 400, "output_config.effort"},
		"Anthropic: a format it does not know":    {a, body(func(r object) { at(r, "output_config", "format")["type"] = "json_object" }), 400, "output_config.format.type"},
		"Anthropic: a name for the format":        {a, body(func(r object) { at(r, "output_config", "format")["name"] = "x" }), 400, "output_config.format.name: Extra inputs"},
		"Anthropic: a stream":                     {a, set("stream", true), 400, "does not stream"},
		"Anthropic: minimum":                      {a, keyword(a, "n", "minimum", 0), 400, "output_config.format.schema: For 'integer' type, property 'minimum' is not supported"},
		"Anthropic: maximum":                      {a, keyword(a, "n", "maximum", 100), 400, "property 'maximum' is not supported"},
		"Anthropic: two of them":                  {a, body(func(r object) { n := at(items(r, formats[a]...), "n"); n["minimum"], n["maximum"] = 0, 100 }), 400, "properties maximum, minimum are not supported"},
		"Anthropic: minLength":                    {a, keyword(a, "s", "minLength", 1), 400, "For 'string' type, property 'minLength' is not supported"},
		"Anthropic: maxLength":                    {a, keyword(a, "s", "maxLength", 1), 400, "'maxLength'"},
		"Anthropic: maxItems":                     {a, schemaOf(a, func(s object) { at(s, "properties", "list")["maxItems"] = 3 }), 400, "For 'array' type, property 'maxItems' is not supported"},
		"Anthropic: minItems above one":           {a, schemaOf(a, func(s object) { at(s, "properties", "list")["minItems"] = 2 }), 400, "'minItems'"},
		"Anthropic: open objects":                 {a, schemaOf(a, func(s object) { delete(s, "additionalProperties") }), 400, "'additionalProperties' must be explicitly set to false"},
		"Anthropic: open objects below":           {a, schemaOf(a, func(s object) { at(s, "properties", "list", "items")["additionalProperties"] = true }), 400, "'additionalProperties' must be"},
		"OpenAI: no key":                          {o, header("Authorization", ""), 401, "You didn't provide an API key."},
		"OpenAI: a wrong key":                     {o, header("Authorization", "Bearer sk-other"), 401, "Incorrect API key provided: sk-********."},
		"OpenAI: no JSON":                         {o, text(`no`), 400, "not valid JSON"},
		"OpenAI: no model":                        {o, drop("model"), 400, "you must provide a model parameter"},
		"OpenAI: a model that does not exist":     {o, set("model", "gpt-2"), 404, "The model `gpt-2` does not exist"},
		"OpenAI: no messages":                     {o, drop("messages"), 400, "Missing required parameter: 'messages'."},
		"OpenAI: a role that nobody has":          {o, set("messages", []any{object{"role": "boss", "content": "x"}}), 400, "Invalid value: 'boss'."},
		"OpenAI: a content that is no text":       {o, set("messages", []any{object{"role": "user", "content": 1}}), 400, "Invalid type for 'messages'"},
		"OpenAI: a field of the other API":        {o, set("output_config", object{}), 400, "Unknown parameter: 'output_config'."},
		"OpenAI: the former limit":                {o, body(func(r object) { delete(r, "max_completion_tokens"); r["max_tokens"] = 1 }), 400, "Use 'max_completion_tokens' instead."},
		"OpenAI: both limits":                     {o, set("max_tokens", 1), 400, "at the same time"},
		"OpenAI: a limit of none":                 {o, set("max_completion_tokens", 0), 400, "integer below minimum value"},
		"OpenAI: a temperature":                   {o, set("temperature", 0.2), 400, "Unsupported value: 'temperature' does not support 0.2 with this model."},
		"OpenAI: a stream":                        {o, set("stream", true), 400, "does not stream"},
		"OpenAI: any JSON without the word":       {o, set("response_format", object{"type": "json_object"}), 400, "must contain the word 'json'"},
		"OpenAI: a format that it does not know":  {o, set("response_format", object{"type": "xml"}), 400, "Invalid value for 'response_format.type'"},
		"OpenAI: a schema without a name":         {o, body(func(r object) { delete(at(r, formats[o]...), "name") }), 400, "Missing required parameter: 'response_format.json_schema.name'."},
		"OpenAI: a name of 65 characters":         {o, body(func(r object) { at(r, formats[o]...)["name"] = strings.Repeat("n", 65) }), 400, "at most 64 characters"},
		"OpenAI: a name with a blank":             {o, body(func(r object) { at(r, formats[o]...)["name"] = "a b" }), 400, "a-z, A-Z, 0-9, _ and -"},
		"OpenAI: open objects":                    {o, schemaOf(o, func(s object) { delete(s, "additionalProperties") }), 400, "Invalid schema for response_format 'list': In context=(), 'additionalProperties' is required to be supplied and to be false."},
		"OpenAI: open objects below":              {o, schemaOf(o, func(s object) { at(s, "properties", "list", "items")["additionalProperties"] = true }), 400, "In context=('properties', 'list', 'items'), 'additionalProperties'"},
		"OpenAI: a property that is not required": {o, schemaOf(o, func(s object) { at(s, "properties", "list", "items")["required"] = []any{"n"} }), 400, "Missing 's'."},
		"OpenAI: a requirement of nothing":        {o, schemaOf(o, func(s object) { s["required"] = []any{"list", "x"} }), 400, "Extra required key 'x' supplied."},
		"OpenAI: oneOf":                           {o, keyword(o, "s", "oneOf", []any{}), 400, "'oneOf' is not permitted."},
		"OpenAI: a schema that is a list":         {o, schemaOf(o, func(s object) { s["type"] = "array" }), 400, `schema must be a JSON Schema of 'type: "object"'`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := llmserver.Start(llmserver.Options{Key: key, Models: []string{"claude-sonnet-5", "gpt-5.5"}})
			defer server.Close()
			headers, request := headersOf(test.protocol), requestOf(test.protocol)
			var sent any = request
			if own := test.change(headers, request); own != nil {
				sent = own
			}
			status, answer, received := send(t, addressOf(server, test.protocol), headers, sent)
			failure := at(answer, "error")
			g.Expect(failure["message"]).To(ContainSubstring(test.says))
			g.Expect(status).To(Equal(test.status))
			g.Expect(failure["type"]).To(MatchRegexp(`^(invalid_request|authentication|not_found)_error$`))
			if test.protocol == a {
				g.Expect(answer["type"]).To(Equal("error"))
				g.Expect(answer["request_id"]).To(Equal(received.Get("request-id")))
			} else {
				g.Expect(failure).To(And(HaveKey("param"), HaveKey("code")))
				g.Expect(received.Get("x-request-id")).To(HavePrefix("req_"))
			}
			stats := server.Stats()
			g.Expect([]int{stats.Calls, stats.Refused}).To(Equal([]int{1, 1}))
			g.Expect(stats.InputTokens + stats.OutputTokens).To(BeZero())
			g.Expect(server.Journal()[0].Refused).To(Equal(failure["message"]))
		})
	}
}

func TestTheServerTakesWhatTheOriginalsTake(t *testing.T) {
	for name, test := range map[string]strictness{
		"Anthropic: a good request": {protocol: a, change: body(func(object) {})},
		"Anthropic: the key as a bearer": {protocol: a, change: func(h map[string]string, _ object) any {
			delete(h, "x-api-key")
			h["Authorization"] = "Bearer " + key
			return nil
		}},
		"Anthropic: a temperature in former days": {protocol: a, change: func(h map[string]string, r object) any {
			h["anthropic-version"] = "2023-06-01"
			r["model"], r["temperature"] = "claude-sonnet-4-5", 0.2
			return nil
		}},
		"Anthropic: minItems of one": {protocol: a, change: schemaOf(a, func(s object) { at(s, "properties", "list")["minItems"] = 1 })},
		"Anthropic: no schema":       {protocol: a, change: drop("output_config")},
		"OpenAI: a good request":     {protocol: o, change: body(func(object) {})},
		"OpenAI: bounds in a schema": {protocol: o, change: keyword(o, "n", "minimum", 0)},
		"OpenAI: a loose schema":     {protocol: o, change: body(func(r object) { f := at(r, formats[o]...); f["strict"] = false; delete(at(f, "schema"), "required") })},
		"OpenAI: any JSON": {protocol: o, change: body(func(r object) {
			r["response_format"] = object{"type": "json_object"}
			r["messages"] = []any{object{"role": "user", "content": "as JSON"}}
		})},
		"OpenAI: the former limit, a local model": {protocol: o, change: body(func(r object) {
			delete(r, "max_completion_tokens")
			r["model"], r["max_tokens"], r["temperature"] = "llama4", 900, 0
		})},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := llmserver.Start(llmserver.Options{Key: key})
			defer server.Close()
			headers, request := headersOf(test.protocol), requestOf(test.protocol)
			test.change(headers, request)
			status, answer, _ := send(t, addressOf(server, test.protocol), headers, request)
			g.Expect(status).To(Equal(200), "%v", answer)
			g.Expect(server.Stats().Refused).To(BeZero())
		})
	}
}
