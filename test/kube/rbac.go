// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	serviceAccountKind = "ServiceAccount"
	tokenLife          = 24 * time.Hour // longer than anybody looks at a demo
)

// rights is what config/rbac grants, named and placed as config/default installs it.
type rights struct {
	namespace string
	account   string
	objects   []*unstructured.Unstructured
}

// readRights reads config/rbac under root. Kinds other than these say nothing about rights and are passed over.
func readRights(root string) (rights, error) {
	overlay, err := readKustomization(filepath.Join(root, "config", "default"), false)
	if err != nil {
		return rights{}, err
	}
	objects, err := readObjects(filepath.Join(root, "config", "rbac"))
	if err != nil {
		return rights{}, err
	}
	r := rights{namespace: overlay.Namespace}
	for _, object := range objects {
		switch object.GetKind() {
		case serviceAccountKind, "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			r.objects = append(r.objects, object)
		}
	}
	if err := place(r.objects, overlay.NamePrefix, overlay.Namespace); err != nil {
		return rights{}, err
	}
	for _, object := range r.objects {
		if object.GetKind() != serviceAccountKind {
			continue
		}
		if r.account != "" {
			return rights{}, fmt.Errorf("config/rbac has two ServiceAccounts, %s and %s: which is the manager's?", r.account, object.GetName())
		}
		r.account = object.GetName()
	}
	if r.account == "" || r.namespace == "" {
		return rights{}, fmt.Errorf("config/rbac has no ServiceAccount (%q) or config/default no namespace (%q)", r.account, r.namespace)
	}
	return r, nil
}

// place does to the objects what kustomize does for namePrefix and namespace: names change, and so do the references to objects
// of the same set; references to others, such as the roles of Kubernetes, stay.
func place(objects []*unstructured.Unstructured, prefix, namespace string) error {
	ours := map[string]bool{}
	for _, object := range objects {
		ours[object.GetKind()+"/"+object.GetName()] = true
	}
	for _, object := range objects {
		object.SetName(prefix + object.GetName())
		switch object.GetKind() {
		case serviceAccountKind, "Role", "RoleBinding":
			object.SetNamespace(namespace)
		}
		if err := refer(object, ours, prefix, namespace); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func refer(object *unstructured.Unstructured, ours map[string]bool, prefix, namespace string) error {
	role, found, err := unstructured.NestedStringMap(object.Object, "roleRef")
	if err != nil || !found {
		return err
	}
	if ours[role["kind"]+"/"+role["name"]] {
		if err := unstructured.SetNestedField(object.Object, prefix+role["name"], "roleRef", "name"); err != nil {
			return err
		}
	}
	subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
	if err != nil {
		return err
	}
	for _, each := range subjects {
		subject, ok := each.(map[string]any)
		if name, _ := subject["name"].(string); ok && subject["kind"] == serviceAccountKind && ours[serviceAccountKind+"/"+name] {
			subject["name"], subject["namespace"] = prefix+name, namespace
		}
	}
	return unstructured.SetNestedSlice(object.Object, subjects, "subjects")
}

// InstallManagerRBAC creates the manager's namespace, ServiceAccount, roles and bindings exactly as config/rbac has them, and
// returns when the API server grants them: it learns of a new binding by a watch, some 100 ms later.
func (c *Cluster) InstallManagerRBAC(ctx context.Context) error {
	r, err := readRights(c.root)
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": r.namespace},
	}}
	for _, object := range append([]*unstructured.Unstructured{namespace}, r.objects...) {
		if err := c.apply(ctx, object); err != nil {
			return err
		}
	}
	config, err := c.ManagerConfig(ctx)
	if err != nil {
		return err
	}
	return waitForRights(ctx, config, r)
}

// ManagerConfig authenticates as the manager's ServiceAccount with a token of its own, never as the admin.
// InstallManagerRBAC comes first.
func (c *Cluster) ManagerConfig(ctx context.Context) (*rest.Config, error) {
	r, err := readRights(c.root)
	if err != nil {
		return nil, err
	}
	admin, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife.Seconds()))}}
	token, err := admin.CoreV1().ServiceAccounts(r.namespace).CreateToken(ctx, r.account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of ServiceAccount %s/%s, which InstallManagerRBAC creates: %w", r.namespace, r.account, err)
	}
	config := rest.AnonymousClientConfig(c.Config) // without the admin's certificate
	config.BearerToken, config.QPS = token.Status.Token, -1
	return config, nil
}
