// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/notify"
)

const (
	// signalling is the namespace whose policy takes signals, and signalSecret the Secret that they are signed by.
	signalling, signalSecret = "payments", "signals"
	signalKey                = "0123456789abcdef-key-of-the-signals"
	firing                   = `{"severity":"HIGH","kind":"Database","name":"ledger","id":"backup","summary":"The last backup is two days old."}`
)

// receiver lets the manager take signals, with a certificate that is made for this run.
func (m *manager) receiver(home string, o *app.ReceiverOptions) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("looking for a free port: %w", err)
	}
	o.Port, o.CertPath = free.Addr().(*net.TCPAddr).Port, filepath.Join(home, "signals")
	m.signals = fmt.Sprintf("https://127.0.0.1:%d/webhook/%s/default", o.Port, signalling)
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	m.signalCA = chain
	return errors.Join(err, free.Close(), os.Mkdir(o.CertPath, 0o700),
		os.WriteFile(filepath.Join(o.CertPath, "tls.crt"), chain, 0o600), os.WriteFile(filepath.Join(o.CertPath, "tls.key"), key, 0o600))
}

// takeSignals has another tool post what it knows.
func (d *demo) takeSignals(ctx context.Context) ([]result, error) {
	d.screen.title("Another tool posts a signed signal: the policy of %s takes them by HTTPS, for the key in a Secret of the namespace.", signalling)
	var answers []string
	post := func(ctx context.Context, body, key string) error {
		answer, err := d.post(ctx, body, key)
		answers = append(answers, answer)
		return err
	}
	var results []result
	for _, step := range []struct {
		title string
		act   func(context.Context) error
	}{
		{"A probe finds something: it becomes a Finding, which the chat is told of.", func(ctx context.Context) error {
			return errors.Join(d.openReceiver(ctx), post(ctx, firing, signalKey), d.told(ctx, len(d.manager.chat.Requests())+1))
		}},
		{"The probe says so twenty times more, and a stranger once.", func(ctx context.Context) error {
			for range 20 {
				if err := post(ctx, firing, signalKey); err != nil {
					return err
				}
			}
			return post(ctx, firing, "the key of a stranger")
		}},
	} {
		r, err := d.step(ctx, step.title, step.act)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	d.screen.aside("Answers: %s.", strings.Join(slices.Compact(answers), ", then "))
	return results, nil
}

// openReceiver has the policy of a namespace take signals, and waits until it does.
func (d *demo) openReceiver(ctx context.Context) error {
	named := metav1.ObjectMeta{Namespace: signalling, Name: signalSecret}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: named, StringData: map[string]string{"secret": signalKey}},
		&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{signalSecret}, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: signalSecret}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "candor-system", Name: "candor-controller-manager"}}},
	} {
		if err := d.cluster.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("letting the manager read a key: %w", err)
		}
	}
	p := &candorv1alpha1.SignalPolicy{}
	name := client.ObjectKey{Namespace: signalling, Name: "default"}
	if err := d.cluster.Client.Get(ctx, name, p); err != nil {
		return err
	}
	before := p.DeepCopy()
	p.Spec.Providers = append(p.Spec.Providers, signals.Posted)
	p.Spec.WebhookReceiver = &candorv1alpha1.WebhookReceiver{SecretRef: candorv1alpha1.SecretReference{Name: signalSecret}}
	if err := d.cluster.Client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("having a policy take signals: %w", err)
	}
	return d.wait(ctx, "the policy to take signals", func(ctx context.Context) (bool, error) {
		err := d.cluster.Client.Get(ctx, name, p)
		return meta.IsStatusConditionTrue(p.Status.Conditions, candorv1alpha1.ConditionReceiving), err
	})
}

// post posts a signal and returns the answer.
func (d *demo) post(ctx context.Context, body, key string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.manager.signals, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	at := d.manager.clock.Now()
	request.Header.Set(notify.HeaderTimestamp, fmt.Sprint(at.Unix()))
	request.Header.Set(notify.HeaderSignature, notify.Signature([]byte(key), at, []byte(body)))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(d.manager.signalCA)
	sender := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
	defer sender.CloseIdleConnections()
	response, err := sender.Do(request)
	if err != nil {
		return "", fmt.Errorf("posting a signal: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, bytes.TrimSpace(answer)), err
}
