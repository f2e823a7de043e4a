// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LedgerScopeCluster is the name of the scope that counts every call.
const LedgerScopeCluster = "cluster"

// LedgerScopeNamespace returns the name of the scope that counts the calls of a namespace.
func LedgerScopeNamespace(namespace string) string { return "ns/" + namespace }

// LedgerBucket is what was reserved and spent between two moments.
type LedgerBucket struct {
	// start is the first second, counted from 1970-01-01 in UTC.
	// +required
	Start int64 `json:"start"`

	// end is the second after the last one, counted alike.
	// +required
	End int64 `json:"end"`

	// calls is the number of calls.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Calls int64 `json:"calls,omitempty"`

	// tokens is the number of tokens.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Tokens int64 `json:"tokens,omitempty"`

	// costMicros is the cost in millionths of the currency of the prices.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CostMicros int64 `json:"costMicros,omitempty"`
}

// LedgerScope is what the cluster, or one namespace, spent.
type LedgerScope struct {
	// name is cluster, or ns/ and the name of a namespace.
	// +required
	// +kubebuilder:validation:MaxLength=66
	Name string `json:"name"`

	// windowSeconds is the longest window that these buckets were counted in, if that is longer than a day, up to 31 days. A
	// policy that is deleted, or made short, for a moment refunds nothing.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WindowSeconds int64 `json:"windowSeconds,omitempty"`

	// buckets are the times in which something was spent, oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Buckets []LedgerBucket `json:"buckets,omitempty"`
}

// LedgerSpec is empty: a Ledger asks for nothing.
type LedgerSpec struct{}

// LedgerStatus is what was spent.
type LedgerStatus struct {
	// scopes are the cluster and every namespace that spent something that may still count. The list is atomic: a record of
	// who manages which scope would be as long as the scopes.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="What was spent"
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=12000
	Scopes []LedgerScope `json:"scopes,omitempty"`
}

// Ledger is what models were paid. Candor alone writes it. It outlives policies, so that a policy that is deleted and made
// again refunds nothing; deleting it forgets what was spent.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one Ledger, named default, which Candor makes itself"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Ledger",resources={{SignalPolicy,v1alpha1,""}}
type Ledger struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is empty.
	// +optional
	Spec LedgerSpec `json:"spec,omitzero"`

	// status is what was spent; the finding controller alone writes it.
	// +optional
	Status LedgerStatus `json:"status,omitempty"`
}

// LedgerList is a list of Ledgers.
// +kubebuilder:object:root=true
type LedgerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ledger `json:"items"`
}
