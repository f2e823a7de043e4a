// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"errors"
	"fmt"
)

// Schema returns the JSON schema of an answer, the same for every model. It keeps to what all servers of structured output
// take: every property is required, nothing else is allowed, and no keyword bounds a value, a length or a count. Decode
// bounds them.
func Schema() map[string]any {
	return object(map[string]any{
		"hypotheses": map[string]any{
			"type":        "array",
			"description": "One to three hypotheses, likeliest first.",
			"items": object(map[string]any{
				"cause":             described("string", "One sentence: what may be behind it, and the change that removes it."),
				"confidence":        described("integer", "How sure you are, in per cent, from 0 to 100."),
				"rationale":         described("string", "Why you think so, from the evidence alone."),
				"recommendedAction": map[string]any{"type": "string", "enum": actions, "description": "What to do next."},
			}, "cause", "confidence", "rationale", "recommendedAction"),
		},
	}, "hypotheses")
}

func object(properties map[string]any, required ...string) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func described(kind, description string) map[string]any {
	return map[string]any{"type": kind, "description": description}
}

// Check returns an error of class ConfigInvalid, which names the field, when no request can be made of the settings.
func (s Settings) Check() error {
	switch {
	case s.Model == "":
		return invalid(errors.New("the model has no name: set model.name"))
	case s.MaxOutputTokens < 1:
		return invalid(fmt.Errorf("model.maxOutputTokens is %d: set it to 1 or more", s.MaxOutputTokens))
	default:
		return nil
	}
}

func invalid(err error) error { return &Error{Class: ConfigInvalid, Err: err} }
