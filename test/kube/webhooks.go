// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// InstallWebhooks installs the webhook configurations of a manifest with URLs on this machine in the place of the Service, and
// returns where the manager's webhook server has to listen and the folder of its tls.crt and tls.key. From here on every write
// of a matching kind fails until that server runs. Names stay as in the manifest, without the prefix of config/default.
func (c *Cluster) InstallWebhooks(ctx context.Context, manifestPath string) (certDir, host string, port int, err error) {
	if err := ctx.Err(); err != nil {
		return "", "", 0, err
	}
	options := &envtest.WebhookInstallOptions{Paths: []string{manifestPath}, MaxTime: patience}
	c.webhooks = append(c.webhooks, options)
	if err := options.Install(c.Config); err != nil {
		return "", "", 0, fmt.Errorf("installing the webhooks of %s: %w", manifestPath, err)
	}
	if len(options.ValidatingWebhooks)+len(options.MutatingWebhooks) == 0 {
		return "", "", 0, fmt.Errorf("%s has no webhook configuration: run make manifests", manifestPath)
	}
	return options.LocalServingCertDir, options.LocalServingHost, options.LocalServingPort, nil
}
