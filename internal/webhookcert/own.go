// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/repeat"
)

const (
	authority = "candor-webhook-ca"
	caFile    = "ca.crt"
	caKeyFile = "ca.key"

	authorityLife = 10 * 365 * 24 * time.Hour
	servingLife   = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = 90 * 24 * time.Hour
	// skew is how far the clock of the API server may be behind.
	skew = time.Hour

	// lookEvery is how often Secret and configuration are looked at: another replica may have renewed the one, and somebody
	// may have replaced the other.
	lookEvery = time.Minute
	// retryFirst is the first of doubling waits after an error, up to lookEvery.
	retryFirst = time.Second
)

var serverAuth = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}

// Own serves with a certificate that the manager makes. It is kept in a Secret, for the other replicas and the next start, with
// the authority that signed it, and the API server is told to trust that authority. Every replica may do this work: the Secret's
// resourceVersion lets one of them win.
type Own struct {
	// Client reads and writes without a cache, so that it needs no right to list.
	Client client.Client
	// Secret must exist; it may be empty.
	Secret client.ObjectKey
	// Service is the name of the webhooks' Service, in the namespace of the Secret.
	Service string
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string
	Clock         clock.PassiveClock
	Certificate   *Certificate
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (*Own) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (o *Own) Start(ctx context.Context) error {
	repeat.Until(ctx, retryFirst, lookEvery, func(ctx context.Context) (time.Duration, error) {
		err := o.look(ctx)
		switch {
		case err == nil:
			return lookEvery, nil
		case apierrors.IsConflict(err): // another replica was first
			return retryFirst, nil
		case ctx.Err() == nil:
			o.Certificate.fail(err)
		}
		return 0, err
	})
	return nil
}

// look makes Secret, configuration and what is in use agree, with no write where they do.
func (o *Own) look(ctx context.Context) error {
	var secret corev1.Secret
	if err := o.Client.Get(ctx, o.Secret, &secret); err != nil {
		return o.explain(fmt.Errorf("reading Secret %s: %w", o.Secret, err))
	}
	if err := o.renew(ctx, &secret); err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(secret.Data[certFile], secret.Data[keyFile])
	if err != nil {
		return fmt.Errorf("loading the certificate of Secret %s: %w", o.Secret, err)
	}
	if err := o.trust(ctx, secret.Data[caFile]); err != nil {
		return err
	}
	o.Certificate.use(&certificate)
	return nil
}

// renew writes a new certificate into the Secret when the one in it will not last, and a new authority when that will not.
func (o *Own) renew(ctx context.Context, secret *corev1.Secret) error {
	maker, now, data := o.maker(), o.Clock.Now(), secret.Data
	if lasts(now, data[caFile], data[certFile], data[keyFile], maker.DNSName, maker.ExtKeyUsages) {
		return nil
	}
	signer, err := signerOf(data)
	if err != nil || !lasts(now, data[caFile], data[caFile], data[caKeyFile], authority, nil) {
		if signer, err = maker.CreateCACert(now.Add(-skew), now.Add(authorityLife)); err != nil {
			return fmt.Errorf("making the authority of the webhooks' certificate: %w", err)
		}
	}
	cert, key, err := maker.CreateCertPEM(signer, now.Add(-skew), now.Add(servingLife))
	if err != nil {
		return fmt.Errorf("making the certificate of the webhooks: %w", err)
	}
	secret.Data = map[string][]byte{caFile: signer.CertPEM, caKeyFile: signer.KeyPEM, certFile: cert, keyFile: key}
	if err := o.Client.Update(ctx, secret); err != nil {
		return o.explain(fmt.Errorf("writing Secret %s: %w", o.Secret, err))
	}
	return nil
}

// lasts reports whether a certificate is good now, which one made by a clock that ran ahead is not, and will be for a while.
func lasts(now time.Time, ca, cert, key []byte, name string, usages *[]x509.ExtKeyUsage) bool {
	good, _ := rotator.ValidCert(ca, cert, key, name, usages, now)
	stays, _ := rotator.ValidCert(ca, cert, key, name, usages, now.Add(renewBefore))
	return good && stays
}

func (o *Own) maker() *rotator.CertRotator {
	return &rotator.CertRotator{
		CAName: authority, CAOrganization: "candor", DNSName: o.Service + "." + o.Secret.Namespace + ".svc", ExtKeyUsages: &serverAuth,
	}
}

// signerOf reads the authority of a Secret.
func signerOf(data map[string][]byte) (*rotator.KeyPairArtifacts, error) {
	pair, err := tls.X509KeyPair(data[caFile], data[caKeyFile])
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key of the authority is not of RSA")
	}
	return &rotator.KeyPairArtifacts{Cert: pair.Leaf, Key: key, CertPEM: data[caFile], KeyPEM: data[caKeyFile]}, nil
}

// trust tells the API server whom to trust.
func (o *Own) trust(ctx context.Context, ca []byte) error {
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := o.Client.Get(ctx, client.ObjectKey{Name: o.Configuration}, &configuration); err != nil {
		return o.explain(fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", o.Configuration, err))
	}
	changed := false
	for i := range configuration.Webhooks {
		to := &configuration.Webhooks[i].ClientConfig
		changed = changed || !bytes.Equal(to.CABundle, ca)
		to.CABundle = ca
	}
	if !changed {
		return nil
	}
	if err := o.Client.Update(ctx, &configuration); err != nil {
		return o.explain(fmt.Errorf("writing ValidatingWebhookConfiguration %s: %w", o.Configuration, err))
	}
	return nil
}

// explain says what to do about an error that time does not mend.
func (*Own) explain(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: config/default brings it, apply that again", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: config/own-certificate grants it, apply config/default again", err)
	default:
		return err
	}
}
