// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const fleetUser = "123456"

// startFleet runs a Fleet Management that knows three collectors, fails once, and deletes nothing.
func startFleet(t *testing.T) *fleetserver.Server {
	t.Helper()
	fleet := fleetserver.New(fleetserver.Options{
		Username: fleetUser, Password: modelKey, Limits: fleetserver.Limits{Collectors: 1000, Pipelines: 100, RequestsPerSecondAPI: 1000},
	})
	t.Cleanup(fleet.Close)
	fleet.PutCollectors(3, func(i int) *collectorv1.Collector { return &collectorv1.Collector{Id: fmt.Sprintf("edge-%d", i)} })
	unavailable := fleetserver.ConnectError(connect.CodeUnavailable, "later")
	fleet.Fail(fleetserver.Rule{Procedure: "CreatePipeline", Times: 1, Respond: unavailable})
	fleet.Fail(fleetserver.Rule{Procedure: "DeletePipeline", Respond: unavailable})
	return fleet
}

// useFleet points a manager to it.
func useFleet(g Gomega, o *app.FleetOptions, fleet *fleetserver.Server, folder string) {
	o.CredentialsFolder, o.CAFile = folder, filepath.Join(folder, "ca.pem")
	o.DriftInterval, o.CollectorPollInterval, o.RPS = time.Second, time.Second, 100
	o.Sources.AllowCIDRs = "127.0.0.0/8"
	err := os.WriteFile(o.CAFile, fleet.CA(), 0o600)
	for name, value := range map[string]string{"base-url": fleet.URL(), "username": fleetUser, "password": modelKey} {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(value), 0o600))
	}
	g.Expect(err).NotTo(HaveOccurred())
}

// manageFleet makes two Pipelines, of which one is changed by somebody else and one cannot be deleted, two Collectors, of which Fleet
// Management knows one, discoveries, and a sync.
func manageFleet(ctx context.Context, g Gomega, c client.Client, fleet *fleetserver.Server, inventory string) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	stays := &fleetmanagementv1alpha1.Pipeline{ObjectMeta: meta("stays")}
	goes := &fleetmanagementv1alpha1.Pipeline{ObjectMeta: meta("goes")}
	stays.Spec.Contents, goes.Spec.Contents = "logging {}\n", "logging {}\n"
	known := &fleetmanagementv1alpha1.Collector{ObjectMeta: meta("known")}
	unknown := &fleetmanagementv1alpha1.Collector{ObjectMeta: meta("unknown")}
	known.Spec.ID, unknown.Spec.ID = "edge-1", "nobody"
	pipelines := &fleetmanagementv1alpha1.PipelineDiscovery{ObjectMeta: meta("pipelines")}
	pipelines.Spec.Selector.ConfigType = ptr.To(fleetmanagementv1alpha1.ConfigTypeOTel)
	collectors := &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: meta("collectors")}
	collectors.Spec.Selector.CollectorIDs = []string{"edge-2"}
	for _, o := range []client.Object{stays, goes, known, unknown, pipelines, collectors, syncOf(meta("inventory"), inventory)} {
		g.Expect(c.Create(ctx, o)).To(Succeed())
	}
	g.Eventually(func() int { return len(fleet.Pipelines()) }).WithTimeout(time.Minute).Should(Equal(2), "pipelines in Fleet Management")
	fleet.EditPipeline("stays", func(p *pipelinev1.Pipeline) { p.Contents = "// by hand\n" + p.Contents })
	g.Expect(c.Delete(ctx, goes)).To(Succeed())
	await(g, "fleet_external_sync_fetches_total", "fleet_discovery_changes_total", "fleet_stack_limit", "fleet_stack_objects", "fleet_api_errors_total", "fleet_pipeline_drift_total", "fleet_deletions_blocked")
	g.Eventually(func() []string {
		return gather(g, metrics.Registry).labels("fleet_resources")["reason"]
	}).WithTimeout(time.Minute).Should(ConsistOf("Synced", "DeleteFailed", "Synced", "NotRegistered", "Synced", "Synced", "Synced"))
}

// syncOf gives a collector what the server at an address knows of it.
func syncOf(meta metav1.ObjectMeta, address string) *fleetmanagementv1alpha1.ExternalAttributeSync {
	return &fleetmanagementv1alpha1.ExternalAttributeSync{ObjectMeta: meta, Spec: fleetmanagementv1alpha1.ExternalAttributeSyncSpec{
		Source:   fleetmanagementv1alpha1.ExternalSource{Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: address}},
		Schedule: "30s", Selector: fleetmanagementv1alpha1.PolicySelector{CollectorIDs: []string{"edge-1"}},
		Mapping: fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "id", AttributeFields: map[string]string{"owner": "owner"}},
	}}
}

// startInventory runs a server that knows the owner of one collector.
func startInventory(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"id": "edge-1", "owner": "payments"}]`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
