// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/candor-dev/candor/test/kube"
)

// serve is make controlplane: an API server to run the manager against by hand.
func serve(ctx context.Context, cluster *kube.Cluster, home string, once bool, screen *screen) error {
	admin, manager := filepath.Join(home, "admin.kubeconfig"), filepath.Join(home, "manager.kubeconfig")
	if err := cluster.Kubeconfig(admin); err != nil {
		return err
	}
	config, err := cluster.ManagerConfig(ctx)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(manager, config); err != nil {
		return err
	}
	screen.title("An API server with the CRDs of Candor and of Trivy Operator. Nothing runs in it: no manager, no other controller, no pod.")
	screen.say("\n  As an administrator:                  export KUBECONFIG=%s", admin)
	screen.say("  The manager, with its own rights:     KUBECONFIG=%s make run", manager)
	screen.say("  Something to do for it:               kubectl apply -k config/samples")
	screen.say("\n  The manager's token is good for 24 hours. Ctrl-C ends and removes everything.")
	if once {
		return nil
	}
	<-ctx.Done()
	return nil
}

// writeKubeconfig writes what a client of the API server needs to be who config says, readable by its owner only.
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "candor"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return fmt.Errorf("writing the manager's kubeconfig: %w", err)
	}
	return nil
}
