// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

type pairs = map[string]string

func collector(id string, remote pairs) *collectorv1.Collector {
	return &collectorv1.Collector{
		Id: id, Name: "name of " + id, RemoteAttributes: remote, LocalAttributes: pairs{"collector.os": "linux", "env": "local"},
		CollectorType: collectorv1.CollectorType_COLLECTOR_TYPE_ALLOY,
	}
}

func TestACollectorLivesFromCreateToDelete(t *testing.T) {
	inBothCodecs(t, fleetserver.Options{}, func(t *testing.T, f *fixture) {
		g := NewWithT(t)
		refused(t, connect.CodeNotFound, f.collectors.GetCollector, &collectorv1.GetCollectorRequest{Id: "a"})
		refused(t, connect.CodeInvalidArgument, f.collectors.CreateCollector, &collectorv1.CreateCollectorRequest{})
		created := must(t, f.collectors.CreateCollector, &collectorv1.CreateCollectorRequest{Collector: collector("a", pairs{"team": "x"})})
		g.Expect(created.GetEnabled()).To(BeTrue())
		g.Expect(created.GetLocalAttributes()).To(BeEmpty(), "local attributes come from collectors only")
		g.Expect(created.GetCreatedAt().AsTime()).To(Equal(noon))
		refused(t, connect.CodeAlreadyExists, f.collectors.CreateCollector, &collectorv1.CreateCollectorRequest{Collector: collector("a", nil)})

		f.clock.SetTime(noon.Add(time.Minute))
		updated := must(t, f.collectors.UpdateCollector, &collectorv1.UpdateCollectorRequest{Collector: &collectorv1.Collector{Id: "a", Enabled: proto.Bool(false)}})
		g.Expect(updated.GetName()).To(BeEmpty())
		g.Expect(updated.GetRemoteAttributes()).To(BeEmpty())
		g.Expect(updated.GetEnabled()).To(BeFalse())
		g.Expect(updated.GetUpdatedAt().AsTime()).To(Equal(noon.Add(time.Minute)))
		refused(t, connect.CodeNotFound, f.collectors.UpdateCollector, &collectorv1.UpdateCollectorRequest{Collector: collector("b", nil)})

		must(t, f.collectors.DeleteCollector, &collectorv1.DeleteCollectorRequest{Id: "a"})
		refused(t, connect.CodeNotFound, f.collectors.DeleteCollector, &collectorv1.DeleteCollectorRequest{Id: "a"})
	})
}

func TestAnUpdateThatDoesNotSayEnabled(t *testing.T) {
	for _, disables := range []bool{false, true} {
		t.Run("disables: "+strconv.FormatBool(disables), func(t *testing.T) {
			f := start(t, fleetserver.Options{OmittedEnabledDisables: disables})
			f.PutCollector(collector("a", nil))
			must(t, f.collectors.UpdateCollector, &collectorv1.UpdateCollectorRequest{Collector: &collectorv1.Collector{Id: "a"}})
			NewWithT(t).Expect(f.Collector("a").GetEnabled()).To(Equal(!disables))
			NewWithT(t).Expect(f.Collector("a").GetLocalAttributes()).To(HaveKey("env"), "an update leaves what the collector told")
		})
	}
}

func TestRemoteAttributesHaveLimits(t *testing.T) {
	f := start(t, fleetserver.Options{})
	f.PutCollector(collector("a", nil))
	tooMany := pairs{}
	for i := range 101 {
		tooMany[fmt.Sprint(i)] = "x"
	}
	atMost := maps.Clone(tooMany)
	delete(atMost, "0")
	delete(atMost, "1")
	atMost[strings.Repeat("ü", 100)] = strings.Repeat("ü", 150)
	for _, c := range []struct {
		name   string
		remote pairs
		says   string
	}{
		{"100 attributes at most", tooMany, "at most 100"},
		{"names of 100 characters at most", pairs{strings.Repeat("k", 101): "v"}, "100 characters"},
		{"values of 150 characters at most", pairs{"k": strings.Repeat("v", 151)}, "150 characters"},
		{"reserved names", pairs{"collector.os": "linux"}, "reserved"},
		{"empty names", pairs{"": "v"}, "name"},
		{"as much as is allowed", atMost, ""},
		{"what only resembles a reserved name", pairs{"collector": "v", "Collector.os": ""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := call(t, f.collectors.UpdateCollector, &collectorv1.UpdateCollectorRequest{Collector: collector("a", c.remote)})
			if c.says == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.says)))
			refused(t, connect.CodeInvalidArgument, f.collectors.CreateCollector, &collectorv1.CreateCollectorRequest{Collector: collector("new", c.remote)})
		})
	}
}

