// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// completions is the Chat Completions API of OpenAI.
type completions struct{}

var (
	openAIFields = []string{
		"model", "messages", "max_completion_tokens", "max_tokens", "response_format", "stream", "temperature", "top_p", "n", "stop", "seed", "user", "metadata", "store",
		"service_tier",
	}
	// These reason, and know neither max_tokens nor sampling parameters.
	reasoningModels = regexp.MustCompile(`^(o\d|gpt-([5-9]|\d\d))`)
	formatName      = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	roles           = []string{"system", "developer", "user", "assistant"}
)

func (completions) protocol() Protocol      { return OpenAI }
func (completions) requestIDHeader() string { return "x-request-id" }

func (completions) authorize(r *http.Request, key string) *refusal {
	given := bearer(r)
	switch {
	case key == "" || given == key:
		return nil
	case given == "":
		return &refusal{status: http.StatusUnauthorized, kind: invalidRequest, message: "You didn't provide an API key."}
	}
	masked := given[:min(3, len(given))] + strings.Repeat("*", 8)
	return &refusal{status: http.StatusUnauthorized, kind: invalidRequest, code: "invalid_api_key", message: "Incorrect API key provided: " + masked + "."}
}

func (c completions) check(_ http.Header, request object) *refusal {
	refused := c.parameters(request)
	if refused == nil {
		refused = c.conversation(request)
	}
	if refused == nil {
		refused = c.responseFormat(request)
	}
	if refused != nil {
		refused.status, refused.kind = http.StatusBadRequest, invalidRequest
	}
	return refused
}

func (completions) parameters(request object) *refusal {
	model, _ := request["model"].(string)
	reasons := reasoningModels.MatchString(model)
	switch unknown := unknownField(request, openAIFields...); {
	case unknown != "":
		return &refusal{code: "unknown_parameter", param: unknown, message: "Unknown parameter: '" + unknown + "'."}
	case model == "":
		return &refusal{message: "you must provide a model parameter"}
	case request["max_tokens"] != nil && request["max_completion_tokens"] != nil:
		return &refusal{code: "invalid_parameter_combination", message: "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."}
	case request["max_tokens"] != nil && reasons:
		return &refusal{
			code: "unsupported_parameter", param: "max_tokens",
			message: "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
		}
	case request["stream"] == true:
		return &refusal{param: "stream", message: "this fake does not stream"}
	}
	for _, name := range []string{"temperature", "top_p"} {
		if value := request[name]; value != nil && value != 1.0 && reasons {
			return &refusal{code: "unsupported_value", param: name, message: fmt.Sprintf("Unsupported value: '%s' does not support %v with this model. Only the default (1) value is supported.", name, value)}
		}
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if value := request[name]; value != nil && positive(value) == 0 {
			return &refusal{code: "integer_below_min_value", param: name, message: "Invalid '" + name + "': integer below minimum value. Expected a value >= 1."}
		}
	}
	return nil
}

func (completions) conversation(request object) *refusal {
	list, _ := request["messages"].([]any)
	if len(list) == 0 {
		return &refusal{code: "missing_required_parameter", param: "messages", message: "Missing required parameter: 'messages'."}
	}
	for i, item := range list {
		message, _ := item.(object)
		role, _ := message["role"].(string)
		if unknown := unknownField(message, "role", "content", "name"); unknown != "" {
			param := fmt.Sprintf("messages[%d].%s", i, unknown)
			return &refusal{code: "unknown_parameter", param: param, message: "Unknown parameter: '" + param + "'."}
		}
		if !contains(roles, role) {
			return &refusal{code: "invalid_value", param: "messages", message: "Invalid value: '" + role + "'."}
		}
		if _, ok := texts(message["content"]); !ok {
			return &refusal{code: "invalid_type", param: "messages", message: "Invalid type for 'messages': expected a string or a list of text parts."}
		}
	}
	return nil
}

