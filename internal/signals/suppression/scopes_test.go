// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suppression

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

var (
	nginx = candorv1alpha1.Artifact{Registry: "index.docker.io", Repository: "library/nginx", Tag: "1.27"}
	web   = Facts{Kind: "Deployment", Name: "web", Fingerprint: "print", Artifact: nginx}

	openssl = entry("CVE-2026-0001", "openssl", "3.0.1-r0")
	curl    = entry("CVE-2026-0002", "curl", "8.1.0")
	libssl  = entry("CVE-2026-0001", "libssl3", "3.0.1-r0")
	babel   = entry("CVE-2026-0003", "@babel/core", "7.1.0")
	check   = signals.Entry{ID: "KSV-0001", Rank: signals.High}
	all     = []signals.Entry{openssl, curl, libssl, babel, check}
)

func entry(id, name, installed string) signals.Entry {
	return signals.Entry{ID: id, Package: name, Installed: installed, Rank: signals.High}
}

func TestEntriesAreMutedWhereEverythingThatIsNamedHolds(t *testing.T) {
	for name, test := range map[string]struct {
		changes []change
		muted   []signals.Entry
	}{
		"an identifier, in every package":           {[]change{ids("CVE-2026-0001")}, []signals.Entry{openssl, libssl}},
		"one of several identifiers":                {[]change{ids("CVE-2026-0002", "CVE-2026-9999")}, []signals.Entry{curl}},
		"an identifier of a check":                  {[]change{ids("KSV-0001")}, []signals.Entry{check}},
		"an identifier in small letters is another": {[]change{ids("cve-2026-0001")}, nil},
		"a package":                              {[]change{packages("openssl")}, []signals.Entry{openssl}},
		"a package of the installed version":     {[]change{packages("openssl@3.0.1-r0")}, []signals.Entry{openssl}},
		"a package of another version":           {[]change{packages("openssl@3.0.2-r0")}, nil},
		"a package whose name starts with an @":  {[]change{packages("@babel/core")}, []signals.Entry{babel}},
		"such a package with its version":        {[]change{packages("@babel/core@7.1.0")}, []signals.Entry{babel}},
		"the start of a package's name":          {[]change{packages("open")}, nil},
		"an identifier and a package, both":      {[]change{ids("CVE-2026-0001"), packages("libssl3")}, []signals.Entry{libssl}},
		"an identifier and a package of another": {[]change{ids("CVE-2026-0001"), packages("curl")}, nil},
		"an image":                               {[]change{repositories("library/nginx")}, all},
		"another image":                          {[]change{repositories("library/redis")}, nil},
		"an identifier in this image":            {[]change{ids("CVE-2026-0002"), repositories("library/nginx")}, []signals.Entry{curl}},
		"an identifier in another image":         {[]change{ids("CVE-2026-0002"), repositories("library/redis")}, nil},
		"an image of this workload":              {[]change{repositories("library/nginx"), workload("Deployment", "web")}, all},
		"an image of another workload":           {[]change{repositories("library/nginx"), workload("Deployment", "db")}, nil},
		"an identifier of this workload":         {[]change{ids("CVE-2026-0002"), workload("Deployment", "web")}, []signals.Entry{curl}},
		"an identifier of another kind":          {[]change{ids("CVE-2026-0002"), workload("DaemonSet", "web")}, nil},
		"an identifier in this content":          {[]change{ids("CVE-2026-0002"), content("print")}, []signals.Entry{curl}},
		"an identifier in other content":         {[]change{ids("CVE-2026-0002"), content("old")}, nil},
		"all of them": {[]change{
			ids("CVE-2026-0001"), packages("openssl@3.0.1-r0"), repositories("library/*"), workload("Deployment", "web"), content("print"),
		}, []signals.Entry{openssl}},
		"all of them, and it has ended":                      {[]change{ids("CVE-2026-0001"), until(0)}, nil},
		"all of them, as it is deleted":                      {[]change{ids("CVE-2026-0001"), deleted}, nil},
		"a workload alone, which mutes the whole instead":    {[]change{workload("Deployment", "web")}, nil},
		"a fingerprint alone, which mutes the whole instead": {[]change{content("print")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := mute("a", "", test.changes...)
			got := Compile([]candorv1alpha1.Suppression{s}, 0).Judge(web, all, now)
			g.Expect(got.Muted).To(Equal(len(test.muted)))
			g.Expect(append(got.Left, test.muted...)).To(ConsistOf(all))
			if len(test.muted) == 0 {
				g.Expect(got.By).To(BeEmpty())
				return
			}
			g.Expect(got.By).To(Equal([]string{"a"}))
			g.Expect(ScopeOf(&s, 0).Count(web, all)).To(Equal(len(test.muted)))
		})
	}
}

func content(fingerprint string) change {
	return func(s *candorv1alpha1.Suppression) { s.Spec.Fingerprint = fingerprint }
}

