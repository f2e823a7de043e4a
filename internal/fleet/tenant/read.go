// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/matcher"
)

// Validate returns what Compile would not read, by field.
func Validate(spec *fleetmanagementv1alpha1.TenantPolicySpec) field.ErrorList {
	r := reader{}
	r.subjects(spec.Subjects)
	r.required(spec.RequiredMatchers)
	r.selector(spec.NamespaceSelector)
	r.attributes(spec.AllowedAttributes)
	r.matchers("allowedCollectors", spec.AllowedCollectors)
	return r.errs
}

// reader reads the fields of a spec, and gathers what is wrong with them.
type reader struct {
	errs field.ErrorList
}

func (r *reader) texts() []string {
	texts := make([]string, 0, len(r.errs))
	for _, err := range r.errs {
		texts = append(texts, err.Error())
	}
	return texts
}

func at(name string) *field.Path { return field.NewPath("spec", name) }

func (r *reader) refuse(path *field.Path, value, remedy string) {
	r.errs = append(r.errs, field.Invalid(path, shorten(value), remedy))
}

func (r *reader) require(path *field.Path, remedy string) {
	r.errs = append(r.errs, field.Required(path, remedy))
}

// subjects returns the users and the groups that are named, by the names that they have in requests.
func (r *reader) subjects(subjects []rbacv1.Subject) (users, groups map[string]bool) {
	users, groups = map[string]bool{}, map[string]bool{}
	if len(subjects) == 0 {
		r.require(at("subjects"), "name at least one User, Group or ServiceAccount")
	}
	for i, s := range subjects {
		path := at("subjects").Index(i)
		if strings.TrimSpace(s.Name) == "" {
			r.require(path.Child("name"), "write whom the policy binds")
			continue
		}
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			if strings.TrimSpace(s.Namespace) == "" {
				r.require(path.Child("namespace"), "write the namespace of the service account")
				continue
			}
			users[userOf(s)] = true
		case rbacv1.UserKind, rbacv1.GroupKind:
			if s.Namespace != "" {
				r.refuse(path.Child("namespace"), s.Namespace, "users and groups have no namespace: remove it, or write kind ServiceAccount")
			}
			if s.Kind == rbacv1.GroupKind {
				groups[s.Name] = true
			} else {
				users[userOf(s)] = true
			}
		default:
			r.errs = append(r.errs, field.NotSupported(path.Child("kind"), shorten(s.Kind),
				[]string{rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind}))
		}
	}
	return users, groups
}

// selector returns one that holds everywhere for what cannot be read.
func (r *reader) selector(selector *metav1.LabelSelector) labels.Selector {
	if selector == nil {
		return nil
	}
	read, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		r.errs = append(r.errs, field.Invalid(at("namespaceSelector"), field.OmitValueType{}, err.Error()))
		return labels.Everything()
	}
	return read
}

// required returns canonical texts.
func (r *reader) required(texts []string) map[string]bool {
	if len(texts) == 0 {
		r.require(at("requiredMatchers"), `write at least one matcher, such as team="billing"`)
	}
	canonical := map[string]bool{}
	for _, m := range r.matchers("requiredMatchers", texts) {
		canonical[m.Canonical()] = true
	}
	return canonical
}

func (r *reader) matchers(name string, texts []string) []matcher.Matcher {
	all := make([]matcher.Matcher, 0, len(texts))
	for i, text := range texts {
		m, err := matcher.Parse(text)
		if err != nil {
			r.refuse(at(name).Index(i), text, err.Error())
			continue
		}
		all = append(all, m)
	}
	return all
}

func (r *reader) attributes(allowed []fleetmanagementv1alpha1.AllowedAttribute) map[string][]pattern {
	if len(allowed) == 0 {
		return nil
	}
	all := make(map[string][]pattern, len(allowed))
	for i, a := range allowed {
		path := at("allowedAttributes").Index(i)
		switch {
		case a.Key == "":
			r.require(path.Child("key"), "write the key of an attribute")
			continue
		case strings.HasPrefix(a.Key, attributes.ReservedPrefix):
			r.refuse(path.Child("key"), a.Key, fmt.Sprintf("keys that start with %s are reserved: remove the item", attributes.ReservedPrefix))
			continue
		}
		p := pattern{text: a.Value}
		if a.Value != "" {
			var err error
			if p.expression, err = matcher.Anchored(a.Value); err != nil {
				r.refuse(path.Child("value"), a.Value, err.Error())
				continue
			}
		}
		if !slices.ContainsFunc(all[a.Key], func(known pattern) bool { return known.text == p.text }) {
			all[a.Key] = append(all[a.Key], p)
		}
	}
	return all
}
