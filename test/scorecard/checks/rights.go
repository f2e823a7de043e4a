// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// prefix is what kustomize puts before the names in config/.
	prefix  = "candor-"
	account = "controller-manager"
)

// rbac checks that OLM grants the manager and people exactly what config/rbac does.
func rbac(b *Bundle, n *notes) {
	objects, err := configured("rbac")
	if err != nil {
		n.errorf("%v", err)
		return
	}
	cluster, err := boundRules(objects, "ClusterRoleBinding")
	if err != nil {
		n.errorf("%v", err)
	}
	namespace, err := boundRules(objects, "RoleBinding")
	if err != nil {
		n.errorf("%v", err)
	}
	install := b.strategy()
	for _, each := range append(slices.Clone(install.ClusterPermissions), install.Permissions...) {
		if each.ServiceAccountName != prefix+account {
			n.errorf("the ServiceAccount %s gets rights, and the manager runs as %s", each.ServiceAccountName, prefix+account)
		}
	}
	var granted, lifted []rbacv1.PolicyRule
	for _, each := range install.ClusterPermissions {
		granted = append(granted, each.Rules...)
	}
	for _, each := range install.Permissions {
		lifted = append(lifted, each.Rules...)
	}
	n.differences("clusterPermissions", granted, cluster)
	n.differences("permissions", lifted, namespace)
	b.comparePeople(n, objects)
}

// comparePeople compares the ClusterRoles that no binding gives to the manager: they are for people.
func (b *Bundle) comparePeople(n *notes, objects []unstructured.Unstructured) {
	bound := map[string]bool{}
	for _, o := range objects {
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		bound[name] = true
	}
	want := map[string]rbacv1.ClusterRole{}
	for _, o := range objects {
		if o.GetKind() == "ClusterRole" && !bound[o.GetName()] {
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				n.errorf("config/rbac: ClusterRole %s: %v", o.GetName(), err)
			}
			want[prefix+role.Name] = role
		}
	}
	for _, role := range b.clusterRoles(n) {
		expected, known := want[role.Name]
		if !known {
			n.errorf("the bundle grants something by ClusterRole %s, which config/rbac does not have", role.Name)
			continue
		}
		delete(want, role.Name)
		n.differences("ClusterRole "+role.Name, role.Rules, expected.Rules)
		for label, value := range expected.Labels {
			if role.Labels[label] != value {
				n.errorf("ClusterRole %s lacks the label %s=%s", role.Name, label, value)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		n.errorf("the bundle lacks ClusterRole %s", name)
	}
}

// clusterRoles returns those among the manifests. Everything else that grants rights is an error.
func (b *Bundle) clusterRoles(n *notes) []rbacv1.ClusterRole {
	var roles []rbacv1.ClusterRole
	for _, o := range b.Objects {
		switch o.GetKind() {
		case "ClusterRole":
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				n.errorf("ClusterRole %s: %v", o.GetName(), err)
			}
			roles = append(roles, role)
		case "Role", "RoleBinding", "ClusterRoleBinding":
			n.errorf("the bundle holds %s %s: the manager's rights belong into the ClusterServiceVersion", o.GetKind(), o.GetName())
		}
	}
	return roles
}

// leastPrivilege checks that no right is wider than it looks.
func leastPrivilege(b *Bundle, n *notes) {
	install := b.strategy()
	for _, each := range install.ClusterPermissions {
		n.modest("clusterPermissions", each.Rules)
	}
	for _, each := range install.Permissions {
		n.modest("permissions", each.Rules)
		for right := range rights(each.Rules) {
			if !strings.Contains(right, " leases.coordination.k8s.io") {
				n.errorf("permissions allow %q: OLM lifts that to every namespace, so only the lease of leader election belongs there", right)
			}
		}
	}
	for _, role := range b.clusterRoles(n) {
		n.modest("ClusterRole "+role.Name, role.Rules)
		n.apart(role)
	}
}

