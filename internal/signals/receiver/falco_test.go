// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// What falcosidekick posts of a shell in a pod, and of a process on a node.
const (
	falcoInPod = `{"uuid":"1f6c","output":"18:03:12 Notice A shell was spawned (cmdline=bash -c curl -H 'Token: hunter2')","priority":"Notice",` +
		`"rule":"Terminal shell in container","time":"2026-03-01T18:03:12.123456789Z","source":"syscall","tags":["shell","container","shell","mitre_execution"],` +
		`"output_fields":{"container.id":"0f2a","container.image.repository":"docker.io/library/nginx","container.name":"nginx","evt.time":1772388192123456789,` +
		`"k8s.ns.name":"team-a","k8s.pod.name":"web-7d4b9c-x2x8z","proc.cmdline":"bash -c curl -H 'Token: hunter2'","proc.pid":4711,"proc.tty":34816},"hostname":"node-1"}`
	falcoOnNode = `{"uuid":"2a7d","output":"…","priority":"Critical","rule":"Drop and execute new binary","time":"2026-03-01T18:03:12Z","source":"syscall","tags":null,` +
		`"output_fields":{"container.id":"host","container.name":"host","k8s.ns.name":null,"k8s.pod.name":"<NA>","proc.name":"x"},"hostname":"node-1"}`
)

func TestEventsOfFalco(t *testing.T) {
	longRule := strings.Repeat("Write below etc ", 10)
	for name, c := range map[string]struct {
		body string
		want said
	}{
		"in a pod: without what it was called with": {falcoInPod, said{form: FormFalco, namespace: "team-a", Signal: Signal{
			Severity: "LOW", Kind: "Pod", Name: "web-7d4b9c-x2x8z", Container: "nginx", ID: "Terminal shell in container",
			Summary: "Terminal shell in container (container, mitre_execution, shell)",
		}}},
		"on a node": {falcoOnNode, said{form: FormFalco, Signal: Signal{
			Severity: "CRITICAL", Kind: "Node", Name: "node-1", ID: "Drop and execute new binary", Summary: "Drop and execute new binary",
		}}},
		"in a container that Kubernetes does not know": {
			`{"rule":"R","priority":"Error","output_fields":{"container.name":"builder"},"hostname":"node-1"}`,
			said{form: FormFalco, Signal: Signal{Severity: "HIGH", Kind: "Node", Name: "node-1", Container: "builder", ID: "R", Summary: "R"}},
		},
		"without fields": {
			`{"rule":"R","priority":"Warning","hostname":"node-1","output_fields":null}`,
			said{form: FormFalco, Signal: Signal{Severity: "MEDIUM", Kind: "Node", Name: "node-1", ID: "R", Summary: "R"}},
		},
		"of a rule with a name too long for an id": {
			fmt.Sprintf(`{"rule":%q,"priority":"Debug","hostname":"node-1"}`, longRule),
			said{form: FormFalco, Signal: Signal{
				Severity: "LOW", Kind: "Node", Name: "node-1", ID: longRule[:108] + "… 4e895b89cf2b8378", Summary: strings.TrimSpace(longRule),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := reading(http.Header{}, c.body, proof{})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(s).To(Equal(c.want))
			NewWithT(t).Expect(len(s.ID)).To(BeNumerically("<=", 128))
		})
	}
}

func TestPrioritiesOfFalco(t *testing.T) {
	for priority, want := range map[string]candorv1alpha1.Severity{
		"Emergency": "CRITICAL", "Alert": "CRITICAL", "Critical": "CRITICAL", "Error": "HIGH", "Warning": "MEDIUM", "Notice": "LOW", "Informational": "LOW",
		"Info": "LOW", "Debug": "LOW", "WARNING": "MEDIUM",
	} {
		s, err := reading(http.Header{}, strings.Replace(falcoInPod, `"Notice"`, `"`+priority+`"`, 1), proof{})
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), priority)
		NewWithT(t).Expect(s.Severity).To(Equal(want), priority)
	}
}

func TestWrongEventsOfFalco(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"an unknown priority": {
			`{"rule":"R","priority":"Urgent","hostname":"n"}`,
			"priority: must be one of Falco: Emergency, Alert, Critical, Error, Warning, Notice, Informational or Debug",
		},
		"no name of the rule":         {`{"rule":"\u200b","priority":"Info","hostname":"n"}`, "rule: must name the rule of Falco"},
		"neither a pod nor a node":    {`{"rule":"R","priority":"Info"}`, "hostname: must name the node where output_fields names no pod in k8s.pod.name"},
		"a pod of no namespace":       {`{"rule":"R","priority":"Info","output_fields":{"k8s.pod.name":"p"}}`, "output_fields.k8s.ns.name: must be there beside k8s.pod.name"},
		"a pod of a number":           {`{"rule":"R","priority":"Info","output_fields":{"k8s.pod.name":5}}`, "output_fields.k8s.pod.name: must be text"},
		"tags that are no list":       {`{"rule":"R","priority":"Info","tags":"a"}`, "tags: must be a list"},
		"fields that are a list":      {`{"rule":"R","priority":"Info","output_fields":[]}`, "output_fields: must be an object"},
		"a pod whose name is a path":  {`{"rule":"R","priority":"Info","output_fields":{"k8s.ns.name":"team-a","k8s.pod.name":"a/b"}}`, "name: must be that of an object: 1 to 253 bytes, without / and %"},
		"a priority that is a number": {`{"rule":"R","priority":2,"hostname":"n"}`, "priority: must be text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := reading(http.Header{}, c.body, proof{})
			NewWithT(t).Expect(err).To(MatchError(c.want))
		})
	}
}

func TestRulesWithLongNamesStayApart(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("é", 100)
	g.Expect(shortened(long + "a")).NotTo(Equal(shortened(long + "b")))
	g.Expect(len(shortened(long))).To(BeNumerically("<=", 128))
	g.Expect(shortened(strings.Repeat("a", 128))).To(Equal(strings.Repeat("a", 128)))
}
