// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// NewScheme returns a scheme of every typed kind that the manager reads or writes.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(operatorsv2.AddToScheme(scheme))
	utilruntime.Must(candorv1alpha1.AddToScheme(scheme))
	utilruntime.Must(fleetmanagementv1alpha1.AddToScheme(scheme))
	return scheme
}