func (c completions) responseFormat(request object) *refusal {
	format, _ := request["response_format"].(object)
	refuse := func(message string) *refusal { return &refusal{param: "response_format", message: message} }
	switch {
	case request["response_format"] == nil, format["type"] == "text":
		return nil
	case format["type"] == "json_object":
		system, user := c.prompt(request)
		if !strings.Contains(strings.ToLower(system+user), "json") {
			return &refusal{param: "messages", message: "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."}
		}
		return nil
	case format["type"] != "json_schema":
		return refuse("Invalid value for 'response_format.type'. Supported values are: 'json_object', 'json_schema', and 'text'.")
	}
	wrapped, _ := format["json_schema"].(object)
	name, _ := wrapped["name"].(string)
	schema, _ := wrapped["schema"].(object)
	switch unknown := unknownField(wrapped, "name", "description", "schema", "strict"); {
	case unknown != "":
		return &refusal{code: "unknown_parameter", param: "response_format.json_schema." + unknown, message: "Unknown parameter: 'response_format.json_schema." + unknown + "'."}
	case name == "":
		return &refusal{code: "missing_required_parameter", param: "response_format.json_schema.name", message: "Missing required parameter: 'response_format.json_schema.name'."}
	case !formatName.MatchString(name):
		return &refusal{param: "response_format.json_schema.name", message: "Invalid 'response_format.json_schema.name': expected at most 64 characters of a-z, A-Z, 0-9, _ and -."}
	case wrapped["strict"] != true:
		return nil
	case schema == nil || schema["type"] != "object":
		return refuse(fmt.Sprintf("Invalid schema for response_format '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%v\"'.", name, schema["type"]))
	}
	if message := strictSchema(schema, nil); message != "" {
		return refuse(fmt.Sprintf("Invalid schema for response_format '%s': %s", name, message))
	}
	return nil
}

func (completions) unknownModel(model string) *refusal {
	return &refusal{
		status: http.StatusNotFound, kind: invalidRequest, code: "model_not_found",
		message: "The model `" + model + "` does not exist or you do not have access to it.",
	}
}

func (completions) prompt(request object) (system, user string) {
	var systems, users []string
	for _, item := range request["messages"].([]any) {
		message := item.(object)
		text, _ := texts(message["content"])
		if message["role"] == "system" || message["role"] == "developer" {
			systems = append(systems, text)
		} else {
			users = append(users, text)
		}
	}
	return strings.Join(systems, "\n"), strings.Join(users, "\n")
}

func (completions) limit(request object) int64 {
	return max(positive(request["max_tokens"]), positive(request["max_completion_tokens"]))
}

func (completions) answer(call *Call, said reply) object {
	message := object{"role": "assistant", "content": said.text, "refusal": nil, "annotations": []any{}}
	if said.stop == stopRefused {
		message["content"], message["refusal"] = nil, "I'm sorry, I can't help with that."
	}
	reason := "stop"
	if said.stop == stopLength {
		reason = "length"
	}
	return object{
		"id": "chatcmpl-" + call.Key[:24], "object": "chat.completion", "created": 1767225600, "model": call.Model, "service_tier": "default", "system_fingerprint": nil,
		"choices": []any{object{"index": 0, "message": message, "logprobs": nil, "finish_reason": reason}},
		"usage": object{
			"prompt_tokens": said.input, "completion_tokens": said.output, "total_tokens": said.input + said.output,
			"prompt_tokens_details":     object{"cached_tokens": said.input / 4, "audio_tokens": 0},
			"completion_tokens_details": object{"reasoning_tokens": 0, "audio_tokens": 0},
		},
	}
}

func (completions) fail(w http.ResponseWriter, refused *refusal, _ string) {
	failure := object{"message": refused.message, "type": refused.kind, "param": nil, "code": nil}
	if refused.param != "" {
		failure["param"] = refused.param
	}
	if refused.code != "" {
		failure["code"] = refused.code
	}
	writeJSON(w, refused.status, object{"error": failure})
}
