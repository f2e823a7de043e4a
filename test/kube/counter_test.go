// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	findings = "/apis/candor.dev/v1alpha1/namespaces/team-a/findings"
	web      = `{"metadata":{"name":"web"}}`
)

func TestRequestIsNamedAsRBACNamesIt(t *testing.T) {
	finding := func(verb, resource, name string) Request {
		return Request{Verb: verb, Group: "candor.dev", Resource: resource, Namespace: "team-a", Name: name}
	}
	for name, test := range map[string]struct {
		method, path, body string
		want               Request
	}{
		"get":               {"GET", findings + "/web", "", finding("get", "findings", "web")},
		"list":              {"GET", findings + "?limit=500", "", finding("list", "findings", "")},
		"watch":             {"GET", findings + "?watch=true", "", finding("watch", "findings", "")},
		"watch in a number": {"GET", findings + "?watch=1", "", finding("watch", "findings", "")},
		"create":            {"POST", findings, web, finding("create", "findings", "web")},
		"create of a name to be made": {
			"POST", findings, `{"metadata":{"generateName":"web-"}}`,
			finding("create", "findings", "web-*"),
		},
		"create of something else": {"POST", findings, "\x00protobuf", finding("create", "findings", "")},
		"update":                   {"PUT", findings + "/web", web, finding("update", "findings", "web")},
		"update of a status":       {"PUT", findings + "/web/status", web, finding("update", "findings/status", "web")},
		"patch":                    {"PATCH", findings + "/web", web, finding("patch", "findings", "web")},
		"delete":                   {"DELETE", findings + "/web", "", finding("delete", "findings", "web")},
		"delete of all":            {"DELETE", findings, "", finding("deletecollection", "findings", "")},
		"list in all namespaces": {
			"GET", "/apis/candor.dev/v1alpha1/findings", "",
			Request{Verb: "list", Group: "candor.dev", Resource: "findings"},
		},
		"a core resource": {
			"PATCH", "/api/v1/namespaces/team-a/events/e", "",
			Request{Verb: "patch", Resource: "events", Namespace: "team-a", Name: "e"},
		},
		"a namespace": {
			"GET", "/api/v1/namespaces/team-a", "",
			Request{Verb: "get", Resource: "namespaces", Name: "team-a"},
		},
		"a namespace's subresource": {
			"PUT", "/api/v1/namespaces/team-a/finalize", "",
			Request{Verb: "update", Resource: "namespaces/finalize", Name: "team-a"},
		},
		"discovery": {"GET", "/apis/candor.dev/v1alpha1", "", Request{Verb: "get", Resource: "/apis/candor.dev/v1alpha1"}},
		"root":      {"GET", "/", "", Request{Verb: "get", Resource: "/"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			req, err := http.NewRequestWithContext(t.Context(), test.method, "https://server"+test.path, strings.NewReader(test.body))
			g.Expect(err).NotTo(HaveOccurred())
			req.Header.Set("Content-Type", "application/json")
			g.Expect(requestOf(req)).To(Equal(test.want))
		})
	}
}

// sender sends to a server that refuses every PUT.
func sender(t *testing.T, counter *Counter) func(method, path, body string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: counter.Wrap(http.DefaultTransport)}
	return func(method, path, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		response, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
}

func TestCounterTellsWritesFromReads(t *testing.T) {
	g := NewWithT(t)
	counter := NewCounter()
	send := sender(t, counter)
	send("GET", findings, "")
	send("GET", findings+"?watch=true", "")
	send("POST", findings, web)
	send("PUT", findings+"/web/status", web)
	send("PUT", findings+"/web/status", web)
	send("POST", "/apis/events.k8s.io/v1/namespaces/team-a/events", "{}")
	send("PUT", "/apis/coordination.k8s.io/v1/namespaces/candor-system/leases/candor", "{}")
	send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{}")

	writes := counter.Writes()
	g.Expect(writes).To(Equal(Counts{
		"create findings": 1, "update findings/status": 2, "create events": 1, "update leases": 1,
	}))
	g.Expect(writes.Total()).To(Equal(5))
	g.Expect(writes.Without("leases", "events", "findings")).To(BeEmpty())
	g.Expect(counter.Reads()).To(Equal(Counts{"list findings": 1, "watch findings": 1, "create selfsubjectaccessreviews": 1}))
	g.Expect(counter.Requests()[2:4]).To(HaveExactElements(
		HaveField("String()", "create findings team-a/web (200)"),
		HaveField("String()", "update findings/status team-a/web (409)"),
	))
}

func TestCounterShowsWhatOnePassAdds(t *testing.T) {
	g := NewWithT(t)
	counter := NewCounter()
	send := sender(t, counter)
	send("POST", findings, web)
	before := counter.Writes()
	g.Expect(counter.Writes().Since(before)).To(BeEmpty())
	send("PATCH", findings+"/web", web)
	g.Expect(counter.Writes().Since(before)).To(Equal(Counts{"patch findings": 1}))
	counter.Reset()
	g.Expect(counter.Writes()).To(BeEmpty())
	g.Expect(counter.Requests()).To(BeEmpty())
}

func TestCounterCountsARequestThatGetsNoAnswer(t *testing.T) {
	g := NewWithT(t)
	counter := NewCounter()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "https://server"+findings+"/web", nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = counter.Wrap(brokenTransport{}).RoundTrip(req)
	g.Expect(err).To(MatchError(http.ErrHandlerTimeout))
	g.Expect(counter.Requests()).To(ConsistOf(HaveField("Status", 0)))
}

type brokenTransport struct{}

func (brokenTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, http.ErrHandlerTimeout
}
