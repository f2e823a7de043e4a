// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver

import (
	"net/http"
	"regexp"
	"strings"
)

// messages is the Messages API of Anthropic.
type messages struct{}

var (
	anthropicVersions = []string{"2023-06-01", "2026-10-21"}
	anthropicFields   = []string{"model", "max_tokens", "messages", "system", "output_config", "metadata", "service_tier", "stop_sequences", "stream"}
	sampling          = []string{"temperature", "top_p", "top_k"}
	// These still knew sampling parameters under the former version of the API.
	samplingModels = regexp.MustCompile(`^claude-(3|(opus|sonnet|haiku)-4-[0-6]($|-))`)
)

func (messages) protocol() Protocol      { return Anthropic }
func (messages) requestIDHeader() string { return "request-id" }

func (messages) authorize(r *http.Request, key string) *refusal {
	given := r.Header.Get("x-api-key")
	if given == "" {
		given = bearer(r)
	}
	switch {
	case given == "":
		return &refusal{status: http.StatusUnauthorized, kind: "authentication_error", message: "x-api-key header is required"}
	case key != "" && given != key:
		return &refusal{status: http.StatusUnauthorized, kind: "authentication_error", message: "invalid x-api-key"}
	}
	return nil
}

func (m messages) check(header http.Header, request object) *refusal {
	message := m.mistake(header.Get("anthropic-version"), request)
	if message == "" {
		return nil
	}
	return &refusal{status: http.StatusBadRequest, kind: invalidRequest, message: message}
}

func (m messages) mistake(version string, request object) string {
	model, _ := request["model"].(string)
	known := anthropicFields
	if version == anthropicVersions[0] && samplingModels.MatchString(model) {
		known = append(append([]string{}, known...), sampling...)
	}
	switch unknown := unknownField(request, known...); {
	case version == "":
		return "anthropic-version: header is required"
	case !contains(anthropicVersions, version):
		return "anthropic-version: " + version + " is not a valid version"
	case unknown != "":
		return unknown + ": Extra inputs are not permitted"
	case model == "":
		return "model: Field required"
	case request["max_tokens"] == nil:
		return "max_tokens: Field required"
	case positive(request["max_tokens"]) == 0:
		return "max_tokens: Input should be greater than or equal to 1"
	case request["stream"] == true:
		return "stream: this fake does not stream"
	}
	if message := m.conversation(request); message != "" {
		return message
	}
	return m.outputConfig(request["output_config"])
}

func (messages) conversation(request object) string {
	if system, given := request["system"]; given {
		if _, ok := texts(system); !ok {
			return "system: text content blocks must be non-empty"
		}
	}
	list, _ := request["messages"].([]any)
	if len(list) == 0 {
		return "messages: at least one message is required"
	}
	for _, item := range list {
		message, _ := item.(object)
		if unknown := unknownField(message, "role", "content"); unknown != "" {
			return "messages.0." + unknown + ": Extra inputs are not permitted"
		}
		if message["role"] != "user" && message["role"] != "assistant" {
			return "messages.0.role: Input should be 'user' or 'assistant'"
		}
		if _, ok := texts(message["content"]); !ok {
			return "messages: text content blocks must be non-empty"
		}
	}
	return ""
}

func (messages) outputConfig(value any) string {
	if value == nil {
		return ""
	}
	config, _ := value.(object)
	format, _ := config["format"].(object)
	switch unknown := unknownField(format, "type", "schema"); {
	case unknownField(config, "format") != "":
		return "output_config." + unknownField(config, "format") + ": This model does not support it"
	case unknown != "":
		return "output_config.format." + unknown + ": Extra inputs are not permitted"
	case format["type"] != "json_schema":
		return "output_config.format.type: Input should be 'json_schema'"
	}
	schema, ok := format["schema"].(object)
	if !ok {
		return "output_config.format.schema: Field required"
	}
	if message := anthropicSchema(schema); message != "" {
		return "output_config.format.schema: " + message
	}
	return ""
}

func (messages) unknownModel(model string) *refusal {
	return &refusal{status: http.StatusNotFound, kind: "not_found_error", message: "model: " + model}
}

func (messages) prompt(request object) (system, user string) {
	system, _ = texts(request["system"])
	var all []string
	for _, item := range request["messages"].([]any) {
		text, _ := texts(item.(object)["content"])
		all = append(all, text)
	}
	return system, strings.Join(all, "\n")
}

func (messages) limit(request object) int64 { return positive(request["max_tokens"]) }

func (messages) answer(call *Call, said reply) object {
	reason := map[stop]string{stopDone: "end_turn", stopLength: "max_tokens", stopRefused: "refusal"}[said.stop]
	content := []any{object{"type": "text", "text": said.text, "citations": nil}}
	var details any
	if said.stop == stopRefused {
		content = []any{}
		details = object{"type": "refusal", "category": nil, "explanation": nil}
	}
	return object{
		"id": "msg_" + call.Key[:24], "type": "message", "role": "assistant", "model": call.Model, "content": content,
		"stop_reason": reason, "stop_sequence": nil, "stop_details": details, "container": nil,
		"usage": object{
			"input_tokens": said.input - said.input/4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": said.input / 4,
			"output_tokens": said.output, "service_tier": "standard",
		},
	}
}

func (messages) fail(w http.ResponseWriter, refused *refusal, requestID string) {
	failure := object{"type": refused.kind, "message": refused.message}
	if refused.code != "" {
		failure["details"] = object{"error_code": refused.code}
	}
	writeJSON(w, refused.status, object{"type": "error", "error": failure, "request_id": requestID})
}