func TestAnImageIsNamedAsPeopleNameIt(t *testing.T) {
	private := candorv1alpha1.Artifact{Registry: "registry.example.com:5000", Repository: "base/java"}
	for name, test := range map[string]struct {
		artifact candorv1alpha1.Artifact
		names    []string
		held     bool
	}{
		"without its registry":                    {private, []string{"base/java"}, true},
		"with its registry":                       {private, []string{"registry.example.com:5000/base/java"}, true},
		"with another registry":                   {private, []string{"mirror.example.com/base/java"}, false},
		"by its last part alone":                  {private, []string{"java"}, false},
		"by a path without its registry":          {private, []string{"base/*"}, true},
		"by a path with its registry":             {private, []string{"registry.example.com:5000/*"}, true},
		"by a path that ends inside a word":       {private, []string{"ba/*"}, false},
		"by a path of another registry":           {private, []string{"mirror.example.com/*"}, false},
		"by the path that it is":                  {private, []string{"base/java/*"}, false},
		"by one of several":                       {private, []string{"base/go", "base/java"}, true},
		"with a tag, which is never part of it":   {private, []string{"base/java:17"}, false},
		"of Docker Hub as the scanner writes it":  {nginx, []string{"index.docker.io/library/nginx"}, true},
		"of Docker Hub as people write it":        {nginx, []string{"docker.io/library/nginx"}, true},
		"of Docker Hub by its word alone":         {nginx, []string{"nginx"}, true},
		"of Docker Hub by its word with registry": {nginx, []string{"docker.io/nginx"}, true},
		"of all of Docker Hub":                    {nginx, []string{"docker.io/*"}, true},
		"that nobody named":                       {candorv1alpha1.Artifact{}, []string{"base/*", ""}, false},
		"without a registry in its report":        {candorv1alpha1.Artifact{Repository: "base/java"}, []string{"base/java"}, true},
		"of a library that is not Docker Hub's":   {candorv1alpha1.Artifact{Registry: "quay.io", Repository: "library/nginx"}, []string{"nginx"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(imagesOf(test.names).hold(test.artifact)).To(Equal(test.held))
		})
	}
}

func TestLongNamesMayBeWrittenAsAFindingShowsThem(t *testing.T) {
	g := NewWithT(t)
	long := entry("CVE-"+strings.Repeat("9", 100), strings.Repeat("p", 200), strings.Repeat("1", 100))
	shown := signals.Show(long)
	for _, by := range []change{ids(shown.ID), packages(shown.Package), packages(shown.Package + "@" + shown.Installed), packages(long.Package)} {
		s := mute("a", "", by)
		g.Expect(ScopeOf(&s, 0).Count(web, []signals.Entry{long})).To(Equal(1))
	}
}

func TestAVerdictNamesWhoMutesAndWhenThatMayChange(t *testing.T) {
	scope := func(name string, changes ...change) candorv1alpha1.Suppression { return mute(name, "", changes...) }
	var many []candorv1alpha1.Suppression
	for i := range 7 {
		many = append(many, scope(fmt.Sprint("s", i), ids("CVE-2026-0001"), until(time.Duration(10-i)*time.Hour)))
	}
	for name, test := range map[string]struct {
		suppressions []candorv1alpha1.Suppression
		by           []string
		next         time.Time
	}{
		"nobody, who never changes":                       {[]candorv1alpha1.Suppression{scope("a", ids("CVE-1"), until(time.Hour))}, nil, time.Time{}},
		"one that never ends":                             {[]candorv1alpha1.Suppression{scope("a", ids("CVE-2026-0001"))}, []string{"a"}, time.Time{}},
		"two, at the first end":                           {[]candorv1alpha1.Suppression{scope("b", ids("CVE-2026-0001"), until(time.Hour)), scope("a", packages("curl"), until(2*time.Hour))}, []string{"a", "b"}, now.Add(time.Hour)},
		"two of one entry, since the names change":        {[]candorv1alpha1.Suppression{scope("b", ids("CVE-2026-0001"), until(time.Hour)), scope("a", ids("CVE-2026-0001"))}, []string{"a", "b"}, now.Add(time.Hour)},
		"the first of many, and the first end of all":     {many, []string{"s0", "s1", "s2", "s3", "s4"}, now.Add(4 * time.Hour)},
		"as many long names as a Finding has room for":    {[]candorv1alpha1.Suppression{scope(strings.Repeat("a", 253), packages("curl")), scope(strings.Repeat("b", 253), packages("curl")), scope(strings.Repeat("c", 253), packages("curl"))}, []string{strings.Repeat("a", 253), strings.Repeat("b", 253)}, time.Time{}},
		"one that mutes, and not one that mutes no entry": {[]candorv1alpha1.Suppression{scope("a", packages("curl")), scope("b", packages("wget"))}, []string{"a"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := Compile(test.suppressions, 0).Judge(web, all, now)
			g.Expect(got.By).To(Equal(test.by))
			g.Expect(got.Next).To(BeTemporally("==", test.next))
			g.Expect(Crowded(got.By)).To(Equal(len(got.By) == MaxNames || len(got.By) > 0 && len(got.By[0]) == 253))
		})
	}
}

