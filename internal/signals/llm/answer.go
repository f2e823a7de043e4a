// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// What a Finding holds of an answer. The API counts runes; bytes are bounded so that a Finding stays small in any script.
const (
	maxHypotheses  = 3
	causeRunes     = 300
	causeBytes     = 600
	rationaleRunes = 1000
	rationaleBytes = 1500
	// hypothesesBytes bounds the JSON of all of them, which escapes some characters with six bytes.
	hypothesesBytes = 3 << 10
)

// effort bounds the search for the object in an answer: candidates are at most that many times as long as the answer, taken
// together.
const effort = 8

// actions is every action that a model may recommend.
var actions = []candorv1alpha1.Action{candorv1alpha1.ActionNone, candorv1alpha1.ActionNotify, candorv1alpha1.ActionProposePullRequest}

// Decode reads the hypotheses from what a model said: from the first JSON object in it that lists any, whatever is around
// it. It returns one to three, surest first, which fit a Finding and hold nothing that can be clicked. Its error is an *Error
// of class InvalidOutput, which counts as billed.
func Decode(text string) ([]candorv1alpha1.Hypothesis, error) {
	problem := "no JSON object with a list named hypotheses"
	for object := range objects(text) {
		list, ok := read(object)
		if len(list) > 0 {
			return fit(rank(list)), nil
		}
		if ok {
			problem = "no hypothesis with a cause"
		}
	}
	return nil, &Error{Class: InvalidOutput, Billed: true, Err: fmt.Errorf("the answer of %d bytes holds %s", len(text), problem)}
}

// objects yields what may be a JSON object, from left to right, those inside others too.
func objects(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at, left := 0, effort*len(text); left > 0; at++ {
			next := strings.IndexByte(text[at:], '{')
			if next < 0 {
				return
			}
			at += next
			if !strings.HasPrefix(strings.TrimLeft(text[at+1:], " \t\r\n"), `"`) {
				continue
			}
			length, closed := balanced(text[at:])
			left -= length
			if closed && !yield(text[at:at+length]) {
				return
			}
		}
	}
}

// balanced returns how far the braces are open that text begins with, and whether they close.
func balanced(text string) (length int, closed bool) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(text), false
}

// read returns the hypotheses of an object that have a cause, and whether the object lists hypotheses at all.
func read(object string) ([]candorv1alpha1.Hypothesis, bool) {
	var answer struct {
		Hypotheses []json.RawMessage `json:"hypotheses"`
	}
	if err := json.Unmarshal([]byte(object), &answer); err != nil || answer.Hypotheses == nil {
		return nil, false
	}
	var list []candorv1alpha1.Hypothesis
	for _, item := range answer.Hypotheses {
		var said struct {
			Cause             json.RawMessage `json:"cause"`
			Confidence        json.RawMessage `json:"confidence"`
			Rationale         json.RawMessage `json:"rationale"`
			RecommendedAction json.RawMessage `json:"recommendedAction"`
		}
		if err := json.Unmarshal(item, &said); err != nil {
			continue
		}
		if cause := plain(unquote(said.Cause), causeRunes, causeBytes); cause != "" {
			list = append(list, candorv1alpha1.Hypothesis{
				Cause: cause, Confidence: percent(said.Confidence),
				Rationale:         plain(unquote(said.Rationale), rationaleRunes, rationaleBytes),
				RecommendedAction: action(unquote(said.RecommendedAction)),
			})
		}
	}
	return list, true
}

// rank returns the surest hypotheses, each cause once.
func rank(list []candorv1alpha1.Hypothesis) []candorv1alpha1.Hypothesis {
	slices.SortStableFunc(list, func(a, b candorv1alpha1.Hypothesis) int { return cmp.Compare(b.Confidence, a.Confidence) })
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(h candorv1alpha1.Hypothesis) bool {
		cause := strings.ToLower(h.Cause)
		again := seen[cause]
		seen[cause] = true
		return again
	})
	return slices.Clone(list[:min(len(list), maxHypotheses)])
}

// fit shortens hypotheses that are too long together. What a less sure one leaves is there for the surer ones.
func fit(list []candorv1alpha1.Hypothesis) []candorv1alpha1.Hypothesis {
	room := hypothesesBytes
	for i := range slices.Backward(list) {
		h, share := &list[i], room/(i+1)
		h.Cause = signals.CutJSON(h.Cause, share/2)
		h.Rationale = signals.CutJSON(h.Rationale, share-len(encode(*h))+len(encode(h.Rationale))-len(","))
		room -= len(encode(*h)) + len(",")
	}
	return list
}

// unquote returns a JSON string; what is none is empty.
func unquote(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// percent reads a confidence, also "85%" in quotes. A number with a fraction from 0.0 to 1.0 is a share of one; the integer 1
// is one per cent. What is no number is no confidence at all.
func percent(raw json.RawMessage) int32 {
	number, ofHundred := strings.CutSuffix(strings.Trim(string(raw), `" `), "%")
	number = strings.TrimSpace(number)
	value, _ := strconv.ParseFloat(number, 64)
	if !ofHundred && value <= 1 && strings.ContainsAny(number, ".eE") {
		value *= 100
	}
	if math.IsNaN(value) {
		return 0
	}
	return int32(math.Round(min(max(value, 0), 100)))
}

// action returns the action of that name; None when the list has no such action.
func action(word string) candorv1alpha1.Action {
	for _, known := range actions {
		if strings.EqualFold(strings.TrimSpace(word), string(known)) {
			return known
		}
	}
	return candorv1alpha1.ActionNone
}
