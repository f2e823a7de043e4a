// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
)

const (
	fleetUser     = "123456"
	fleetPassword = "first-token"
)

// fakeFleet is test/e2e/fakefleet in a namespace. Pods reach it by its Service, the tests by the API server's proxy.
type fakeFleet struct {
	namespace string
	ca        []byte
}

// serveFleet starts a Fleet Management that lives as long as its namespace.
func serveFleet(ctx context.Context, namespace, image string) fakeFleet {
	GinkgoHelper()
	load(ctx, image, "bin/fakefleet")
	f := fakeFleet{namespace: namespace}
	certificates, key, err := cert.GenerateSelfSignedCertKey(f.host(), nil, nil)
	Expect(err).NotTo(HaveOccurred())
	f.ca = certificates
	Expect(cluster.Create(ctx, &corev1.Secret{ObjectMeta: meta(namespace, "fakefleet"), StringData: map[string]string{
		"username": fleetUser, "password": fleetPassword, "tls.crt": string(certificates), "tls.key": string(key),
	}})).To(Succeed())
	manifest, err := os.ReadFile(filepath.Join("testdata", "fakefleet.yaml"))
	Expect(err).NotTo(HaveOccurred())
	feed(ctx, strings.ReplaceAll(string(manifest), "IMAGE", image), kubectlName(), "-n", namespace, "apply", "-f", "-")
	kubectl(ctx, "-n", namespace, "rollout", "status", "deployment/fakefleet", "--timeout=2m")
	return f
}

func (f fakeFleet) host() string { return "fakefleet." + f.namespace + ".svc" }

func (f fakeFleet) path(of string) string {
	return "/api/v1/namespaces/" + f.namespace + "/services/http:fakefleet:8080/proxy/" + of
}

func (f fakeFleet) show(ctx context.Context, what string) []byte {
	GinkgoHelper()
	return []byte(kubectl(ctx, "get", "--raw", f.path(what)))
}

func (f fakeFleet) take(ctx context.Context, what string, content []byte) {
	GinkgoHelper()
	feed(ctx, string(content), kubectlName(), "create", "--raw", f.path(what), "-f", "-")
}

func (f fakeFleet) pipelines(ctx context.Context) []*pipelinev1.Pipeline {
	GinkgoHelper()
	var list pipelinev1.Pipelines
	Expect(protojson.Unmarshal(f.show(ctx, "pipelines"), &list)).To(Succeed())
	return list.Pipelines
}

// pipeline returns that of a name, which is empty where there is none.
func (f fakeFleet) pipeline(ctx context.Context, name string) *pipelinev1.Pipeline {
	GinkgoHelper()
	for _, p := range f.pipelines(ctx) {
		if p.GetName() == name {
			return p
		}
	}
	return &pipelinev1.Pipeline{}
}

// attributes returns the remote ones of a collector.
func (f fakeFleet) attributes(ctx context.Context, id string) map[string]string {
	GinkgoHelper()
	var list collectorv1.Collectors
	Expect(protojson.Unmarshal(f.show(ctx, "collectors"), &list)).To(Succeed())
	for _, c := range list.Collectors {
		if c.GetId() == id {
			return c.GetRemoteAttributes()
		}
	}
	return nil
}

// put does what people do in Grafana, and collectors when they register.
func (f fakeFleet) put(ctx context.Context, where string, message proto.Message) {
	GinkgoHelper()
	content, err := protojson.Marshal(message)
	Expect(err).NotTo(HaveOccurred())
	f.take(ctx, where, content)
}

// letIn replaces the password.
func (f fakeFleet) letIn(ctx context.Context, password string) {
	GinkgoHelper()
	content, err := json.Marshal(map[string]string{"username": fleetUser, "password": password})
	Expect(err).NotTo(HaveOccurred())
	f.take(ctx, "credentials", content)
}

// calls returns the procedures that were called so far.
func (f fakeFleet) calls(ctx context.Context) []string {
	GinkgoHelper()
	var calls []string
	Expect(json.Unmarshal(f.show(ctx, "calls"), &calls)).To(Succeed())
	return calls
}
