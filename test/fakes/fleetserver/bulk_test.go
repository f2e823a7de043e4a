// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const pointer = "/remote_attributes/"

func operation(kind collectorv1.Operation_OpType, path string, change ...func(*collectorv1.Operation)) *collectorv1.Operation {
	op := &collectorv1.Operation{Op: kind, Path: path}
	for _, c := range change {
		c(op)
	}
	return op
}

func value(v string) func(*collectorv1.Operation) {
	return func(op *collectorv1.Operation) { op.Value = &v }
}

func old(v string) func(*collectorv1.Operation) {
	return func(op *collectorv1.Operation) { op.OldValue = &v }
}

func from(path string) func(*collectorv1.Operation) {
	return func(op *collectorv1.Operation) { op.From = &path }
}

const (
	opAdd     = collectorv1.Operation_ADD
	opReplace = collectorv1.Operation_REPLACE
	opRemove  = collectorv1.Operation_REMOVE
	opMove    = collectorv1.Operation_MOVE
	opCopy    = collectorv1.Operation_COPY
)

type ops = []*collectorv1.Operation

func TestABulkUpdateCarriesOutOperationsInOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  ops
		want pairs
	}{
		{"adds", ops{operation(opAdd, pointer+"new", value("v"))}, pairs{"a": "1", "b": "2", "new": "v"}},
		{"adds an empty value", ops{operation(opAdd, pointer+"new", value(""))}, pairs{"a": "1", "b": "2", "new": ""}},
		{"adds what is there already", ops{operation(opAdd, pointer+"a", value("v"))}, pairs{"a": "v", "b": "2"}},
		{"unescapes names", ops{operation(opAdd, pointer+"x~1y~0~01", value("v"))}, pairs{"a": "1", "b": "2", "x/y~~1": "v"}},
		{"takes the dotted path, with the name as it is", ops{operation(opAdd, "remoteAttributes.x.y/z", value("v"))}, pairs{"a": "1", "b": "2", "x.y/z": "v"}},
		{"replaces", ops{operation(opReplace, pointer+"a", value("v"))}, pairs{"a": "v", "b": "2"}},
		{"replaces the value that it expects", ops{operation(opReplace, pointer+"a", value("v"), old("1"))}, pairs{"a": "v", "b": "2"}},
		{"removes", ops{operation(opRemove, pointer+"a")}, pairs{"b": "2"}},
		{"removes the value that it expects", ops{operation(opRemove, pointer+"a", value("1"))}, pairs{"b": "2"}},
		{"moves", ops{operation(opMove, pointer+"c", from(pointer+"a"))}, pairs{"c": "1", "b": "2"}},
		{"copies", ops{operation(opCopy, pointer+"b", from(pointer+"a"))}, pairs{"a": "1", "b": "1"}},
		{
			"sees what the operation before did",
			ops{operation(opAdd, pointer+"c", value("3")), operation(opReplace, pointer+"c", value("4"), old("3")), operation(opRemove, pointer+"a")},
			pairs{"b": "2", "c": "4"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBothCodecs(t, fleetserver.Options{}, func(t *testing.T, f *fixture) {
				g := NewWithT(t)
				ids := []string{"one", "two", "one"}
				for _, id := range ids[:2] {
					f.PutCollector(collector(id, pairs{"a": "1", "b": "2"}))
				}
				f.clock.SetTime(noon.Add(time.Minute))
				must(t, f.collectors.BulkUpdateCollectors, &collectorv1.BulkUpdateCollectorsRequest{Ids: ids, Ops: c.ops})
				for _, id := range ids {
					want := f.Collector(id)
					g.Expect(want.GetUpdatedAt().AsTime()).To(Equal(noon.Add(time.Minute)))
					g.Expect(want.GetRemoteAttributes()).To(Equal(c.want))
				}
			})
		})
	}
}