func TestCollectorsAreListedByMatchers(t *testing.T) {
	f := start(t, fleetserver.Options{})
	f.PutCollector(collector("a", pairs{"env": "prod"}))
	f.PutCollector(collector("b", pairs{"app.kubernetes.io/name": "web"}))
	f.PutCollector(&collectorv1.Collector{Id: "c"})
	for _, c := range []struct {
		name     string
		matchers []string
		want     []string
	}{
		{"all without matchers", nil, []string{"a", "b", "c"}},
		{"a remote attribute wins over a local one", []string{"env=prod"}, []string{"a"}},
		{"what is absent is empty", []string{`env=""`}, []string{"c"}},
		{"what is absent differs", []string{"env!=prod"}, []string{"b", "c"}},
		{"patterns are anchored", []string{"env=~pro"}, []string{}},
		{"all matchers must hold", []string{"env=~.+", "env!~p.*"}, []string{"b"}},
		{"names may hold dots and slashes", []string{"app.kubernetes.io/name=web", "collector.os=linux"}, []string{"b"}},
		{"each collector has its ID as an attribute", []string{`collector.ID=~"a|c"`}, []string{"a", "c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := []string{}
			for _, one := range must(t, f.collectors.ListCollectors, &collectorv1.ListCollectorsRequest{Matchers: c.matchers}).GetCollectors() {
				found = append(found, one.GetId())
			}
			NewWithT(t).Expect(found).To(Equal(c.want))
		})
	}
	for _, bad := range []string{"env", "env=a,b=c", "{env=a}", "env=" + strings.Repeat("x", 197)} {
		refused(t, connect.CodeInvalidArgument, f.collectors.ListCollectors, &collectorv1.ListCollectorsRequest{Matchers: []string{bad}})
	}
}

func TestCollectorsAreDeletedAllOrNone(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	f.PutCollectors(3, func(i int) *collectorv1.Collector { return collector(strconv.Itoa(i), nil) })
	refused(t, connect.CodeInvalidArgument, f.collectors.BulkDeleteCollectors, &collectorv1.BulkDeleteCollectorsRequest{})
	refused(t, connect.CodeNotFound, f.collectors.BulkDeleteCollectors, &collectorv1.BulkDeleteCollectorsRequest{Ids: []string{"0", "9"}})
	g.Expect(f.Collectors()).To(HaveLen(3))
	must(t, f.collectors.BulkDeleteCollectors, &collectorv1.BulkDeleteCollectorsRequest{Ids: []string{"0", "2"}})
	g.Expect(f.Collectors()).To(HaveLen(1))
}

func TestAttributesAreListedWithTheirValues(t *testing.T) {
	f := start(t, fleetserver.Options{})
	f.PutCollector(collector("a", pairs{"team": "y"}))
	f.PutCollector(collector("b", pairs{"team": "x"}))
	f.PutCollector(collector("c", pairs{"team": "x"}))
	listed := must(t, f.collectors.ListCollectorAttributes, &collectorv1.ListCollectorAttributesRequest{})
	NewWithT(t).Expect(proto.Equal(listed, &collectorv1.ListCollectorAttributesResponse{
		LocalAttributes: map[string]*collectorv1.Attributes{
			"collector.os": {Values: []*collectorv1.Value{{Value: "linux"}}},
			"env":          {Values: []*collectorv1.Value{{Value: "local"}}},
		},
		RemoteAttributes: map[string]*collectorv1.Attributes{"team": {Values: []*collectorv1.Value{{Value: "x"}, {Value: "y"}}}},
	})).To(BeTrue(), "%v", listed)
}
