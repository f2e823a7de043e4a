// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image checks what can be known of the image without a container engine: what its Dockerfile says, and what the
// commands in it make, run here.
package image

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const root = "../.."

// instruction is one of a Dockerfile.
type instruction struct{ name, rest string }

// stage is what follows a FROM.
type stage []instruction

func (s stage) all(name string) []string {
	var found []string
	for _, i := range s {
		if i.name == name {
			found = append(found, i.rest)
		}
	}
	return found
}

// last returns the last instruction of a name, which is the one that counts.
func (s stage) last(name string) string {
	all := s.all(name)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// dockerfile returns what stands before the first FROM, and the stages.
func dockerfile(t *testing.T) (stage, []stage) {
	t.Helper()
	stages := []stage{{}}
	joined := strings.ReplaceAll(text(t, "Dockerfile"), "\\\n", "")
	for line := range strings.Lines(joined) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if name == "FROM" {
			stages = append(stages, stage{})
		}
		last := &stages[len(stages)-1]
		*last = append(*last, instruction{name, strings.TrimSpace(rest)})
	}
	NewWithT(t).Expect(stages).To(HaveLen(3), "arguments, a builder and the image")
	return stages[0], stages[1:]
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(root + "/" + file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// match returns what the group of an expression matches in a file.
func match(t *testing.T, file, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindStringSubmatch(text(t, file))
	NewWithT(t).Expect(found).To(HaveLen(2), "%s has no %s", file, expression)
	return found[1]
}

func TestBaseImagesAreArguments(t *testing.T) {
	g := NewWithT(t)
	arguments, stages := dockerfile(t)
	g.Expect(arguments.all("ARG")).To(ConsistOf(
		"BUILDER=golang:"+match(t, "go.mod", `(?m)^go (\d+\.\d+)`), "BASE=gcr.io/distroless/static:nonroot"))
	g.Expect(stages[0].last("FROM")).To(Equal("--platform=$BUILDPLATFORM ${BUILDER} AS builder"), "it compiles for other architectures")
	g.Expect(stages[1].last("FROM")).To(Equal("${BASE}"))
}

func TestTheImageNeedsNoShellAndNoRoot(t *testing.T) {
	g := NewWithT(t)
	_, stages := dockerfile(t)
	image := stages[1]
	for _, name := range []string{"RUN", "SHELL", "CMD", "HEALTHCHECK", "ADD", "VOLUME", "ENV"} {
		g.Expect(image.all(name)).To(BeEmpty(), name)
	}
	var entrypoint []string
	g.Expect(json.Unmarshal([]byte(image.last("ENTRYPOINT")), &entrypoint)).To(Succeed(), "without a shell")
	g.Expect(entrypoint).To(Equal([]string{"/manager"}))
	g.Expect(image.last("USER")).To(MatchRegexp(`^[1-9]\d*:[1-9]\d*$`), "runAsNonRoot needs a number")
	g.Expect(image.all("COPY")).To(ConsistOf("--from=builder /licenses /licenses", "--from=builder /manager /manager"))
}

func TestTheImageIsLabelled(t *testing.T) {
	g := NewWithT(t)
	_, stages := dockerfile(t)
	labels := map[string]string{}
	for _, pair := range regexp.MustCompile(`([\w.]+)="([^"]*)"`).FindAllStringSubmatch(strings.Join(stages[1].all("LABEL"), " "), -1) {
		g.Expect(labels).NotTo(HaveKey(pair[1]))
		labels[pair[1]] = pair[2]
	}
	for _, name := range []string{"name", "vendor", "maintainer", "version", "release", "summary", "description"} {
		g.Expect(labels).To(HaveKeyWithValue(name, Not(BeEmpty())))
	}
	g.Expect(labels).To(And(HaveKeyWithValue("version", "${VERSION}"), HaveKeyWithValue("release", "${RELEASE}"),
		HaveKeyWithValue("org.opencontainers.image.version", "${VERSION}"), HaveKeyWithValue("org.opencontainers.image.licenses", "Apache-2.0")))
	version := "VERSION=" + match(t, "Makefile", `(?m)^VERSION \?= (.+)$`)
	for _, s := range stages {
		g.Expect(s.all("ARG")).To(ContainElement(version), "as in the Makefile")
	}
}
