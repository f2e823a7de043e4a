// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation says what is wrong, or surprising, about objects that people write. What needs none of this operator's flags and
// can be said in a CRD stands in the types as well, so that an installation without webhooks keeps it too.
package validation

import (
	"net/url"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
)

// Options are what validation knows of the operator's flags.
type Options struct {
	// MaxPipelineBytes bounds the contents of a Pipeline; 0 is no bound but that of the CRD.
	MaxPipelineBytes int
	// AttributeValueMax is how many characters the value of an attribute may have; 0 stands for what Grafana documents.
	AttributeValueMax int
	// NameScope is the scope of a Pipeline that does not choose one; empty stands for none.
	NameScope string
	// CheckURL says why the address of a source must not be asked; nil lets every one pass.
	CheckURL func(*url.URL) error
}

func (o Options) attributeLimits() attributes.Limits {
	return attributes.DefaultLimits().WithValue(o.AttributeValueMax)
}

// findings are what rules have to say.
type findings struct {
	warnings []string
	errs     field.ErrorList
}

func (f *findings) warn(path *field.Path, text string) {
	f.warnings = append(f.warnings, path.String()+": "+text)
}

func (f *findings) refuse(path *field.Path, value any, remedy string) {
	f.errs = append(f.errs, field.Invalid(path, value, remedy))
}

func (f *findings) require(path *field.Path, remedy string) {
	f.errs = append(f.errs, field.Required(path, remedy))
}

// unsaid stands for a value that an error does not repeat, since it is long or may be secret.
var unsaid = field.OmitValueType{}

// rule is one thing that an object of type T must keep.
type rule[T metav1.Object] struct {
	// reads returns all that the rule looks at.
	reads func(T) any
	// check looks at an object; old is the zero T for a new one.
	check func(old, now T, f *findings)
}

// apply asks the rules about an object. One that is being deleted passes, and so does whatever an update leaves as it was: a rule
// that is younger than an object must not stand in the way of its finalizers, its annotations or its other fields.
func apply[T interface {
	metav1.Object
	comparable
}](old, now T, rules []rule[T],
) ([]string, field.ErrorList) {
	var f findings
	var none T
	if now.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	for _, r := range rules {
		if old == none || !equality.Semantic.DeepEqual(r.reads(old), r.reads(now)) {
			r.check(old, now, &f)
		}
	}
	return f.warnings, f.errs
}

var spec = field.NewPath("spec")

// Collector returns what is surprising and what is wrong about a Collector; old is nil for a new one.
func Collector(old, c *fleetmanagementv1alpha1.Collector, o Options) ([]string, field.ErrorList) {
	return apply(old, c, collectorRules(o))
}

// RemoteAttributePolicy returns what is surprising and what is wrong about a policy; old is nil for a new one.
func RemoteAttributePolicy(old, p *fleetmanagementv1alpha1.RemoteAttributePolicy, o Options) ([]string, field.ErrorList) {
	return apply(old, p, policyRules(o))
}

// PipelineDiscovery returns what is surprising and what is wrong about a discovery; old is nil for a new one.
func PipelineDiscovery(old, d *fleetmanagementv1alpha1.PipelineDiscovery) ([]string, field.ErrorList) {
	return apply(old, d, pipelineDiscoveryRules())
}

// CollectorDiscovery returns what is surprising and what is wrong about a discovery; old is nil for a new one.
func CollectorDiscovery(old, d *fleetmanagementv1alpha1.CollectorDiscovery) ([]string, field.ErrorList) {
	return apply(old, d, collectorDiscoveryRules())
}

// ExternalAttributeSync returns what is surprising and what is wrong about a sync; old is nil for a new one.
func ExternalAttributeSync(old, s *fleetmanagementv1alpha1.ExternalAttributeSync, o Options) ([]string, field.ErrorList) {
	return apply(old, s, syncRules(o))
}

// TenantPolicy returns what is surprising and what is wrong about a policy; old is nil for a new one.
func TenantPolicy(old, p *fleetmanagementv1alpha1.TenantPolicy, o Options) ([]string, field.ErrorList) {
	return apply(old, p, tenantPolicyRules(o))
}

// Pipeline returns what is surprising and what is wrong about a Pipeline; old is nil for a new one.
func Pipeline(old, p *fleetmanagementv1alpha1.Pipeline, o Options) ([]string, field.ErrorList) {
	return apply(old, p, pipelineRules(o))
}
