// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Posted is the provider of signals that other tools post. It has no reports, and so no class in a table.
const Posted = "webhook"

// refPosted starts the kind by which a Finding refers to a signal that was posted; the name of the policy follows.
const refPosted = "WebhookEvent/"

// PostedTo returns the identity of signals that are posted to a policy with an id, about one object.
func PostedTo(namespace, policy, id, kind, name, container string) Identity {
	return Identity{Provider: Posted, Namespace: namespace, Kind: kind, Name: name, Container: container, Ref: policy + "/" + id}
}

// Policy returns the policy that a signal of this identity was posted to; empty for what reports say.
func (i Identity) Policy() string {
	policy, _, _ := strings.Cut(i.Ref, "/") // no name of an object holds one
	return policy
}

// posting returns the id of a signal of this identity.
func (i Identity) posting() string {
	_, id, _ := strings.Cut(i.Ref, "/")
	return id
}

// refOf returns what tells apart the signals about the object of a source; empty for what reports say.
func refOf(s candorv1alpha1.Source) string {
	if s.Provider != Posted {
		return ""
	}
	return strings.TrimPrefix(s.RefKind, refPosted) + "/" + s.RefName
}

// PostedSpec returns what a Finding of this identity says about a signal that was posted, and its one entry. The summary is the
// sender's; an empty one is computed.
func PostedSpec(id Identity, rank Rank, summary string) (candorv1alpha1.FindingSpec, Evidence) {
	class := Class{Provider: Posted, Kind: schema.GroupVersionKind{Kind: refPosted + id.Policy()}, One: "signal", Many: "signals", NoFix: true}
	evidence := PostedEvidence(id, rank)
	evidence.Entries[0].Message = summary
	report := Report{
		Subject: Subject{Namespace: id.Namespace, Kind: id.Kind, Name: id.Name, Container: id.Container},
		Name:    id.posting(), Summary: CutJSON(summary, summaryBytes), Entries: evidence.Entries,
	}
	return Spec(class, id, report, evidence), evidence
}

// PostedEvidence returns the one entry of a signal of this identity, without its message.
func PostedEvidence(id Identity, rank Rank) Evidence {
	return Evidence{Entries: []Entry{{Rank: rank, ID: id.posting()}}, Worst: rank}
}
