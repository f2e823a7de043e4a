// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// lookUpTimeout bounds a question about TenantPolicies or rights. The API server gives the webhook 5 s.
const lookUpTimeout = 2 * time.Second

// newsPoll is how often it is asked for what has just been created.
const newsPoll = 50 * time.Millisecond

// Tenancy knows the TenantPolicies.
type Tenancy interface {
	// RulesFor returns what binds a user who writes into a namespace.
	RulesFor(ctx context.Context, user tenant.User, namespace string) (tenant.Rules, error)
}

// tenantRule is what TenantPolicies say about a kind.
type tenantRule[T client.Object] struct {
	// reads returns all that the rule is about: an update that leaves it as it was passes.
	reads func(T) any
	// target returns the namespace that the object works in beside its own; empty, as a nil target, for none.
	target func(T) string
	// check returns what rules forbid; old is nil for a new object.
	check func(old, now T, rules tenant.Rules) field.ErrorList
}

// admission asks the policies that bind who writes the object. What cannot be found out is no permission.
func (r tenantRule[T]) admission(o Options) admit[T] {
	if o.Tenancy == nil {
		return nil
	}
	return func(ctx context.Context, old, now T) (field.ErrorList, error) {
		if !isNew(old) && equality.Semantic.DeepEqual(r.reads(old), r.reads(now)) {
			return nil, nil
		}
		request, err := admission.RequestFromContext(ctx)
		if err != nil {
			return nil, unanswered("whom TenantPolicies bind", err)
		}
		user := tenant.User{Name: request.UserInfo.Username, Groups: request.UserInfo.Groups}
		if user.Name == o.Self && o.Self != "" {
			return nil, nil
		}
		namespaces := []string{now.GetNamespace()}
		if r.target != nil && r.target(now) != "" && r.target(now) != now.GetNamespace() {
			namespaces = append(namespaces, r.target(now))
		}
		ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
		defer cancel()
		for _, namespace := range namespaces {
			rules, err := rulesFor(ctx, o.Tenancy, user, namespace)
			if err != nil {
				return nil, unanswered("what TenantPolicies allow in the namespace "+namespace, err)
			}
			if errs := r.forbids(old, now, rules); len(errs) > 0 {
				return errs, nil
			}
		}
		return nil, nil
	}
}

// rulesFor waits for a namespace that is so new that no watch has told of it: people create it together with what they put into it.
func rulesFor(ctx context.Context, tenancy Tenancy, user tenant.User, namespace string) (rules tenant.Rules, err error) {
	_ = wait.PollUntilContextCancel(ctx, newsPoll, true, func(ctx context.Context) (bool, error) {
		rules, err = tenancy.RulesFor(ctx, user, namespace)
		return !apierrors.IsNotFound(err), nil
	})
	return rules, err
}

func (r tenantRule[T]) forbids(old, now T, rules tenant.Rules) field.ErrorList {
	if !rules.Bound() {
		return nil
	}
	if err := rules.Broken(); err != nil {
		return field.ErrorList{field.Forbidden(spec, err.Error()+": have it mended")}
	}
	return r.check(old, now, rules)
}

// unanswered is the error about a question that has no answer, so that the write is refused.
func unanswered(question string, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("refused, since it cannot be told %s; try again: %w", question, err))
}

var spec = field.NewPath("spec")

func forbidden(path *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, err.Error())}
}

func checkSelector(path *field.Path, matchers, ids []string, rules tenant.Rules) field.ErrorList {
	return append(forbidden(path.Child("matchers"), rules.CheckMatchers(matchers)), forbidden(path.Child("collectorIDs"), rules.CheckIDs(ids))...)
}

// checkGiving judges a selector of collectors that are given attributes.
func checkGiving(s fleetmanagementv1alpha1.PolicySelector, rules tenant.Rules) field.ErrorList {
	path := spec.Child("selector")
	return append(checkSelector(path, s.Matchers, s.CollectorIDs, rules), forbidden(path, rules.CheckUnseenCollectors())...)
}

// pipelineTenancy looks at the whole spec: who changes the contents of a pipeline that is not his changes what others run. A mirror
// that becomes managed is looked at, too, and so is what names another pipeline to show or to take over.
var pipelineTenancy = tenantRule[*fleetmanagementv1alpha1.Pipeline]{
	reads: func(p *fleetmanagementv1alpha1.Pipeline) any { return []any{p.Spec, strangerOf(p)} },
	check: func(old, now *fleetmanagementv1alpha1.Pipeline, rules tenant.Rules) field.ErrorList {
		errs := forbidden(spec.Child("matchers"), rules.CheckMatchers(now.Spec.Matchers))
		if stranger := strangerOf(now); stranger != nil && (old == nil || !slices.Equal(stranger, strangerOf(old))) {
			errs = append(errs, forbidden(spec, rules.CheckUnseenPipeline())...)
		}
		return errs
	},
}

// strangerOf says by what a Pipeline finds one in Fleet Management that it did not make; nil for one that looks for none.
func strangerOf(p *fleetmanagementv1alpha1.Pipeline) []string {
	mirror, adopts := pipelines.IsMirror(p), p.Spec.AdoptionPolicy == fleetmanagementv1alpha1.AdoptAlways
	id, scope := p.Annotations[fleetmanagementv1alpha1.AnnotationPipelineID], p.Annotations[fleetmanagementv1alpha1.AnnotationNameScope]
	if !mirror && !adopts && id == "" {
		return nil
	}
	return []string{strconv.FormatBool(mirror), strconv.FormatBool(adopts), id, scope, nameOf(p)}
}

