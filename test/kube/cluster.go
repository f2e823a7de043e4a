// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube gives tests, the demo and the benchmarks one way to a real API server on which the manager is nobody special:
//
//	cluster, err := kube.Start(kube.Options{Scheme: scheme})
//	defer cluster.Stop()
//	err = cluster.InstallManagerRBAC(ctx)
//	config, err := cluster.ManagerConfig(ctx)
//	counter := kube.NewCounter()
//	config.Wrap(counter.Wrap)
//
// Nothing but etcd and kube-apiserver runs: no controller manager deletes dependents, finishes a namespace's deletion or makes
// default ServiceAccounts, and no pod ever starts.
package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	assetsVariable = "KUBEBUILDER_ASSETS"
	fieldOwner     = client.FieldOwner("candor-test")
	patience       = 90 * time.Second // envtest's own 10 and 20 s are short for a machine that also compiles
)

// Options say what Start installs.
type Options struct {
	// Scheme is the one of Cluster.Client; nil knows the built-in kinds only.
	Scheme *runtime.Scheme
	// CRDs are folders or files; nil stands for config/crd/bases, an empty slice for none. CRDs of other projects are never
	// among them: the manager has to live without.
	CRDs []string
}

// Cluster is a running API server. Config and Client are the admin's, for arranging and looking; the code under test gets
// ManagerConfig.
type Cluster struct {
	Config *rest.Config
	Client client.Client

	root     string // of the module
	env      *envtest.Environment
	webhooks []*envtest.WebhookInstallOptions
}

// Start starts etcd and kube-apiserver from KUBEBUILDER_ASSETS, with RBAC enforced and no client-side rate limit.
func Start(opts Options) (*Cluster, error) {
	assets, err := assetsFolder(os.Getenv(assetsVariable))
	if err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	if opts.CRDs == nil {
		opts.CRDs = []string{filepath.Join(root, "config", "crd", "bases")}
	}
	env := &envtest.Environment{
		Scheme:                   opts.Scheme,
		CRDDirectoryPaths:        opts.CRDs,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
		ErrorIfCRDPathMissing:    true,
		BinaryAssetsDirectory:    assets,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
		UseExistingCluster:       new(false), // an environment variable must not lead tests to somebody's cluster
	}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	c := &Cluster{root: root, env: env}
	if err := c.start(opts.Scheme); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return c, nil
}

func (c *Cluster) start(scheme *runtime.Scheme) error {
	config, err := c.env.Start()
	if err != nil {
		return fmt.Errorf("starting the control plane of %s=%s: %w", assetsVariable, os.Getenv(assetsVariable), err)
	}
	c.Config = rest.CopyConfig(config)
	c.Config.QPS = -1
	c.Client, err = client.New(c.Config, client.Options{Scheme: scheme})
	return err
}

// Stop ends the API server and etcd and removes their data and certificates.
func (c *Cluster) Stop() error {
	var problems []error
	for _, w := range c.webhooks {
		problems = append(problems, w.Cleanup())
	}
	return errors.Join(append(problems, c.env.Stop())...)
}

// Kubeconfig writes an admin's kubeconfig for a person's kubectl, readable by its owner only.
func (c *Cluster) Kubeconfig(path string) error {
	if err := os.WriteFile(path, c.env.KubeConfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return os.Chmod(path, 0o600) // WriteFile leaves the mode of a file that was there
}

// apply creates or changes the object: calling an Install method again is fine.
func (c *Cluster) apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
	}
	return nil
}
