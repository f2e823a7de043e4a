// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// noAnswer is what a sender is told when the API server is in trouble.
const noAnswer = "the cluster gives no answer: try again"

// fullRetry is when a signal that found no room may find some: somebody has to make it.
const fullRetry = time.Minute

// answer is what a sender is told.
type answer struct {
	status int
	// retry is when to try again; zero says nothing of it.
	retry  time.Duration
	Result Result `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// refusal is the one answer to everybody who is not authenticated.
func refusal() answer {
	return answer{status: http.StatusUnauthorized, Error: "not authenticated: no such receiver, or the signature, its time, the token or the size is wrong, or the request was taken before"}
}

func notFound() answer {
	return answer{status: http.StatusNotFound, Error: "not found: POST to /webhook/{namespace}/{policy}"}
}

func unavailable(problem string) answer {
	return answer{status: http.StatusServiceUnavailable, retry: time.Second, Error: problem}
}

func tooMany(wait time.Duration) answer {
	return answer{status: http.StatusTooManyRequests, retry: wait, Error: "too many signals for this policy: 10 a second are taken"}
}

func accepted(result Result) answer {
	if result == Full {
		return answer{
			status: http.StatusTooManyRequests, retry: fullRetry, Result: Full,
			Error: "the policy has as many Findings as its webhookReceiver.maxFindings allows: resolve some, or raise it",
		}
	}
	return answer{status: http.StatusAccepted, Result: result}
}

// write sends the answer. A refusal ends the connection, since what is left of a body that is too large may end it, and all
// refusals are alike.
func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
		h.Set("Connection", "close")
	}
	if a.retry > 0 {
		seconds := (a.retry + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	content, _ := json.Marshal(a) // two texts
	h.Set("Content-Length", strconv.Itoa(len(content)+1))
	w.WriteHeader(a.status)
	_, _ = w.Write(append(content, '\n')) // nobody is left to tell
}
