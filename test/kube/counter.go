// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Counter counts what a client asks of the API server: config.Wrap(counter.Wrap). A request counts when it is sent, and each
// retry of client-go counts again.
type Counter struct {
	mu       sync.Mutex
	requests []*Request
}

// NewCounter returns a counter at zero; it may count for any number of clients.
func NewCounter() *Counter { return &Counter{} }

// Wrap has the type that rest.Config's Wrap takes.
func (c *Counter) Wrap(next http.RoundTripper) http.RoundTripper {
	return &countingTransport{counter: c, next: next}
}

// Writes counts the requests that store something, by "verb resource" ("update findings/status"), refused ones included. Leases
// and events are among them: leave them out with Without.
func (c *Counter) Writes() Counts { return c.count(func(r Request) bool { return !r.Reads() }) }

// Reads counts the others: "get secrets", "watch findings", "get /apis".
func (c *Counter) Reads() Counts { return c.count(Request.Reads) }

// Requests lists all of them in the order in which they were sent.
func (c *Counter) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := make([]Request, 0, len(c.requests))
	for _, r := range c.requests {
		requests = append(requests, *r)
	}
	return requests
}

// Reset forgets everything.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = nil
}

func (c *Counter) count(wanted func(Request) bool) Counts {
	counts := Counts{}
	for _, r := range c.Requests() {
		if wanted(r) {
			counts[r.Key()]++
		}
	}
	return counts
}

func (c *Counter) sent(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
}

func (c *Counter) answered(r *Request, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Status = status
}

// Counts are numbers of requests by Request.Key; a key that is there is never zero.
type Counts map[string]int

// Total is the sum over all keys.
func (c Counts) Total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// Without returns the counts of other resources; a resource goes with its subresources.
func (c Counts) Without(resources ...string) Counts {
	rest := maps.Clone(c)
	maps.DeleteFunc(rest, func(key string, _ int) bool {
		_, resource, _ := strings.Cut(key, " ")
		resource, _, _ = strings.Cut(resource, "/")
		return slices.Contains(resources, resource)
	})
	return rest
}

// Since returns what came on top of earlier counts.
func (c Counts) Since(before Counts) Counts {
	added := Counts{}
	for key, n := range c {
		if more := n - before[key]; more > 0 {
			added[key] = more
		}
	}
	return added
}

type countingTransport struct {
	counter *Counter
	next    http.RoundTripper
}

func (t *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	request := requestOf(req)
	t.counter.sent(&request)
	response, err := t.next.RoundTrip(req)
	if err == nil {
		t.counter.answered(&request, response.StatusCode)
	}
	return response, err
}

// WrappedRoundTripper lets client-go reach the transport below, to close its connections.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
