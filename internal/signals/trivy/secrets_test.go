// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/llm"
	"github.com/candor-dev/candor/internal/sparse"
	"github.com/candor-dev/candor/test/builder"
)

// canary stands for what a report shows of a secret. Wherever it is seen again, a secret could be.
const canary = "sk_live_canary"

func secrets(list ...any) *unstructured.Unstructured {
	return builder.SecretReport("team-a", "ReplicaSet", "web-7d9f8c6b5", "nginx", list)
}

func stripe(target, severity string) map[string]any {
	return builder.Secret("stripe-access-token", target, severity, "secret_key: "+canary)
}

func TestAnExposedSecretReportBecomesPlacesAndKinds(t *testing.T) {
	aws := builder.Secret("aws-access-key-id", "/root/.aws/credentials", "CRITICAL", canary)
	aws["category"], aws["title"] = "AWS", "AWS"
	report, err := read(ExposedSecrets(), secrets(stripe("/app/b.yaml", "HIGH"), aws, stripe("/app/a.yaml", "HIGH"), stripe("/app/a.yaml", "HIGH")))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	kind := "Stripe: Stripe Secret Key"
	NewWithT(t).Expect(report).To(BeComparableTo(signals.Report{
		Subject: signals.Subject{Namespace: "team-a", Kind: "ReplicaSet", Name: "web-7d9f8c6b5", Container: "nginx"},
		Name:    "replicaset-web-7d9f8c6b5-nginx", Updated: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC),
		Artifact: candorv1alpha1.Artifact{Registry: "index.docker.io", Repository: "shop/web", Tag: "1.27"},
		Entries: []signals.Entry{
			{Rank: signals.Critical, ID: "aws-access-key-id", Package: "/root/.aws/credentials", Message: "AWS"},
			{Rank: signals.High, ID: "stripe-access-token", Package: "/app/a.yaml", Message: kind},
			{Rank: signals.High, ID: "stripe-access-token", Package: "/app/b.yaml", Message: kind},
		},
	}))
}

func TestAnotherFileIsNewsAndAnotherMatchIsNot(t *testing.T) {
	g := NewWithT(t)
	before := fingerprint(t, secrets(stripe("/app/a.yaml", "HIGH")))
	other := stripe("/app/a.yaml", "HIGH")
	other["match"], other["title"] = "another", "other words"
	g.Expect(fingerprint(t, secrets(other))).To(Equal(before))
	g.Expect(fingerprint(t, secrets(stripe("/app/b.yaml", "HIGH")))).NotTo(Equal(before))
	g.Expect(fingerprint(t, secrets(stripe("/app/a.yaml", "HIGH"), stripe("/app/b.yaml", "HIGH")))).NotTo(Equal(before))
}

func TestNoPartOfASecretIsDecodedKeptShownAskedOrLogged(t *testing.T) {
	broken := stripe("/app/a.yaml", "HIGH")
	broken["ruleID"] = nil
	for name, report := range map[string]*unstructured.Unstructured{
		"of a report that is well": secrets(stripe("/app/a.yaml", "HIGH"), stripe("/app/b.yaml", "CRITICAL")),
		"of a malformed report":    secrets(broken),
		"of a match that is an object": secrets(func() map[string]any {
			odd := stripe("/app/a.yaml", "HIGH")
			odd["match"] = map[string]any{"severity": canary, "target": canary, "ruleID": []any{canary}}
			return odd
		}()),
	} {
		t.Run(name, func(t *testing.T) {
			g, class := NewWithT(t), ExposedSecrets()
			sent, err := json.Marshal(report.Object)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(sent)).To(ContainSubstring(canary), "or this proves nothing")

			decoded, err := sparse.Of(append([]string{"apiVersion", "kind", "metadata"}, class.Fields...)...).Decode(sparse.NewDecoder(bytes.NewReader(sent)))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(mention(t, decoded)).To(BeFalse(), "decoded")
			kept := compact(t, class, &unstructured.Unstructured{Object: decoded.(map[string]any)})
			g.Expect(mention(t, kept)).To(BeFalse(), "in the cache")

			_, err = class.Subjects(kept.(*unstructured.Unstructured))
			if err != nil {
				g.Expect(err.Error()).NotTo(ContainSubstring(canary), "in the log")
				return
			}
			f := finding(t, report)
			g.Expect(mention(t, f)).To(BeFalse(), "in the Finding")
			for _, sharing := range []candorv1alpha1.Sharing{candorv1alpha1.SharingNone, candorv1alpha1.SharingCluster} {
				prompt := llm.Compose(f.Spec, f.Namespace, sharing)
				g.Expect(prompt.User).NotTo(ContainSubstring(canary), "in the prompt")
				g.Expect(prompt.User).NotTo(ContainSubstring("/app/"), "nor where it is")
				g.Expect(prompt.User).To(And(ContainSubstring("stripe-access-token"), ContainSubstring("secrets in the files of one container image")))
			}
		})
	}
}

func mention(t *testing.T, object any) bool {
	t.Helper()
	text, err := json.Marshal(object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return strings.Contains(string(text), canary)
}

func TestAMalformedExposedSecretReportIsRejected(t *testing.T) {
	without := func(key string, value any) map[string]any {
		secret := stripe("/app/a.yaml", "HIGH")
		secret[key] = value
		return secret
	}
	for name, test := range map[string]struct {
		report *unstructured.Unstructured
		detail string
	}{
		"no list":                   {builder.SecretReport("team-a", "ReplicaSet", "web", "nginx", nil, remove("report", "secrets")), "the field report.secrets is missing or not a list"},
		"an item that is no object": {secrets("x"), "report.secrets[0] is not an object"},
		"a secret without rule":     {secrets(without("ruleID", "")), "report.secrets[0].ruleID is empty"},
		"a target that is a list":   {secrets(without("target", []any{canary})), "report.secrets[0].target is not a string"},
	} {
		t.Run(name, func(t *testing.T) { expectDropped(t, test.report, malformed(test.detail)) })
	}
}