var collectorTenancy = tenantRule[*fleetmanagementv1alpha1.Collector]{
	reads: func(c *fleetmanagementv1alpha1.Collector) any { return c.Spec },
	check: func(old, now *fleetmanagementv1alpha1.Collector, rules tenant.Rules) field.ErrorList {
		var before map[string]string
		if old != nil {
			before = old.Spec.RemoteAttributes
		}
		var errs field.ErrorList
		if reason := checkCollector(old, now, rules); reason != "" {
			errs = append(errs, field.Forbidden(spec.Child("id"), reason))
		}
		for _, key := range slices.Sorted(maps.Keys(now.Spec.RemoteAttributes)) {
			value := now.Spec.RemoteAttributes[key]
			if was, existed := before[key]; existed && was == value {
				continue
			}
			if reason := rules.CheckAttribute(key, value); reason != "" {
				errs = append(errs, field.Forbidden(spec.Child("remoteAttributes").Key(key), reason))
			}
		}
		return errs
	},
}

// checkCollector judges a collector by what its status tells of it, which who writes the object cannot change by that. Of one that
// the status does not tell of only the ID is judged, and the controller judges the rest. One that asks for nothing yet is judged again
// when it does.
func checkCollector(old, now *fleetmanagementv1alpha1.Collector, rules tenant.Rules) string {
	switch {
	case old != nil && old.Status.Registered:
		return rules.CheckCollector(now.Spec.ID, func(key string) string { return withoutUs(old.Status, key) })
	case len(now.Spec.RemoteAttributes) == 0 && now.Spec.Name == "" && now.Spec.Enabled == nil:
		return rules.CheckCollectorID(now.Spec.ID)
	default:
		return rules.CheckUnseenCollector(now.Spec.ID)
	}
}

// withoutUs returns an attribute as it would stand without what this operator gives. Fleet Management lets remote attributes win over
// local ones, except for those that are its own.
func withoutUs(status fleetmanagementv1alpha1.CollectorStatus, key string) string {
	if strings.HasPrefix(key, attributes.ReservedPrefix) {
		return status.LocalAttributes[key]
	}
	for _, owner := range status.AttributeOwners {
		if owner.Key == key && owner.PreviousValue != nil {
			return *owner.PreviousValue
		}
	}
	if value, is := status.OtherRemoteAttributes[key]; is {
		return value
	}
	return status.LocalAttributes[key]
}

// policyTenancy and syncTenancy look at the whole spec: an attribute that stood may be given to others by another selector.
var policyTenancy = tenantRule[*fleetmanagementv1alpha1.RemoteAttributePolicy]{
	reads: func(p *fleetmanagementv1alpha1.RemoteAttributePolicy) any { return p.Spec },
	check: func(_, now *fleetmanagementv1alpha1.RemoteAttributePolicy, rules tenant.Rules) field.ErrorList {
		errs := checkGiving(now.Spec.Selector, rules)
		for _, key := range slices.Sorted(maps.Keys(now.Spec.Attributes)) {
			if reason := rules.CheckAttribute(key, now.Spec.Attributes[key]); reason != "" {
				errs = append(errs, field.Forbidden(spec.Child("attributes").Key(key), reason))
			}
		}
		return errs
	},
}

var syncTenancy = tenantRule[*fleetmanagementv1alpha1.ExternalAttributeSync]{
	reads: func(s *fleetmanagementv1alpha1.ExternalAttributeSync) any { return s.Spec },
	check: func(_, now *fleetmanagementv1alpha1.ExternalAttributeSync, rules tenant.Rules) field.ErrorList {
		errs := checkGiving(now.Spec.Selector, rules)
		for _, key := range slices.Sorted(maps.Keys(now.Spec.Mapping.AttributeFields)) {
			if reason := rules.CheckUnseenValue(key); reason != "" {
				errs = append(errs, field.Forbidden(spec.Child("mapping", "attributeFields").Key(key), reason))
			}
		}
		return errs
	},
}

var collectorDiscoveryTenancy = tenantRule[*fleetmanagementv1alpha1.CollectorDiscovery]{
	reads:  func(d *fleetmanagementv1alpha1.CollectorDiscovery) any { return d.Spec },
	target: func(d *fleetmanagementv1alpha1.CollectorDiscovery) string { return d.Spec.TargetNamespace },
	check: func(_, now *fleetmanagementv1alpha1.CollectorDiscovery, rules tenant.Rules) field.ErrorList {
		return checkSelector(spec.Child("selector"), now.Spec.Selector.Matchers, now.Spec.Selector.CollectorIDs, rules)
	},
}

// pipelineDiscoveryTenancy refuses all: a discovery has no matchers, and shows every pipeline of the stack.
var pipelineDiscoveryTenancy = tenantRule[*fleetmanagementv1alpha1.PipelineDiscovery]{
	reads:  func(d *fleetmanagementv1alpha1.PipelineDiscovery) any { return d.Spec },
	target: func(d *fleetmanagementv1alpha1.PipelineDiscovery) string { return d.Spec.TargetNamespace },
	check: func(_, _ *fleetmanagementv1alpha1.PipelineDiscovery, rules tenant.Rules) field.ErrorList {
		return forbidden(spec, rules.CheckWholeStack())
	},
}
