// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/fleet/client"
)

// road is a server that takes everything, and notes when.
type road struct {
	*client.Client
	mu    sync.Mutex
	began time.Time
	sent  []string // procedures
	at    []time.Duration
}

// newRoad must be made in a bubble of synctest, whose time the client and the road go by.
func newRoad(t *testing.T, rps float64, burst int) *road {
	r := &road{began: time.Now()}
	take := sender(func(request *http.Request) (*http.Response, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent, r.at = append(r.sent, path.Base(request.URL.Path)), append(r.at, time.Since(r.began))
		return answerOf(http.StatusOK, nil), nil
	})
	r.Client = standAt(t, "https://fleet.example", &http.Client{Transport: take}, func(o *client.Options) {
		o.Clock, o.RPS, o.Burst = clock.RealClock{}, rps, burst
	}).Client
	return r
}

func (r *road) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sent)
}

// crowd lets calls wait, and returns what waits for all of them to end.
func crowd(n int, call func() error) (ended func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { _ = call() })
	}
	synctest.Wait()
	return all.Wait
}

func TestAT20APipelineCallPasses5000QueuedCollectorCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r := newRoad(t, 3, 50)
		ctx, giveUp := context.WithCancel(t.Context())
		ended := crowd(5000, func() error { return r.BulkUpdateCollectors(ctx, []string{"c"}, nil) })
		g.Expect(r.count()).To(Equal(50), "the burst")

		asked := time.Now()
		_, err := r.CreatePipeline(ctx, client.Pipeline{Name: "p"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(time.Since(asked)).To(BeNumerically("<=", time.Second/3))
		g.Expect(r.count()).To(Equal(51))
		g.Expect(r.sent[50]).To(Equal("CreatePipeline"))

		giveUp()
		ended()
		g.Expect(r.count()).To(Equal(51), "who gave up is not sent")
	})
}

func TestEveryThirdTurnIsForCollectorsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r := newRoad(t, 1, 1)
		g.Expect(list(t.Context(), r.Client)).To(Succeed())
		bulk := crowd(4, func() error { return r.UpdateCollector(t.Context(), client.Collector{ID: "c"}) })
		urgent := crowd(8, func() error { return list(t.Context(), r.Client) })
		bulk()
		urgent()
		const l, u = "ListPipelines", "UpdateCollector"
		g.Expect(r.sent).To(Equal([]string{l, l, l, u, l, l, u, l, l, u, l, l, u}))
		for i, at := range r.at {
			g.Expect(at).To(BeNumerically("~", time.Duration(i)*time.Second, time.Millisecond))
		}
	})
}

func TestWhatCallsAreUrgent(t *testing.T) {
	for name, test := range map[string]struct {
		call   func(context.Context, *client.Client) error
		urgent bool
	}{
		"ListPipelines":        {list, true},
		"DeletePipeline":       {func(ctx context.Context, c *client.Client) error { return c.DeletePipeline(ctx, "1") }, true},
		"ListCollectors":       {func(ctx context.Context, c *client.Client) error { _, err := c.ListCollectors(ctx); return err }, true},
		"GetCollector":         {func(ctx context.Context, c *client.Client) error { _, err := c.GetCollector(ctx, "c"); return err }, false},
		"UpdateCollector":      {func(ctx context.Context, c *client.Client) error { return c.UpdateCollector(ctx, client.Collector{}) }, false},
		"BulkUpdateCollectors": {func(ctx context.Context, c *client.Client) error { return c.BulkUpdateCollectors(ctx, nil, nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				r := newRoad(t, 1, 1)
				g.Expect(list(t.Context(), r.Client)).To(Succeed())
				first := crowd(1, func() error { return r.UpdateCollector(t.Context(), client.Collector{}) })
				then := crowd(1, func() error { return test.call(t.Context(), r.Client) })
				first()
				then()
				passes := 2
				if test.urgent {
					passes = 1
				}
				g.Expect(r.sent[passes]).To(Equal(name))
			})
		})
	}
}

func TestTheRateHoldsOverTime(t *testing.T) {
	for name, test := range map[string]struct {
		rps   float64
		burst int
		calls int
		want  time.Duration
	}{
		"3 a second after 50":               {3, 50, 350, 100 * time.Second},
		"the defaults are 3 and 50":         {0, 0, 350, 100 * time.Second},
		"a request in 10 s":                 {0.1, 1, 7, time.Minute},
		"1 for a burst that makes no sense": {1, -1, 51, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				r := newRoad(t, test.rps, test.burst)
				crowd(test.calls, func() error { return r.DeletePipeline(t.Context(), fmt.Sprint(1)) })()
				g.Expect(time.Since(r.began)).To(BeNumerically("~", test.want, time.Millisecond))
				g.Expect(r.count()).To(Equal(test.calls))
			})
		})
	}
}

func TestThePaceIsBelowTheOptions(t *testing.T) {
	for name, test := range map[string]struct {
		paces []float64
		want  time.Duration
	}{
		"a slower one holds":                {[]float64{2}, 6 * time.Second},
		"a faster one is as the options":    {[]float64{20}, 3 * time.Second},
		"none is as the options again":      {[]float64{0.5, 0}, 3 * time.Second},
		"a slower one that comes twice":     {[]float64{2, 2}, 6 * time.Second},
		"one that makes no sense is no one": {[]float64{-1}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				r := newRoad(t, 4, 5)
				for _, pace := range test.paces {
					r.Pace(pace)
				}
				crowd(17, func() error { return list(t.Context(), r.Client) })()
				g.Expect(time.Since(r.began)).To(BeNumerically("~", test.want, time.Millisecond), "5 at once, and 12 one after the other")
			})
		})
	}
}
