// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/suppression"
)

var fingerprint = regexp.MustCompile(`^[0-9a-f]{64}$`)

// identifiers are how the identifiers look that start in a known way, whatever the case of their letters.
var identifiers = []struct {
	start, form *regexp.Regexp
	example     string
}{
	{regexp.MustCompile(`(?i)^cve`), regexp.MustCompile(`^CVE-\d{4}-\d{4,}$`), "CVE-2024-1234"},
	{regexp.MustCompile(`(?i)^ghsa`), regexp.MustCompile(`^GHSA(-[23456789cfghjmpqrvwx]{4}){3}$`), "GHSA-jfh8-c2jp-5v3q"},
}

// kinds are those that reports speak of in any cluster. Reports may speak of others.
var kinds = []string{
	"ClusterRole", "ConfigMap", "CronJob", "DaemonSet", "Deployment", "Ingress", "Job", "LimitRange", "NetworkPolicy", "PersistentVolumeClaim",
	"Pod", "ReplicaSet", "ReplicationController", "ResourceQuota", "Role", "RoleBinding", "Rollout", "Secret", "Service", "ServiceAccount", "StatefulSet",
}

// Suppression returns warnings about a Suppression at the time now; a Suppression mutes for longest at most, where that is not
// zero. None of them is an error: a manifest that was right once must still apply when a cluster is rebuilt from it.
func Suppression(s *candorv1alpha1.Suppression, longest time.Duration, now time.Time) []string {
	var warnings []string
	spec := field.NewPath("spec")
	warn := func(at *field.Path, format string, args ...any) {
		warnings = append(warnings, at.String()+": "+fmt.Sprintf(format, args...))
	}
	if hash := s.Spec.Fingerprint; (hash != "" || suppression.Whole(s) && s.Spec.Workload == nil) && !fingerprint.MatchString(hash) {
		warn(spec.Child("fingerprint"), "%q is no fingerprint, which has 64 digits of 0-9a-f, and mutes nothing: "+
			"copy it whole with kubectl get finding NAME -o jsonpath='{.status.fingerprint}'", hash)
	}
	for i, id := range s.Spec.VulnerabilityIDs {
		if remedy := oddID(id); remedy != "" {
			warn(spec.Child("vulnerabilityIDs").Index(i), "%q does not look like an identifier: %s", id, remedy)
		}
	}
	for i, name := range s.Spec.Packages {
		if remedy := oddPackage(name); remedy != "" {
			warn(spec.Child("packages").Index(i), "%q %s", name, remedy)
		}
	}
	for i, image := range s.Spec.ImageRepositories {
		if remedy := oddImage(image); remedy != "" {
			warn(spec.Child("imageRepositories").Index(i), "%q %s", image, remedy)
		}
	}
	if w := s.Spec.Workload; w != nil && !slices.Contains(kinds, w.Kind) {
		warn(spec.Child("workload", "kind"), "%q is not a kind that reports usually speak of%s: write it as the RESOURCE column of kubectl get findings shows it",
			w.Kind, meant(w.Kind))
	}
	if remedy := shortLived(s, longest, now); remedy != "" {
		warn(spec.Child("expiresAt"), "%s", remedy)
	}
	return warnings
}

// shortLived says why a Suppression mutes nothing any more, or for a shorter time than it says.
func shortLived(s *candorv1alpha1.Suppression, longest time.Duration, now time.Time) string {
	if at := s.Spec.ExpiresAt; at != nil && !at.After(now) {
		return fmt.Sprintf("%s has passed, so this mutes nothing: set a later time, or leave it out to mute until the content changes",
			at.UTC().Format(time.RFC3339))
	}
	if s.CreationTimestamp.IsZero() {
		s = s.DeepCopy()
		s.CreationTimestamp.Time = now
	}
	if !suppression.Shortened(s, longest) {
		return ""
	}
	end, allowed := suppression.End(s, longest), int(longest.Hours()/24)
	if !end.After(now) {
		return fmt.Sprintf("this mutes nothing since %s: spec.suppression.maxDays of the OperatingPolicy allows %d days from its creation; create it anew to mute on",
			end.UTC().Format(time.RFC3339), allowed)
	}
	return fmt.Sprintf("this mutes until %s only: spec.suppression.maxDays of the OperatingPolicy allows %d days from its creation",
		end.UTC().Format(time.RFC3339), allowed)
}

func oddID(id string) string {
	if strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == ',' }) {
		return "write one in each item, without spaces"
	}
	for _, known := range identifiers {
		if known.start.MatchString(id) && !known.form.MatchString(id) {
			return "write it as in " + known.example
		}
	}
	return ""
}

// oddPackage speaks of more than one @, but for the one that some names start with.
func oddPackage(name string) string {
	switch rest := strings.TrimPrefix(name, "@"); {
	case strings.Count(rest, "@") > 1:
		return "has more than one @ before a version: write a name, or a name, @ and the installed version"
	case strings.HasSuffix(rest, "@"):
		return "has no version after its @: write one, or the name alone"
	default:
		return ""
	}
}

func oddImage(image string) string {
	last := image[strings.LastIndex(image, "/")+1:]
	switch {
	case strings.Contains(image, "://"):
		return "has a scheme, and mutes nothing: write the image as in registry.example.com/base/java"
	case strings.Contains(image, "@"):
		return "has a digest, and mutes nothing: write the image without it, which mutes every build of it"
	case strings.Contains(last, ":"):
		return "has a tag, and mutes nothing: write the image without it, which mutes every build of it"
	case strings.Contains(strings.TrimSuffix(image, "/*"), "*") || image == "/*":
		return "has a * elsewhere than in a last /*, and mutes nothing: write an image, or a path that ends with /*"
	case strings.HasSuffix(image, "/"):
		return "ends with a slash, and mutes nothing: end it with /* to mean everything below it"
	default:
		return ""
	}
}

// meant names a known kind that differs by case or plural only.
func meant(kind string) string {
	for _, known := range kinds {
		if strings.EqualFold(known, kind) || strings.EqualFold(known+"s", kind) {
			return fmt.Sprintf(" (%s is)", known)
		}
	}
	return ""
}
