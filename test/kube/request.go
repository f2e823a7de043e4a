// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Request is one request to the API server, in the words of its RBAC.
type Request struct {
	Verb      string
	Group     string
	Resource  string // with its subresource: "findings/status"; the path for a request that names no resource
	Namespace string
	Name      string
	Status    int // of the answer; 0 while there is none
}

// Key is how counts name the request: "patch findings".
func (r Request) Key() string { return r.Verb + " " + r.Resource }

func (r Request) String() string {
	return fmt.Sprintf("%s %s (%d)", r.Key(), strings.Trim(r.Namespace+"/"+r.Name, "/"), r.Status)
}

// Reads reports whether the request stores nothing. An access or token review is created, but only to be answered.
func (r Request) Reads() bool {
	return slices.Contains([]string{"get", "list", "watch", "head", "options"}, r.Verb) ||
		r.Verb == "create" && (r.Group == "authorization.k8s.io" || r.Group == "authentication.k8s.io")
}

func requestOf(req *http.Request) Request {
	r := Request{Verb: strings.ToLower(req.Method), Resource: req.URL.Path}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		r.Group, parts = parts[1], parts[3:]
	default:
		return r // discovery, health, version
	}
	r.locate(parts)
	r.Verb = verb(req, r.Name != "")
	if req.Method == http.MethodPost && r.Name == "" {
		r.Name = postedName(req)
	}
	return r
}

// locate reads what follows the version: [namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]].
func (r *Request) locate(parts []string) {
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Resource += "/" + parts[2]
	}
}

func verb(req *http.Request, named bool) string {
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		if !named {
			return "deletecollection"
		}
	case http.MethodGet:
		if w := req.URL.Query().Get("watch"); w == "true" || w == "1" {
			return "watch"
		}
		if !named {
			return "list"
		}
	}
	return strings.ToLower(req.Method)
}

// postedName reads the name that a create carries in its body, where that is JSON: kinds of CRDs always are.
func postedName(req *http.Request) string {
	if req.GetBody == nil || !strings.HasPrefix(req.Header.Get("Content-Type"), "application/json") {
		return ""
	}
	body, err := req.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	var object struct {
		Metadata struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if json.NewDecoder(body).Decode(&object) != nil || object.Metadata.Name == "" && object.Metadata.GenerateName == "" {
		return ""
	}
	if object.Metadata.Name == "" {
		return object.Metadata.GenerateName + "*"
	}
	return object.Metadata.Name
}