func TestABulkUpdateIsAtomic(t *testing.T) {
	hundred := pairs{"a": "1"}
	for i := range 99 {
		hundred[fmt.Sprint("k", i)] = "v"
	}
	for _, c := range []struct {
		name string
		ids  []string
		ops  ops
		code connect.Code
	}{
		{"without IDs", []string{}, ops{operation(opAdd, pointer+"x", value("v"))}, connect.CodeInvalidArgument},
		{"without operations", nil, nil, connect.CodeInvalidArgument},
		{"a collector that is not there", []string{"good", "absent"}, ops{operation(opAdd, pointer+"x", value("v"))}, connect.CodeNotFound},
		{"another value than a replace expects", nil, ops{operation(opReplace, pointer+"a", value("v"), old("1"))}, connect.CodeFailedPrecondition},
		{"another value than a remove expects", nil, ops{operation(opRemove, pointer+"a", value("1"))}, connect.CodeFailedPrecondition},
		{"a remove of what one collector lacks", nil, ops{operation(opRemove, pointer+"only")}, connect.CodeInvalidArgument},
		{"a replace of what one collector lacks", nil, ops{operation(opReplace, pointer+"only", value("v"))}, connect.CodeInvalidArgument},
		{"a copy of what one collector lacks", nil, ops{operation(opCopy, pointer+"x", from(pointer+"only"))}, connect.CodeInvalidArgument},
		{"a move from nowhere", nil, ops{operation(opMove, pointer+"x")}, connect.CodeInvalidArgument},
		{"an unknown operation", nil, ops{operation(collectorv1.Operation_UNKNOWN, pointer+"x", value("v"))}, connect.CodeInvalidArgument},
		{"an add without a value", nil, ops{operation(opAdd, pointer+"x")}, connect.CodeInvalidArgument},
		{"a value that is too long", nil, ops{operation(opAdd, pointer+"x", value(strings.Repeat("v", 151)))}, connect.CodeInvalidArgument},
		{"a name that is too long", nil, ops{operation(opAdd, pointer+strings.Repeat("k", 101), value("v"))}, connect.CodeInvalidArgument},
		{"a reserved name", nil, ops{operation(opAdd, pointer+"collector.os", value("v"))}, connect.CodeInvalidArgument},
		{"the path of something else", nil, ops{operation(opAdd, "/local_attributes/x", value("v"))}, connect.CodeInvalidArgument},
		{"a path without a name", nil, ops{operation(opAdd, pointer, value("v"))}, connect.CodeInvalidArgument},
		{"a slash that is not escaped", nil, ops{operation(opAdd, pointer+"app.kubernetes.io/name", value("v"))}, connect.CodeInvalidArgument},
		{"a tilde that is not escaped", nil, ops{operation(opAdd, pointer+"x~2", value("v"))}, connect.CodeInvalidArgument},
		{"one attribute too many", []string{"good", "full"}, ops{operation(opAdd, pointer+"x", value("v"))}, connect.CodeInvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			f := start(t, fleetserver.Options{})
			f.PutCollector(collector("good", pairs{"a": "1", "only": "here"}))
			f.PutCollector(collector("other", pairs{"a": "2"}))
			f.PutCollector(collector("full", hundred))
			before := f.Collectors()
			if c.ids == nil {
				c.ids = []string{"good", "other"}
			}
			refused(t, c.code, f.collectors.BulkUpdateCollectors, &collectorv1.BulkUpdateCollectorsRequest{Ids: c.ids, Ops: c.ops})
			for i, after := range f.Collectors() {
				g.Expect(proto.Equal(after, before[i])).To(BeTrue(), "%v", after)
			}
		})
	}
}

func TestABulkUpdateLeavesEverythingElse(t *testing.T) {
	f := start(t, fleetserver.Options{})
	f.PutCollector(collector("a", pairs{"x": "1"}))
	f.EditCollector("a", func(c *collectorv1.Collector) { c.MarkedInactiveAt = c.GetCreatedAt() })
	want := f.Collector("a")
	want.RemoteAttributes["x"] = "2"
	must(t, f.collectors.BulkUpdateCollectors, &collectorv1.BulkUpdateCollectorsRequest{Ids: []string{"a"}, Ops: ops{operation(opReplace, pointer+"x", value("2"))}})
	NewWithT(t).Expect(proto.Equal(f.Collector("a"), want)).To(BeTrue())
}

// Run with -race, it shows that readers need no copies.
func TestManyClientsAtOnce(t *testing.T) {
	f := start(t, fleetserver.Options{})
	f.PutCollectors(50, func(i int) *collectorv1.Collector { return collector(strconv.Itoa(i), pairs{"n": "0"}) })
	var clients sync.WaitGroup
	for n := range 8 {
		clients.Go(func() {
			for i := range 20 {
				id := strconv.Itoa((n*20 + i) % 50)
				op := operation(opAdd, pointer+"n", value(strconv.Itoa(n)))
				must(t, f.collectors.BulkUpdateCollectors, &collectorv1.BulkUpdateCollectorsRequest{Ids: []string{id}, Ops: ops{op}})
				must(t, f.collectors.ListCollectors, &collectorv1.ListCollectorsRequest{})
				f.EditCollector(id, func(c *collectorv1.Collector) { c.LocalAttributes["n"] = strconv.Itoa(n) })
				must(t, f.collectors.GetCollector, &collectorv1.GetCollectorRequest{Id: id})
				_ = f.Collectors()
			}
		})
	}
	clients.Wait()
	NewWithT(t).Expect(f.Count("BulkUpdateCollectors")).To(Equal(160))
}

func BenchmarkThirtyThousandCollectors(b *testing.B) {
	f := start(b, fleetserver.Options{})
	f.PutCollectors(30_000, func(i int) *collectorv1.Collector {
		return collector(fmt.Sprintf("collector-%05d", i), pairs{"team": "a", "site": strconv.Itoa(i % 40), "app.kubernetes.io/name": "edge"})
	})
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = fmt.Sprintf("collector-%05d", i*7)
	}
	b.Run("a bulk update of 500", func(b *testing.B) {
		request := &collectorv1.BulkUpdateCollectorsRequest{Ids: ids, Ops: ops{operation(opAdd, pointer+"x", value("v"))}}
		for b.Loop() {
			must(b, f.collectors.BulkUpdateCollectors, request)
		}
	})
	b.Run("a list of all", func(b *testing.B) {
		for b.Loop() {
			must(b, f.collectors.ListCollectors, &collectorv1.ListCollectorsRequest{})
		}
	})
}
