// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOneCertificateIsChosenAndTheReasonSaid(t *testing.T) {
	mounted, empty := t.TempDir(), t.TempDir()
	NewWithT(t).Expect(os.WriteFile(filepath.Join(mounted, "tls.crt"), nil, 0o600)).To(Succeed())
	secret := client.ObjectKey{Namespace: "candor-system", Name: "own"}
	for name, test := range map[string]struct {
		env   map[string]string
		args  []string
		olm   string
		want  certificateSource
		wrong string
	}{
		"nothing set, outside OLM": {
			nil, nil, empty,
			certificateSource{because: "neither --webhook-cert-path nor --webhook-cert-secret is set, and OLM's folder " + empty + " holds no certificate"},
			"",
		},
		"nothing set, under OLM":             {nil, nil, mounted, certificateSource{folder: mounted, because: "OLM's folder holds a certificate"}, ""},
		"a folder":                           {nil, []string{"--webhook-cert-path=" + empty}, mounted, certificateSource{folder: empty, because: "--webhook-cert-path is set"}, ""},
		"a folder, by a variable":            {map[string]string{"CANDOR_WEBHOOK_CERT_PATH": empty}, nil, mounted, certificateSource{folder: empty, because: "--webhook-cert-path is set"}, ""},
		"a Secret":                           {nil, []string{"--webhook-cert-secret=own", "--pod-namespace=candor-system"}, mounted, certificateSource{secret: secret, because: "--webhook-cert-secret is set"}, ""},
		"a Secret, by variables":             {map[string]string{"CANDOR_WEBHOOK_CERT_SECRET": "own", "CANDOR_POD_NAMESPACE": "candor-system"}, nil, empty, certificateSource{secret: secret, because: "--webhook-cert-secret is set"}, ""},
		"a Secret of a namespace unknown":    {nil, []string{"--webhook-cert-secret=own"}, empty, certificateSource{}, "--webhook-cert-secret=own: outside a cluster, set --pod-namespace to the namespace of the Secret"},
		"a folder that is not there":         {nil, []string{"--webhook-cert-path=/nowhere"}, mounted, certificateSource{}, "--webhook-cert-path=/nowhere: is no folder: mount tls.crt and tls.key there, or leave the flag empty"},
		"a file in place of a folder":        {nil, []string{"--webhook-cert-path=" + mounted + "/tls.crt"}, empty, certificateSource{}, "--webhook-cert-path=" + mounted + "/tls.crt: is no folder: mount tls.crt and tls.key there, or leave the flag empty"},
		"a folder and a Secret at once":      {nil, []string{"--webhook-cert-path=" + mounted, "--webhook-cert-secret=own"}, empty, certificateSource{}, "--webhook-cert-secret=own: must be empty while --webhook-cert-path is set: either somebody else makes the certificate, or the manager does"},
		"a folder without a certificate yet": {nil, []string{"--webhook-cert-path=" + empty}, empty, certificateSource{folder: empty, because: "--webhook-cert-path is set"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			options, err := read(test.env, test.args...)
			if test.wrong != "" {
				g.Expect(err).To(MatchError(test.wrong))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			options.olmFolder = test.olm
			g.Expect(options.webhookCertificate()).To(Equal(test.want))
		})
	}
}
