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

type change = func(*candorv1alpha1.Suppression)

func mute(name, fingerprint string, changes ...change) candorv1alpha1.Suppression {
	return *builder.Suppression("team-a", name, fingerprint, changes...)
}

func until(d time.Duration) change {
	return func(s *candorv1alpha1.Suppression) { s.Spec.ExpiresAt = &metav1.Time{Time: now.Add(d)} }
}

func ends(at time.Time) change {
	return func(s *candorv1alpha1.Suppression) { s.Spec.ExpiresAt = &metav1.Time{Time: at} }
}

func created(d time.Duration) change {
	return func(s *candorv1alpha1.Suppression) { s.CreationTimestamp.Time = now.Add(d) }
}

func deleted(s *candorv1alpha1.Suppression) { s.DeletionTimestamp = &metav1.Time{Time: now} }

func ids(names ...string) change {
	return func(s *candorv1alpha1.Suppression) { s.Spec.VulnerabilityIDs = names }
}

func packages(names ...string) change {
	return func(s *candorv1alpha1.Suppression) { s.Spec.Packages = names }
}

func repositories(names ...string) change {
	return func(s *candorv1alpha1.Suppression) { s.Spec.ImageRepositories = names }
}

func workload(kind, name string) change {
	return func(s *candorv1alpha1.Suppression) {
		s.Spec.Workload = &candorv1alpha1.WorkloadScope{Kind: kind, Name: name}
	}
}

func TestAFindingIsMutedAsAWhole(t *testing.T) {
	web := workload("Deployment", "web")
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
		"a Suppression of its workload mutes":                     {[]candorv1alpha1.Suppression{mute("a", "", web)}, "a", time.Time{}},
		"a Suppression of another workload mutes nothing":         {[]candorv1alpha1.Suppression{mute("a", "", workload("Deployment", "db"))}, "", time.Time{}},
		"a Suppression of another kind mutes nothing":             {[]candorv1alpha1.Suppression{mute("a", "", workload("StatefulSet", "web"))}, "", time.Time{}},
		"content and workload hold together":                      {[]candorv1alpha1.Suppression{mute("a", "print", web)}, "a", time.Time{}},
		"content without the workload mutes nothing":              {[]candorv1alpha1.Suppression{mute("a", "print", workload("Deployment", "db"))}, "", time.Time{}},
		"the workload without the content mutes nothing":          {[]candorv1alpha1.Suppression{mute("a", "old", web)}, "", time.Time{}},
		"of a content and a workload, the one that lasts longest": {[]candorv1alpha1.Suppression{mute("a", "print", until(time.Hour)), mute("b", "", web, until(2*time.Hour))}, "b", now.Add(2 * time.Hour)},
		"a Suppression of vulnerabilities is not of the whole":    {[]candorv1alpha1.Suppression{mute("a", "print", ids("CVE-2026-00001"))}, "", time.Time{}},
		"a Suppression of an image is not of the whole":           {[]candorv1alpha1.Suppression{mute("a", "", repositories("library/nginx"))}, "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := Compile(test.suppressions, 0).Whole(Facts{Kind: "Deployment", Name: "web", Fingerprint: "print"}, now)
			if test.by == "" {
				g.Expect(got).To(BeNil())
				return
			}
			g.Expect(got).To(HaveField("Name", test.by))
			g.Expect(got.End).To(BeTemporally("==", test.until))
		})
	}
}

func TestAMuteEndsByItselfOrWhenItHasLastedAsLongAsItMay(t *testing.T) {
	const month = 30 * day
	for name, test := range map[string]struct {
		changes   []change
		longest   time.Duration
		end       time.Time
		shortened bool
	}{
		"never, without an end and without a bound":          {nil, 0, time.Time{}, false},
		"at its end, without a bound":                        {[]change{until(time.Hour)}, 0, now.Add(time.Hour), false},
		"at the bound, without an end":                       {[]change{created(-day)}, month, now.Add(month - day), true},
		"at its end, where the bound comes later":            {[]change{created(0), until(time.Hour)}, month, now.Add(time.Hour), false},
		"at the bound, where its end comes later":            {[]change{created(0), until(2 * month)}, month, now.Add(month), true},
		"at the bound that is its end, which shortens none":  {[]change{created(0), until(month)}, month, now.Add(month), false},
		"at a bound that has passed, however late its end":   {[]change{created(-2 * month), until(month)}, month, now.Add(-month), true},
		"at the bound of its creation, whatever was edited":  {[]change{created(-month), func(s *candorv1alpha1.Suppression) { s.Generation = 7 }}, month, now, true},
		"long ago, where its end is the start of all time":   {[]change{ends(time.Time{})}, 0, time.Time{}.Add(time.Second), false},
		"long ago too, under a bound":                        {[]change{created(0), ends(time.Time{})}, month, time.Time{}.Add(time.Second), false},
		"never, though it was made long ago, without bounds": {[]change{created(-100 * month)}, 0, time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := mute("a", "print", test.changes...)
			g.Expect(End(&s, test.longest)).To(BeTemporally("==", test.end))
			g.Expect(Shortened(&s, test.longest)).To(Equal(test.shortened))
		})
	}
}

func TestTheOperatingPolicyBoundsMutes(t *testing.T) {
	g := NewWithT(t)
	days := int32(90)
	g.Expect(Longest(nil)).To(BeZero())
	g.Expect(Longest(&candorv1alpha1.OperatingPolicy{})).To(BeZero())
	g.Expect(Longest(&candorv1alpha1.OperatingPolicy{Spec: candorv1alpha1.OperatingPolicySpec{Suppression: &candorv1alpha1.SuppressionLimits{}}})).To(BeZero())
	g.Expect(Longest(&candorv1alpha1.OperatingPolicy{Spec: candorv1alpha1.OperatingPolicySpec{
		Suppression: &candorv1alpha1.SuppressionLimits{MaxDays: &days},
	}})).To(Equal(90 * day))
}
