// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the fleet half of Candor: pipelines and collectors of Grafana Fleet Management, and the
// attributes that collectors get. Its kinds, fields, finalizers and labels are those that operators of Fleet Management have used
// before it, so that existing manifests apply unchanged.
// +kubebuilder:object:generate=true
// +groupName=fleetmanagement.grafana.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "fleetmanagement.grafana.com", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add this package's kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Pipeline{}, &PipelineList{},
		&Collector{}, &CollectorList{},
		&RemoteAttributePolicy{}, &RemoteAttributePolicyList{},
		&PipelineDiscovery{}, &PipelineDiscoveryList{},
		&CollectorDiscovery{}, &CollectorDiscoveryList{},
		&ExternalAttributeSync{}, &ExternalAttributeSyncList{},
		&TenantPolicy{}, &TenantPolicyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