// fleet is the group whose kinds act on a whole stack of Fleet Management.
const fleet = "fleetmanagement.grafana.com"

// apart checks that a role for people brings the kinds of the fleet to nobody who has not been given that role itself, and that whoever
// gets the kinds of tenants does not get what bounds them.
func (n *notes) apart(role rbacv1.ClusterRole) {
	kinds := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			if slices.Contains(rule.APIGroups, fleet) {
				kind, _, _ := strings.Cut(resource, "/")
				kinds[kind] = true
			}
		}
	}
	for label := range role.Labels {
		if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") && len(kinds) > 0 {
			n.errorf("ClusterRole %s brings rights on %s to a standard role by the label %s", role.Name, fleet, label)
		}
	}
	if kinds["tenantpolicies"] && len(kinds) > 1 {
		n.errorf("ClusterRole %s brings rights on tenantpolicies together with others: tenants would get them", role.Name)
	}
}

// modest finds wildcards, Secrets, and verbs that make more rights of some.
func (n *notes) modest(where string, rules []rbacv1.PolicyRule) {
	for _, right := range slices.Sorted(maps.Keys(rights(rules))) {
		verb, what, _ := strings.Cut(right, " ")
		switch {
		case strings.Contains(right, "*"):
			n.errorf("%s has a wildcard: %q", where, right)
		case strings.HasPrefix(what, "secrets.") || strings.HasPrefix(what, "secrets/"):
			n.errorf("%s grants a right on Secrets: %q", where, right)
		case slices.Contains([]string{"bind", "escalate", "impersonate"}, verb):
			n.errorf("%s lets somebody get rights that nobody gave them: %q", where, right)
		}
	}
}

func (n *notes) differences(where string, got, want []rbacv1.PolicyRule) {
	granted, expected := rights(got), rights(want)
	for _, right := range slices.Sorted(maps.Keys(granted)) {
		if !expected[right] {
			n.errorf("%s allows %q, which config/rbac does not", where, right)
		}
	}
	for _, right := range slices.Sorted(maps.Keys(expected)) {
		if !granted[right] {
			n.errorf("%s lacks %q, which config/rbac allows", where, right)
		}
	}
}

// rights takes rules apart: one verb on one resource each, such as "get pods." or "get leases.coordination.k8s.io/name".
func rights(rules []rbacv1.PolicyRule) map[string]bool {
	found := map[string]bool{}
	for _, rule := range rules {
		things := slices.Clone(rule.NonResourceURLs)
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					things = append(things, strings.TrimSuffix(fmt.Sprintf("%s.%s/%s", resource, group, name), "/"))
				}
			}
		}
		for _, verb := range rule.Verbs {
			for _, thing := range things {
				found[verb+" "+thing] = true
			}
		}
	}
	return found
}

// boundRules returns what bindings of a kind give to the manager's ServiceAccount.
func boundRules(objects []unstructured.Unstructured, kind string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	for _, o := range objects {
		if o.GetKind() != kind {
			continue
		}
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding); err != nil {
			return nil, fmt.Errorf("config/rbac: %s %s: %w", kind, o.GetName(), err)
		}
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != account {
			return nil, fmt.Errorf("config/rbac: %s %s binds something else than %s alone", kind, o.GetName(), account)
		}
		i := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool {
			return o.GetKind() == binding.RoleRef.Kind && o.GetName() == binding.RoleRef.Name
		})
		if i < 0 {
			return nil, fmt.Errorf("config/rbac has no %s %s, which %s binds", binding.RoleRef.Kind, binding.RoleRef.Name, o.GetName())
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &role); err != nil {
			return nil, fmt.Errorf("config/rbac: %s %s: %w", binding.RoleRef.Kind, binding.RoleRef.Name, err)
		}
		rules = append(rules, role.Rules...)
	}
	return rules, nil
}
