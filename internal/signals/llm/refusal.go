// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxWait is the longest wait that a server may ask for.
const maxWait = time.Hour

var (
	// quotaCodes are the types and codes of errors that say that the account has nothing left.
	quotaCodes = []string{
		"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "billing_error", "contract_spend_limit_reached", "enforced_spend_limit_reached",
		"linked_organization_spend_limit_reached", "linked_organization_billing_unavailable",
	}
	// quotaWords begin the messages that say the same with status 400 and no code of their own.
	quotaWords = []string{"Your credit balance is too low", "You have reached your specified "}
	remedies   = map[Class]string{
		QuotaExhausted: "; add credit or raise the limit at the provider",
		AuthFailed:     "; check the key and what it may use",
		ModelNotFound:  "; check model.name and model.baseURL",
	}
)

// refused says what the status of an error means. Only a failed server may have charged for it.
func (x *Exchange) refused() *Error {
	status, said := x.response.StatusCode, parseRefusal(x.head)
	class := classOf(status, said)
	text := strings.TrimSpace(fmt.Sprintf("the server answered %d %s", status, http.StatusText(status)))
	if words := x.words(said.message, maxWords); words != "" {
		text += ": " + words
	}
	return &Error{
		Class: class, After: waitOf(x.response.Header), Billed: status >= http.StatusInternalServerError,
		Err: errors.New(text + remedies[class]),
	}
}

func classOf(status int, said refusal) Class {
	switch {
	case status >= http.StatusInternalServerError:
		return Unavailable
	case status == http.StatusPaymentRequired, said.ofQuota():
		return QuotaExhausted
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return AuthFailed
	case status == http.StatusNotFound, slices.Contains(said.codes, "model_not_found"):
		return ModelNotFound
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return Unavailable
	default:
		return ConfigInvalid
	}
}

// refusal is what the body of an error says.
type refusal struct {
	message string
	codes   []string
}

func (r refusal) ofQuota() bool {
	return slices.ContainsFunc(r.codes, func(code string) bool { return slices.Contains(quotaCodes, code) }) ||
		slices.ContainsFunc(quotaWords, func(words string) bool { return strings.HasPrefix(r.message, words) })
}

// parseRefusal reads the error of either API, and of servers that speak it loosely: an error that is a string, or fields
// without an error around them. A body of another kind says nothing.
func parseRefusal(body []byte) refusal {
	var top map[string]any
	_ = json.Unmarshal(body, &top)
	inner, ok := top["error"].(map[string]any)
	if !ok {
		inner = top
	}
	details, _ := inner["details"].(map[string]any)
	var said refusal
	for _, value := range []any{inner["type"], inner["code"], details["error_code"]} {
		if code, ok := value.(string); ok {
			said.codes = append(said.codes, code)
		}
	}
	for _, value := range []any{inner["message"], top["error"], top["detail"]} {
		if text, ok := value.(string); ok && said.message == "" {
			said.message = text
		}
	}
	return said
}

// waitOf returns how long a server asks to wait. A date counts from the server's own clock; without that it says nothing.
func waitOf(header http.Header) time.Duration {
	wait := seconds(header.Get("Retry-After-Ms")) / 1000
	if wait == 0 {
		wait = seconds(header.Get("Retry-After"))
	}
	until, badDate := http.ParseTime(header.Get("Retry-After"))
	sent, noClock := http.ParseTime(header.Get("Date"))
	if badDate == nil && noClock == nil {
		wait = until.Sub(sent).Seconds()
	}
	return time.Duration(min(max(wait, 0), maxWait.Seconds()) * float64(time.Second))
}

func seconds(text string) float64 {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(number) {
		return 0
	}
	return max(number, 0)
}
