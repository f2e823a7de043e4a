// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/candor-dev/candor/internal/webhookcert"
)

const (
	// olmFolder is where OLM mounts the certificate that it makes.
	olmFolder = "/tmp/k8s-webhook-server/serving-certs"

	reasonWebhooksNotServed = "WebhooksNotServed"
	reasonWebhooksServed    = "WebhooksServed"
)

// certificateSource is where the certificate of the webhooks comes from: a folder, a Secret that the manager fills itself, or
// neither, and then there are no webhooks.
type certificateSource struct {
	folder  string
	secret  client.ObjectKey
	because string
}

// webhookCertificate decides where the certificate of the webhooks comes from. Nothing else does.
func (o *Options) webhookCertificate() (certificateSource, error) {
	switch {
	case o.WebhookCertPath != "" && o.WebhookCertSecret != "":
		return certificateSource{}, fmt.Errorf("--webhook-cert-secret=%s: must be empty while --webhook-cert-path is set: "+
			"either somebody else makes the certificate, or the manager does", o.WebhookCertSecret)
	case o.WebhookCertPath != "":
		if info, err := os.Stat(o.WebhookCertPath); err != nil || !info.IsDir() {
			return certificateSource{}, fmt.Errorf("--webhook-cert-path=%s: is no folder: mount tls.crt and tls.key there, or leave the flag empty", o.WebhookCertPath)
		}
		return certificateSource{folder: o.WebhookCertPath, because: "--webhook-cert-path is set"}, nil
	case o.WebhookCertSecret != "":
		namespace := o.podNamespace()
		if namespace == "" {
			return certificateSource{}, fmt.Errorf("--webhook-cert-secret=%s: outside a cluster, set --pod-namespace to the namespace of the Secret", o.WebhookCertSecret)
		}
		return certificateSource{secret: client.ObjectKey{Namespace: namespace, Name: o.WebhookCertSecret}, because: "--webhook-cert-secret is set"}, nil
	}
	if _, err := os.Stat(filepath.Join(o.olmFolder, "tls.crt")); !errors.Is(err, fs.ErrNotExist) {
		return certificateSource{folder: o.olmFolder, because: "OLM's folder holds a certificate"}, nil
	}
	return certificateSource{
		because: "neither --webhook-cert-path nor --webhook-cert-secret is set, and OLM's folder " + o.olmFolder + " holds no certificate",
	}, nil
}

// off says that there is no certificate, and so no webhook.
func (s certificateSource) off() bool { return s.folder == "" && s.secret.Name == "" }

func (s certificateSource) String() string {
	if s.folder != "" {
		return "that of the folder " + s.folder
	}
	return "its own, kept in Secret " + s.secret.String()
}

// newCertificate returns the certificate of the webhooks, which has nothing in it yet. The API server checks it by the real
// time, whatever the clock of the manager says.
func newCertificate() *webhookcert.Certificate {
	return &webhookcert.Certificate{Clock: clock.RealClock{}}
}

// addCertificate keeps the certificate, and makes the manager ready once the webhooks are served with it.
func (b *building) addCertificate(c *webhookcert.Certificate, from certificateSource) error {
	log := b.mgr.GetLogger().WithName("setup")
	if b.webhooks = !from.off(); !b.webhooks {
		log.Info("Webhooks off", "because", from.because)
		return b.withoutWebhooks()
	}
	log.Info("Webhooks on", "certificate", from.String(), "because", from.because)
	c.Announce = b.announceCertificate()
	keeper, err := b.keeper(c, from)
	if err != nil {
		return err
	}
	if err := b.mgr.Add(keeper); err != nil {
		return fmt.Errorf("adding the certificate of the webhooks: %w", err)
	}
	server := b.mgr.GetWebhookServer().StartedChecker()
	err = b.mgr.AddReadyzCheck("webhooks", func(r *http.Request) error {
		if err := c.Check(r); err != nil {
			return err
		}
		return server(r)
	})
	if err != nil {
		return fmt.Errorf("adding /readyz/webhooks: %w", err)
	}
	return nil
}

// withoutWebhooks says what of the options has no effect, and refuses those that have none at all.
func (b *building) withoutWebhooks() error {
	if b.options.Fleet.AuthorizeDiscoveries {
		return errors.New("--enforce-cross-namespace-discovery-authz: has no effect without webhooks: set --webhook-cert-secret or --webhook-cert-path, or leave the flag out")
	}
	if b.options.Fleet.EnforceTenantPolicies {
		b.mgr.GetLogger().WithName("setup").Info("Only TenantPolicies that have a namespaceSelector are enforced, since no webhook sees who writes an object",
			"remedy", "set --webhook-cert-secret or --webhook-cert-path")
	}
	return nil
}

func (b *building) keeper(c *webhookcert.Certificate, from certificateSource) (manager.Runnable, error) {
	if from.folder != "" {
		return &webhookcert.Folder{Path: from.folder, CertFile: b.options.WebhookCertName, KeyFile: b.options.WebhookCertKey, Certificate: c}, nil
	}
	uncached, err := b.uncached()
	return &webhookcert.Own{
		Client: uncached, Secret: from.secret, Service: b.options.WebhookService, Configuration: b.options.WebhookConfiguration,
		Clock: c.Clock, Certificate: c,
	}, err
}

// announceCertificate tells the log and, of what is wrong and of its end, the pod.
func (b *building) announceCertificate() func(error) {
	log, failed := b.mgr.GetLogger().WithName("webhooks"), false
	return func(problem error) {
		switch {
		case problem != nil:
			log.Error(problem, "Cannot keep the certificate of the webhooks; trying again")
			b.tell(corev1.EventTypeWarning, reasonWebhooksNotServed, problem.Error())
		case failed:
			log.Info("The webhooks have a certificate again")
			b.tell(corev1.EventTypeNormal, reasonWebhooksServed, "The webhooks have a certificate.")
		default:
			log.Info("The webhooks have a certificate")
		}
		failed = problem != nil
	}
}