func TestWhatNobodySeesStaysMutedForAsLongAsItsSuppressionsStand(t *testing.T) {
	image, cve, other := mute("image", "", repositories("nginx"), until(2*time.Hour)), mute("cve", "", ids("CVE-2026-0001"), until(time.Hour)), mute("other", "", ids("CVE-2026-0002"))
	said := func(muted int32, by ...string) *candorv1alpha1.Evidence {
		return &candorv1alpha1.Evidence{Total: 5, Muted: muted, MutedBy: by}
	}
	for name, test := range map[string]struct {
		suppressions []candorv1alpha1.Suppression
		last         *candorv1alpha1.Evidence
		muted        int
		by           []string
		next         time.Time
	}{
		"nothing was muted":                            {nil, said(0), 0, nil, time.Time{}},
		"a new one of a vulnerability waits":           {[]candorv1alpha1.Suppression{cve}, said(0), 0, nil, time.Time{}},
		"a new one of an image mutes":                  {[]candorv1alpha1.Suppression{image}, said(0), 5, []string{"image"}, now.Add(2 * time.Hour)},
		"what stands stays":                            {[]candorv1alpha1.Suppression{cve}, said(2, "cve"), 2, []string{"cve"}, now.Add(time.Hour)},
		"what is gone ends":                            {nil, said(2, "cve"), 0, nil, time.Time{}},
		"one of two is gone, and nobody can tell":      {[]candorv1alpha1.Suppression{cve}, said(3, "cve", "other"), 0, nil, time.Time{}},
		"two stand":                                    {[]candorv1alpha1.Suppression{cve, other}, said(3, "cve", "other"), 3, []string{"cve", "other"}, now.Add(time.Hour)},
		"an image comes to what stands":                {[]candorv1alpha1.Suppression{cve, image}, said(2, "cve"), 5, []string{"image"}, now.Add(2 * time.Hour)},
		"an image that was seen stays with the others": {[]candorv1alpha1.Suppression{cve, image}, said(5, "cve", "image"), 5, []string{"cve", "image"}, now.Add(time.Hour)},
		"an image stays when the other goes":           {[]candorv1alpha1.Suppression{image}, said(5, "cve", "image"), 5, []string{"image"}, now.Add(2 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := Compile(test.suppressions, 0).Keep(web, test.last, now)
			g.Expect(got.Muted).To(Equal(test.muted))
			g.Expect(got.By).To(Equal(test.by))
			g.Expect(got.Next).To(BeTemporally("==", test.next))
			g.Expect(got.Left).To(BeNil())
			again := said(int32(got.Muted), got.By...)
			g.Expect(Compile(test.suppressions, 0).Keep(web, again, now)).To(Equal(got), "the second look changes nothing")
		})
	}
}

func TestAFindingConcernsTheSuppressionsThatMuteIt(t *testing.T) {
	g := NewWithT(t)
	scopes := Compile([]candorv1alpha1.Suppression{
		mute("print", "print"), mute("old", "old"), mute("web", "", workload("Deployment", "web"), until(-time.Hour)),
		mute("db", "", workload("Deployment", "db")), mute("cve", "", ids("CVE-1")), mute("image", "", repositories("nginx")),
	}, 0)
	g.Expect(scopes.Concerning(web, nil)).To(ConsistOf("print", "web"))
	g.Expect(scopes.Concerning(web, []string{"cve"})).To(ConsistOf("print", "web", "cve"))
	g.Expect(scopes.Concerning(web, []string{"1", "2", "3", "4", "5"})).To(ConsistOf("print", "web", "1", "2", "3", "4", "5", "cve", "image"), "it has no room to name all")
	g.Expect(scopes.Named("cve")).To(HaveField("Name", "cve"))
	g.Expect(scopes.Named("nobody")).To(BeNil())
}

func TestASuppressionIsHeldAsItWasRead(t *testing.T) {
	g := NewWithT(t)
	read := mute("cve", "", ids("CVE-1"), func(s *candorv1alpha1.Suppression) { s.UID, s.Generation = "one", 1 })
	scopes := Compile([]candorv1alpha1.Suppression{read}, 0)
	g.Expect(scopes.Hold(&read)).To(BeTrue())
	edited, anew, other := read, read, mute("other", "", ids("CVE-1"))
	edited.Generation, anew.UID = 2, "two"
	for _, s := range []candorv1alpha1.Suppression{edited, anew, other} {
		g.Expect(scopes.Hold(&s)).To(BeFalse())
	}
}
