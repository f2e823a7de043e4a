// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// allVariable asks for the architecture that is not this machine's as well: the first time, everything is compiled once more,
// which takes minutes. CI systems set it.
const allVariable = "CI"

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// buildContext returns a folder with what .dockerignore lets into a build, which has no more than the builder would.
func buildContext(t *testing.T) string {
	t.Helper()
	g, folder := NewWithT(t), t.TempDir()
	for line := range strings.Lines(text(t, ".dockerignore")) {
		name, let := strings.CutPrefix(strings.TrimSpace(line), "!")
		if !let {
			continue
		}
		info, err := os.Stat(filepath.Join(root, name))
		g.Expect(err).NotTo(HaveOccurred())
		if info.IsDir() {
			g.Expect(os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join(root, name)))).To(Succeed())
			continue
		}
		g.Expect(os.WriteFile(filepath.Join(folder, name), []byte(text(t, name)), 0o600)).To(Succeed())
	}
	return folder
}

// run runs the command of the builder that has something in it, in a folder, with other arguments of the build and with its
// output in that folder.
func run(t *testing.T, folder, what string, arguments ...string) {
	t.Helper()
	g := NewWithT(t)
	_, stages := dockerfile(t)
	var found []string
	for _, command := range stages[0].all("RUN") {
		if strings.Contains(command, what) {
			found = append(found, command)
		}
	}
	g.Expect(found).To(HaveLen(1))
	command := exec.Command("sh", "-euc", strings.NewReplacer(" /licenses ", " ./licenses ", "-o /manager", "-o ./manager").Replace(found[0]))
	command.Dir, command.Env = folder, append(os.Environ(), arguments...)
	out, err := command.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s\n%s", found[0], out)
}

func TestTheBinaryIsStaticForEachArchitecture(t *testing.T) {
	folder := buildContext(t)
	for arch, machine := range machines {
		t.Run(arch, func(t *testing.T) {
			if arch != runtime.GOARCH && os.Getenv(allVariable) == "" {
				t.Skipf("compiles everything for %s: set %s to do it", arch, allVariable)
			}
			g := NewWithT(t)
			run(t, folder, "go build", "TARGETOS=linux", "TARGETARCH="+arch, "VERSION=1.2.3-test")
			file, err := elf.Open(filepath.Join(folder, "manager"))
			g.Expect(err).NotTo(HaveOccurred())
			defer file.Close()
			g.Expect(file.Machine).To(Equal(machine))
			for _, program := range file.Progs {
				g.Expect(program.Type).NotTo(Equal(elf.PT_INTERP), "it asks for a loader, which the image does not have")
			}
			libraries, err := file.ImportedLibraries()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(libraries).To(BeEmpty())
			if arch == runtime.GOARCH && runtime.GOOS == "linux" {
				out, err := exec.Command(filepath.Join(folder, "manager"), "--version").Output()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(out)).To(Equal("candor 1.2.3-test\n"))
			}
		})
	}
}

func TestTheLicencesOfEverythingThatIsLinkedAreThere(t *testing.T) {
	g, folder := NewWithT(t), buildContext(t)
	run(t, folder, "licenses")
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd")
	list.Dir = folder
	out, err := list.Output()
	g.Expect(err).NotTo(HaveOccurred())
	modules := strings.Fields(string(out))
	g.Expect(len(modules)).To(BeNumerically(">", 50))
	for _, of := range append(modules, ".", "go") {
		var found []string
		for _, name := range []string{"LICENSE*", "COPYING*"} {
			files, err := filepath.Glob(filepath.Join(folder, "licenses", filepath.FromSlash(of), name))
			g.Expect(err).NotTo(HaveOccurred())
			found = append(found, files...)
		}
		g.Expect(found).NotTo(BeEmpty(), of)
	}
	g.Expect(filepath.Join(folder, "licenses/k8s.io/apimachinery/third_party/forked/golang/LICENSE")).To(BeARegularFile(), "of a part of a module")
}
