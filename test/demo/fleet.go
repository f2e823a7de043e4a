// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const (
	fleetNamespace = "observability"
	fleetUser      = "123456"
	// hosts is how many collectors the fake knows, and mirrored how many of them a discovery is told to look after.
	hosts, mirrored = 40, 30
	// fleetPoll is how often the demo's manager lists; so that a person need not wait.
	fleetPoll = time.Second
)

// fleetFolder starts the fake and makes the folder that the Secret candor-fleet would be mounted at, which is empty at first.
func (m *manager) fleetFolder(home string, o *app.FleetOptions) error {
	m.fleet = fleetserver.New(fleetserver.Options{Username: fleetUser, Password: modelKey})
	o.CredentialsFolder, o.CAFile = filepath.Join(home, "fleet"), filepath.Join(home, "fleet-ca.pem")
	o.DriftInterval, o.CollectorPollInterval = fleetPoll, fleetPoll
	m.known.Store(hosts)
	m.inventory, o.Sources.AllowCIDRs = serveInventory(&m.known), "127.0.0.0/8"
	return errors.Join(os.Mkdir(o.CredentialsFolder, 0o700), os.WriteFile(o.CAFile, m.fleet.CA(), 0o600))
}

// writeCredentials does what the kubelet does when the Secret candor-fleet comes.
func (d *demo) writeCredentials() error {
	for name, value := range map[string]string{"base-url": d.manager.fleet.URL(), "username": fleetUser, "password": modelKey} {
		if err := os.WriteFile(filepath.Join(d.home, "fleet", name), []byte(value+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// manageFleet shows the other half: pipelines and attributes of Grafana Fleet Management.
func (d *demo) manageFleet(ctx context.Context) ([]result, error) {
	d.screen.title("Grafana Fleet Management: %d collectors are registered there, of which %d are looked after. A fake that speaks its API counts requests.", hosts, mirrored)
	d.manager.fleet.PutCollectors(hosts, func(i int) *collectorv1.Collector {
		name := fmt.Sprintf("edge-%02d", i)
		return &collectorv1.Collector{
			Id: name, CollectorType: collectorv1.CollectorType_COLLECTOR_TYPE_ALLOY,
			LocalAttributes: map[string]string{"collector.os": "linux", "hostname": name},
		}
	})
	if err := errors.Join(d.writeCredentials(), d.cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}})); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		title string
		act   func(context.Context) error
	}{
		{"A Pipeline is applied.", d.applyPipeline},
		{"A CollectorDiscovery makes Collectors; a policy matches them.", d.applyCollectors},
		{"An inventory of our own says who owns which host.", d.applySync},
		{"The inventory loses all but one: nothing is taken away.", d.shrink},
		{"Somebody edits the pipeline in Grafana: it is corrected.", d.drift},
		{"Nothing happens, while everything is listed three times.", d.pollThrice},
	} {
		if err := d.fleetStep(ctx, step.title, step.act); err != nil {
			return nil, fmt.Errorf("%s: %w", step.title, err)
		}
	}
	if err := d.getGroup(ctx, fleetmanagementv1alpha1.GroupVersion, fleetNamespace, "pipelines", "remoteattributepolicies", "collectordiscoveries", "externalattributesyncs"); err != nil {
		return nil, err
	}
	return nil, d.tellDrift(ctx)
}

// fleetStep does something, waits as act does, and says what Fleet Management was asked and what was written.
func (d *demo) fleetStep(ctx context.Context, title string, act func(context.Context) error) error {
	d.screen.begin(title)
	writes, asked := d.writes(), d.requests()
	if err := act(ctx); err != nil {
		return err
	}
	written := result{writes: d.writes().Since(writes)}
	var calls []string
	changes := 0
	for _, procedure := range slices.Sorted(maps.Keys(d.requests())) {
		n := d.requests()[procedure] - asked[procedure]
		// Lists come by the clock, and so does the question for limits, once an hour.
		if strings.HasPrefix(procedure, "List") || procedure == "GetLimits" || n == 0 {
			continue
		}
		changes += n
		calls = append(calls, fmt.Sprintf("%d %s", n, procedure))
	}
	if d.screen.color {
		fmt.Fprint(d.screen.out, "\r\x1b[K")
	} else {
		d.screen.say("")
	}
	d.screen.say("%s %s %s, %s", d.screen.paint("1;36", "▸"), d.screen.paint("1", fmt.Sprintf("%-*s", titleWidth, title)),
		several(changes, "request")+" beside lists", several(written.writes.Total(), "API write"))
	if len(calls) > 0 {
		d.screen.aside("%s; %s", strings.Join(calls, ", "), written.written())
	}
	return nil
}

// requests counts what Fleet Management was asked, by procedure.
func (d *demo) requests() map[string]int {
	counts := map[string]int{}
	for _, call := range d.manager.fleet.Calls() {
		counts[call.Procedure]++
	}
	return counts
}

func (d *demo) applyPipeline(ctx context.Context) error {
	p := &fleetmanagementv1alpha1.Pipeline{}
	if err := readSample("fleetmanagement_v1alpha1_pipeline.yaml", p); err != nil {
		return err
	}
	p.Namespace = fleetNamespace
	if err := d.cluster.Client.Create(ctx, p); err != nil {
		return err
	}
	return d.wait(ctx, "the Pipeline to be Ready", func(ctx context.Context) (bool, error) {
		err := d.cluster.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return meta.IsStatusConditionTrue(p.Status.Conditions, fleetmanagementv1alpha1.ConditionReady), err
	})
}

