// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// identifiers are what the hypotheses speak of: vulnerabilities and checks that the request names.
var identifiers = regexp.MustCompile(`\b(CVE-\d{4}-\d{4,7}|GHSA(?:-[0-9a-z]{4}){3}|(?:AVD-)?KSV-?\d{3,4})\b`)

// hypothesis is one entry of an answer.
type hypothesis struct {
	Cause             string `json:"cause"`
	Rationale         string `json:"rationale"`
	Confidence        int    `json:"confidence"`
	RecommendedAction string `json:"recommendedAction"`
}

// stories are what may be behind vulnerabilities; %s is one of them or several.
var stories = []hypothesis{
	{"The base image of the container is out of date", "%s are in packages of the distribution, for which fixed versions have been released. A rebuild on the present base image would take them over.", 78, "ProposePullRequest"},
	{"A dependency is pinned to a version from before the fix", "%s are fixed in later releases of the same line, but the version that is installed predates them, as a lock file does that nobody renews.", 71, "ProposePullRequest"},
	{"The image carries packages that the workload does not need", "%s are in tools that a server seldom calls. A smaller image would not have them, whether a fix exists or not.", 54, "Notify"},
	{"No fix has been released for the worst entries yet", "For %s the evidence names no fixed version. Until there is one, reachability decides how urgent it is.", 46, "Notify"},
	{"The image is built once and never again", "%s were published after a typical build date of the installed versions, which a periodic rebuild would have picked up.", 63, "ProposePullRequest"},
}

// checks are what may be behind failed checks of a configuration.
var checks = []hypothesis{
	{"The workload runs with the defaults of its chart", "%s fail together when a security context was never set, rather than set to something unsafe.", 74, "ProposePullRequest"},
	{"A privilege was granted for one task and stayed", "%s allow more than a long-running container of this kind commonly uses.", 52, "Notify"},
	{"The namespace enforces no Pod Security Standard", "%s would be refused at admission under the restricted profile, so nothing stopped them here.", 58, "Notify"},
}

// Hypotheses returns what Good answers to a call, as JSON: one to three hypotheses, the likeliest first. Equal bodies get
// equal answers.
func Hypotheses(call *Call) string {
	found := identifiers.FindAllString(call.User, -1)
	slices.Sort(found)
	found = slices.Compact(found)
	tales := stories
	if len(found) > 0 && strings.Contains(found[0], "KSV") {
		tales = checks
	}
	seed := int(call.Key[0]) + int(call.Key[1])<<8
	chosen := make([]hypothesis, 0, 3)
	for i := range 1 + seed%3 {
		tale := tales[(seed/3+i)%len(tales)]
		tale.Rationale = fmt.Sprintf(tale.Rationale, named(found))
		tale.Confidence -= seed % 7
		chosen = append(chosen, tale)
	}
	slices.SortStableFunc(chosen, func(a, b hypothesis) int { return b.Confidence - a.Confidence })
	text, err := json.Marshal(map[string]any{"hypotheses": chosen})
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}

func named(found []string) string {
	switch len(found) {
	case 0:
		return "The entries"
	case 1, 2, 3:
		return strings.Join(found, ", ")
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(found[:2], ", "), len(found)-2)
	}
}
