// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

func TestASuppressionIsWarnedOfWhatMutesNothing(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	print64 := strings.Repeat("0f", 32)
	noPrint := func(text string) string {
		return `spec.fingerprint: "` + text + `" is no fingerprint, which has 64 digits of 0-9a-f, and mutes nothing: ` +
			"copy it whole with kubectl get finding NAME -o jsonpath='{.status.fingerprint}'"
	}
	for name, test := range map[string]struct {
		fingerprint string
		expires     time.Duration
		want        []string
	}{
		"a whole fingerprint without an end": {print64, 0, nil},
		"an end that is to come":             {print64, time.Second, nil},
		"an end that has passed": {print64, -time.Hour, []string{
			"spec.expiresAt: 2026-11-30T11:00:00Z has passed, so this mutes nothing: set a later time, or leave it out to mute until the content changes",
		}},
		"half a fingerprint":            {print64[:12], 0, []string{noPrint(print64[:12])}},
		"a fingerprint in capitals":     {strings.ToUpper(print64), 0, []string{noPrint(strings.ToUpper(print64))}},
		"a fingerprint and a line feed": {print64 + "\n", 0, []string{noPrint(print64 + `\n`)}},
		"both mistakes": {"x", -time.Hour, []string{
			noPrint("x"),
			"spec.expiresAt: 2026-11-30T11:00:00Z has passed, so this mutes nothing: set a later time, or leave it out to mute until the content changes",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := builder.Suppression("team-a", "mute", test.fingerprint)
			if test.expires != 0 {
				s.Spec.ExpiresAt = &metav1.Time{Time: now.Add(test.expires)}
			}
			NewWithT(t).Expect(Suppression(s, 0, now)).To(Equal(test.want))
		})
	}
	t.Run("an end of this very moment", func(t *testing.T) {
		s := builder.Suppression("team-a", "mute", print64, func(s *candorv1alpha1.Suppression) { s.Spec.ExpiresAt = &metav1.Time{Time: now} })
		NewWithT(t).Expect(Suppression(s, 0, now)).To(HaveLen(1))
	})
}

