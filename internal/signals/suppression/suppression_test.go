// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suppression

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func mute(name, fingerprint string, change ...func(*candorv1alpha1.Suppression)) candorv1alpha1.Suppression {
	return *builder.Suppression("team-a", name, fingerprint, change...)
}

func until(d time.Duration) func(*candorv1alpha1.Suppression) {
	return func(s *candorv1alpha1.Suppression) { s.Spec.ExpiresAt = &metav1.Time{Time: now.Add(d)} }
}

func deleted(s *candorv1alpha1.Suppression) { s.DeletionTimestamp = &metav1.Time{Time: now} }

func TestAFindingIsMutedByItsFingerprint(t *testing.T) {
	for name, test := range map[string]struct {
		suppressions []candorv1alpha1.Suppression
		by           string
		until        time.Time
	}{
		"no Suppression mutes nothing":                            {nil, "", time.Time{}},
		"a Suppression of other content mutes nothing":            {[]candorv1alpha1.Suppression{mute("a", "old")}, "", time.Time{}},
		"a Suppression without an end mutes":                      {[]candorv1alpha1.Suppression{mute("a", "print")}, "a", time.Time{}},
		"a Suppression mutes until its end":                       {[]candorv1alpha1.Suppression{mute("a", "print", until(time.Hour))}, "a", now.Add(time.Hour)},
		"a Suppression that ends now has ended":                   {[]candorv1alpha1.Suppression{mute("a", "print", until(0))}, "", time.Time{}},
		"a Suppression that has ended mutes nothing":              {[]candorv1alpha1.Suppression{mute("a", "print", until(-time.Second))}, "", time.Time{}},
		"a Suppression that is being deleted mutes nothing":       {[]candorv1alpha1.Suppression{mute("a", "print", deleted)}, "", time.Time{}},
		"of several, the one that never ends is named":            {[]candorv1alpha1.Suppression{mute("a", "print", until(time.Hour)), mute("z", "print")}, "z", time.Time{}},
		"of several that end, the one that lasts longest":         {[]candorv1alpha1.Suppression{mute("a", "print", until(time.Hour)), mute("b", "print", until(2*time.Hour)), mute("c", "print", until(time.Minute))}, "b", now.Add(2 * time.Hour)},
		"of several that end together, the first by name":         {[]candorv1alpha1.Suppression{mute("b", "print", until(time.Hour)), mute("a", "print", until(time.Hour))}, "a", now.Add(time.Hour)},
		"of several that never end, the first by name":            {[]candorv1alpha1.Suppression{mute("b", "print"), mute("a", "print")}, "a", time.Time{}},
		"one that has ended does not hide one that has not":       {[]candorv1alpha1.Suppression{mute("a", "print", until(-time.Hour)), mute("b", "print", until(time.Hour))}, "b", now.Add(time.Hour)},
		"one that is being deleted does not hide one that is not": {[]candorv1alpha1.Suppression{mute("a", "print", deleted), mute("b", "print")}, "b", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := Find(test.suppressions, "print", now)
			g.Expect(got.Until).To(BeTemporally("==", test.until))
			if test.by == "" {
				g.Expect(got.By).To(BeNil())
				return
			}
			g.Expect(got.By).To(HaveField("Name", test.by))
		})
	}
}

func TestASuppressionIsActiveUntilItEndsOrIsDeleted(t *testing.T) {
	g := NewWithT(t)
	for name, test := range map[string]struct {
		change          []func(*candorv1alpha1.Suppression)
		active, expired bool
	}{
		"without an end":         {nil, true, false},
		"before its end":         {[]func(*candorv1alpha1.Suppression){until(time.Nanosecond)}, true, false},
		"at its end":             {[]func(*candorv1alpha1.Suppression){until(0)}, false, true},
		"while it is deleted":    {[]func(*candorv1alpha1.Suppression){deleted}, false, false},
		"deleted after its end":  {[]func(*candorv1alpha1.Suppression){deleted, until(-time.Hour)}, false, true},
		"deleted before its end": {[]func(*candorv1alpha1.Suppression){deleted, until(time.Hour)}, false, false},
	} {
		s := mute("a", "print", test.change...)
		g.Expect(Active(&s, now)).To(Equal(test.active), name)
		g.Expect(Expired(&s, now)).To(Equal(test.expired), name)
	}
}