func (d *demo) applyCollectors(ctx context.Context) error {
	discovery := &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: "edge"}}
	discovery.Spec.Selector.Matchers = []string{`hostname=~"edge-[012]."`}
	policy := &fleetmanagementv1alpha1.RemoteAttributePolicy{}
	if err := readSample("fleetmanagement_v1alpha1_remoteattributepolicy.yaml", policy); err != nil {
		return err
	}
	policy.Namespace = fleetNamespace
	if err := errors.Join(d.cluster.Client.Create(ctx, discovery), d.cluster.Client.Create(ctx, policy)); err != nil {
		return err
	}
	return d.wait(ctx, "every Collector to have the attributes", func(ctx context.Context) (bool, error) {
		done, err := d.given(ctx, "region")
		err = errors.Join(err, d.cluster.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy))
		return done == mirrored && policy.Status.MatchedCount == mirrored, err
	})
}

// given counts the Collectors that are ready and have an attribute.
func (d *demo) given(ctx context.Context, key string) (int, error) {
	var list fleetmanagementv1alpha1.CollectorList
	if err := d.cluster.Client.List(ctx, &list, client.InNamespace(fleetNamespace)); err != nil {
		return 0, err
	}
	done := 0
	for i := range list.Items {
		c := &list.Items[i]
		if _, has := c.Status.EffectiveRemoteAttributes[key]; has && meta.IsStatusConditionTrue(c.Status.Conditions, fleetmanagementv1alpha1.ConditionReady) {
			done++
		}
	}
	return done, nil
}

// applySync has the hosts' owners fetched.
func (d *demo) applySync(ctx context.Context) error {
	sync := &fleetmanagementv1alpha1.ExternalAttributeSync{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: "inventory"}}
	sync.Spec = fleetmanagementv1alpha1.ExternalAttributeSyncSpec{
		Source: fleetmanagementv1alpha1.ExternalSource{
			Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: d.manager.inventory.URL + "/hosts", RecordsPath: "data.hosts"},
		},
		Schedule: "15m", Selector: fleetmanagementv1alpha1.PolicySelector{Matchers: []string{`collector.os="linux"`}},
		Mapping: fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "fqdn", AttributeFields: map[string]string{"owner": "owner"}},
	}
	if err := d.cluster.Client.Create(ctx, sync); err != nil {
		return err
	}
	return d.wait(ctx, "every Collector to have an owner", func(ctx context.Context) (bool, error) {
		done, err := d.given(ctx, "owner")
		return done == mirrored, err
	})
}

// shrink has the inventory tell of one host only, and fetches it out of turn.
func (d *demo) shrink(ctx context.Context) error {
	d.manager.known.Store(1)
	sync := &fleetmanagementv1alpha1.ExternalAttributeSync{}
	if err := d.cluster.Client.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: "inventory"}, sync); err != nil {
		return err
	}
	before := sync.DeepCopy()
	metav1.SetMetaDataAnnotation(&sync.ObjectMeta, fleetmanagementv1alpha1.AnnotationFetchNow, "demo")
	if err := d.cluster.Client.Patch(ctx, sync, client.MergeFrom(before)); err != nil {
		return err
	}
	return d.wait(ctx, "the loss to be held back", func(ctx context.Context) (bool, error) {
		err := d.cluster.Client.Get(ctx, client.ObjectKeyFromObject(sync), sync)
		return meta.IsStatusConditionTrue(sync.Status.Conditions, fleetmanagementv1alpha1.ConditionStalled), err
	})
}

// serveInventory answers what an inventory knows of the first hosts, as many as known says.
func serveInventory(known *atomic.Int64) *httptest.Server {
	type host struct {
		FQDN  string `json:"fqdn"`
		Owner string `json:"owner"`
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hosts := []host{}
		for i := range known.Load() {
			hosts = append(hosts, host{FQDN: fmt.Sprintf("edge-%02d", i), Owner: []string{"payments", "search", "web"}[i%3]})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"hosts": hosts}})
	}))
}

// drift edits the pipeline where somebody else could.
func (d *demo) drift(ctx context.Context) error {
	const name = "node-logs"
	d.manager.fleet.EditPipeline(name, func(p *pipelinev1.Pipeline) {
		p.Matchers = []string{`environment="staging"`}
		p.Contents = "// tuned by hand\n" + p.Contents
	})
	return d.wait(ctx, "the pipeline to be as the spec says", func(context.Context) (bool, error) {
		p := d.manager.fleet.Pipeline(name)
		return p != nil && len(p.Matchers) == 2 && !strings.HasPrefix(p.Contents, "//"), nil
	})
}

func (d *demo) pollThrice(ctx context.Context) error {
	before := d.requests()
	return d.wait(ctx, "three lists of pipelines and of collectors", func(context.Context) (bool, error) {
		now := d.requests()
		return now["ListPipelines"] >= before["ListPipelines"]+3 && now["ListCollectors"] >= before["ListCollectors"]+3, nil
	})
}

// tellDrift prints what the event about the drift says.
func (d *demo) tellDrift(ctx context.Context) error {
	note := ""
	err := d.wait(ctx, "an event about the drift", func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		if err := d.cluster.Client.List(ctx, &events, client.InNamespace(fleetNamespace)); err != nil {
			return false, err
		}
		for i := range events.Items {
			if events.Items[i].Reason == fleetmanagementv1alpha1.EventDriftCorrected {
				note = events.Items[i].Note
			}
		}
		return note != "", nil
	})
	d.screen.say("")
	d.screen.aside("The event says: %s", note)
	d.screen.aside("The demo's manager lists every second; the default is every 5 minutes for pipelines and every 2 for collectors.")
	d.screen.aside("With Grafana Cloud, one Secret does it: docs/fleet.md.")
	return err
}
