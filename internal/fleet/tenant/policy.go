// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenant says what TenantPolicies allow: to somebody who writes an object, and in a namespace to what is stored there.
package tenant

import (
	"fmt"
	"regexp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/matcher"
)

// serviceAccountPrefix starts the user name of a service account.
const serviceAccountPrefix = "system:serviceaccount:"

// User is who asks for something, as an admission request names them.
type User struct {
	Name   string
	Groups []string
}

// Policy is a TenantPolicy that was read. It is safe for concurrent use. The zero Policy binds nobody.
type Policy struct {
	name          string
	users, groups map[string]bool
	// selector is nil where the spec has none, and holds for all namespaces where it is empty or cannot be read.
	selector labels.Selector
	// required holds canonical texts.
	required map[string]bool
	// attributes holds the patterns of each key, nil for one that has every value; it is nil where all attributes are free.
	attributes map[string][]pattern
	// collectors is empty where all collectors are free.
	collectors []matcher.Matcher
	// broken says why the policy cannot be read; empty for one that can.
	broken string
}

// pattern is what values may be; a nil expression allows all.
type pattern struct {
	text       string
	expression *regexp.Regexp
}

func (p pattern) allows(value string) bool {
	return p.expression == nil || p.expression.MatchString(value)
}

// Compile reads a TenantPolicy. Its error names each field that is wrong. The Policy that comes with an error allows nothing to those
// whom it binds; what cannot be read of its selector makes it bind in all namespaces.
func Compile(p *fleetmanagementv1alpha1.TenantPolicy) (Policy, error) {
	r := reader{}
	compiled := Policy{
		name: p.Name, selector: r.selector(p.Spec.NamespaceSelector), required: r.required(p.Spec.RequiredMatchers),
		attributes: r.attributes(p.Spec.AllowedAttributes), collectors: r.matchers("allowedCollectors", p.Spec.AllowedCollectors),
	}
	compiled.users, compiled.groups = r.subjects(p.Spec.Subjects)
	if len(r.errs) == 0 {
		return compiled, nil
	}
	compiled.broken = fmt.Sprintf("TenantPolicy %s cannot be read: %s", p.Name, joined(r.texts(), "; "))
	return compiled, r.errs.ToAggregate()
}

// Names reports whether a subject of the policy is this user.
func (p Policy) Names(user User) bool {
	return p.users[user.Name] || slices.ContainsFunc(user.Groups, func(group string) bool { return p.groups[group] })
}

// BindsIn reports whether the policy binds its subjects in a namespace with these labels.
func (p Policy) BindsIn(namespace map[string]string) bool {
	return p.selector == nil || p.selector.Matches(labels.Set(namespace))
}

// BindsStored reports whether the policy binds what is stored in a namespace with these labels, whoever wrote it.
func (p Policy) BindsStored(namespace map[string]string) bool {
	return p.selector != nil && p.selector.Matches(labels.Set(namespace))
}

// userOf returns the name that a subject has in requests, for one that is no group.
func userOf(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return serviceAccountPrefix + s.Namespace + ":" + s.Name
	}
	return s.Name
}
