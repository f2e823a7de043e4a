// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the signals half of Candor: what to look at, what was found, what is muted.
// +kubebuilder:object:generate=true
// +groupName=candor.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "candor.dev", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add this package's kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&SignalPolicy{}, &SignalPolicyList{},
		&Finding{}, &FindingList{},
		&Suppression{}, &SuppressionList{},
		&OperatingPolicy{}, &OperatingPolicyList{},
		&Ledger{}, &LedgerList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