func TestASuppressionIsWarnedOfScopesThatLookWrong(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	set := func(change func(*candorv1alpha1.SuppressionSpec)) *candorv1alpha1.Suppression {
		s := builder.Suppression("team-a", "mute", "")
		change(&s.Spec)
		return s
	}
	ids := func(names ...string) *candorv1alpha1.Suppression {
		return set(func(s *candorv1alpha1.SuppressionSpec) { s.VulnerabilityIDs = names })
	}
	packages := func(names ...string) *candorv1alpha1.Suppression {
		return set(func(s *candorv1alpha1.SuppressionSpec) { s.Packages = names })
	}
	images := func(names ...string) *candorv1alpha1.Suppression {
		return set(func(s *candorv1alpha1.SuppressionSpec) { s.ImageRepositories = names })
	}
	workload := func(kind string) *candorv1alpha1.Suppression {
		return set(func(s *candorv1alpha1.SuppressionSpec) {
			s.Workload = &candorv1alpha1.WorkloadScope{Kind: kind, Name: "web"}
		})
	}
	const asShown = ": write it as the RESOURCE column of kubectl get findings shows it"
	for name, test := range map[string]struct {
		suppression *candorv1alpha1.Suppression
		want        []string
	}{
		"identifiers of every scanner": {ids("CVE-2024-1234", "CVE-2024-1234567", "GHSA-jfh8-c2jp-5v3q", "AVD-KSV-0001", "KSV001", "RUSTSEC-2024-0001",
			"GO-2024-2611", "DLA-3700-1", "TEMP-0841856-B18BAF", "RHSA-2024:1234", "aws-access-key-id", "require-labels/autogen-check"), nil},
		"an identifier in small letters": {ids("CVE-2024-1234", "cve-2024-1234"), []string{
			`spec.vulnerabilityIDs[1]: "cve-2024-1234" does not look like an identifier: write it as in CVE-2024-1234`,
		}},
		"an identifier that was cut": {ids("CVE-2024-12"), []string{
			`spec.vulnerabilityIDs[0]: "CVE-2024-12" does not look like an identifier: write it as in CVE-2024-1234`,
		}},
		"an identifier of GitHub in capitals": {ids("GHSA-JFH8-C2JP-5V3Q"), []string{
			`spec.vulnerabilityIDs[0]: "GHSA-JFH8-C2JP-5V3Q" does not look like an identifier: write it as in GHSA-jfh8-c2jp-5v3q`,
		}},
		"two identifiers in one": {ids("CVE-2024-1234, CVE-2024-1235"), []string{
			`spec.vulnerabilityIDs[0]: "CVE-2024-1234, CVE-2024-1235" does not look like an identifier: write one in each item, without spaces`,
		}},
		"packages of every language": {packages("openssl", "openssl@3.0.1-r0", "@babel/core", "@babel/core@7.1.0", "org.apache.logging.log4j:log4j-core@2.14.0"), nil},
		"a package with two versions": {packages("openssl@3@1"), []string{
			`spec.packages[0]: "openssl@3@1" has more than one @ before a version: write a name, or a name, @ and the installed version`,
		}},
		"a package without its version": {packages("openssl@"), []string{
			`spec.packages[0]: "openssl@" has no version after its @: write one, or the name alone`,
		}},
		"images of every registry": {images("nginx", "library/nginx", "registry.example.com:5000/base/java", "registry.example.com:5000/*", "base/*"), nil},
		"an image with a tag": {images("registry.example.com:5000/base/java:17"), []string{
			`spec.imageRepositories[0]: "registry.example.com:5000/base/java:17" has a tag, and mutes nothing: write the image without it, which mutes every build of it`,
		}},
		"an image with a digest": {images("base/java@sha256:0f"), []string{
			`spec.imageRepositories[0]: "base/java@sha256:0f" has a digest, and mutes nothing: write the image without it, which mutes every build of it`,
		}},
		"an image with a scheme": {images("https://registry.example.com/base"), []string{
			`spec.imageRepositories[0]: "https://registry.example.com/base" has a scheme, and mutes nothing: write the image as in registry.example.com/base/java`,
		}},
		"an image with a star inside": {images("*/java", "/*", "base*"), []string{
			`spec.imageRepositories[0]: "*/java" has a * elsewhere than in a last /*, and mutes nothing: write an image, or a path that ends with /*`,
			`spec.imageRepositories[1]: "/*" has a * elsewhere than in a last /*, and mutes nothing: write an image, or a path that ends with /*`,
			`spec.imageRepositories[2]: "base*" has a * elsewhere than in a last /*, and mutes nothing: write an image, or a path that ends with /*`,
		}},
		"an image that ends with a slash": {images("base/"), []string{
			`spec.imageRepositories[0]: "base/" ends with a slash, and mutes nothing: end it with /* to mean everything below it`,
		}},
		"a kind":                                 {workload("StatefulSet"), nil},
		"a kind in small letters":                {workload("deployment"), []string{`spec.workload.kind: "deployment" is not a kind that reports usually speak of (Deployment is)` + asShown}},
		"a kind in the plural":                   {workload("Deployments"), []string{`spec.workload.kind: "Deployments" is not a kind that reports usually speak of (Deployment is)` + asShown}},
		"a kind that nobody knows":               {workload("Widget"), []string{`spec.workload.kind: "Widget" is not a kind that reports usually speak of` + asShown}},
		"no fingerprint, where others are named": {ids("CVE-2024-1234"), nil},
		"half a fingerprint beside others": {set(func(s *candorv1alpha1.SuppressionSpec) {
			s.Fingerprint, s.Packages = "18a0", []string{"openssl"}
		}), []string{`spec.fingerprint: "18a0" is no fingerprint, which has 64 digits of 0-9a-f, and mutes nothing: ` +
			"copy it whole with kubectl get finding NAME -o jsonpath='{.status.fingerprint}'"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Suppression(test.suppression, 0, now)).To(Equal(test.want))
		})
	}
}

func TestASuppressionIsWarnedOfABoundThatShortensIt(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const month, allowed = 30 * 24 * time.Hour, "spec.suppression.maxDays of the OperatingPolicy allows 30 days from its creation"
	for name, test := range map[string]struct {
		created, expires, longest time.Duration
		want                      []string
	}{
		"without a bound":               {0, 0, 0, nil},
		"that ends before the bound":    {0, time.Hour, month, nil},
		"that ends at the bound":        {0, month, month, nil},
		"that never ends by itself":     {0, 0, month, []string{"spec.expiresAt: this mutes until 2026-12-30T12:00:00Z only: " + allowed}},
		"that ends after the bound":     {0, 2 * month, month, []string{"spec.expiresAt: this mutes until 2026-12-30T12:00:00Z only: " + allowed}},
		"that is older than the bound":  {-2 * month, month, month, []string{"spec.expiresAt: this mutes nothing since 2026-10-31T12:00:00Z: " + allowed + "; create it anew to mute on"}},
		"that has ended by itself also": {-2 * month, -time.Hour, month, []string{"spec.expiresAt: 2026-11-30T11:00:00Z has passed, so this mutes nothing: set a later time, or leave it out to mute until the content changes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := builder.Suppression("team-a", "mute", strings.Repeat("0f", 32))
			if test.created != 0 {
				s.CreationTimestamp.Time = now.Add(test.created)
			}
			if test.expires != 0 {
				s.Spec.ExpiresAt = &metav1.Time{Time: now.Add(test.expires)}
			}
			NewWithT(t).Expect(Suppression(s, test.longest, now)).To(Equal(test.want))
		})
	}
}
