// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

const (
	modelName = "claude-haiku-4-5"
	modelKey  = "key-of-the-test-0123456789"
)

// withModel gives a world a model server, which the manager's environment names, and the Secret's file with its key.
func withModel(w *world) *llmserver.Server {
	GinkgoHelper()
	server := llmserver.Start(llmserver.Options{Key: modelKey, Models: []string{modelName}})
	DeferCleanup(func() {
		w.stop() // while the server still answers
		server.Close()
	})
	w.options.Models.Provider, w.options.Models.Model, w.options.Models.BaseURL = "anthropic", modelName, server.AnthropicURL()
	w.options.Models.KeyFolder = GinkgoT().TempDir()
	w.writeKey(modelKey)
	return server
}

// writeKey stores a key where the kubelet mounts the Secret.
func (w *world) writeKey(key string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(w.options.Models.KeyFolder, "anthropic-api-key"), []byte(key+"\n"), 0o600)).To(Succeed())
}

// operating returns an OperatingPolicy of the world's model.
func operating(server *llmserver.Server, change ...func(*candorv1alpha1.OperatingPolicySpec)) *candorv1alpha1.OperatingPolicy {
	p := &candorv1alpha1.OperatingPolicy{ObjectMeta: metav1.ObjectMeta{Name: candorv1alpha1.Singleton}}
	p.Spec.Model = &candorv1alpha1.Model{Provider: candorv1alpha1.ModelAnthropic, Name: modelName, BaseURL: server.AnthropicURL()}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

// calls allows so many calls in a window.
func calls(n int32, window time.Duration) *candorv1alpha1.CostBudget {
	return &candorv1alpha1.CostBudget{MaxCalls: ptr.To(n), WindowSeconds: int32(window / time.Second)}
}

// neighbour is another namespace of the same world.
func (w *world) neighbour(ctx context.Context, n int) *world {
	GinkgoHelper()
	other := *w
	other.namespace = fmt.Sprintf("%s-n%d", w.namespace, n)
	cluster.CreateNamespace(ctx, other.namespace)
	DeferCleanup(func(ctx SpecContext) {
		w.stop() // else it makes deleted Findings again
		other.clear(ctx)
	})
	return &other
}

// deploy makes a StatefulSet with a policy beside it, and a report about it.
func (w *world) deploy(ctx context.Context, name string, entries []any, change ...func(*candorv1alpha1.SignalPolicy)) {
	GinkgoHelper()
	w.apply(ctx, builder.StatefulSet(w.namespace, name), builder.Policy(w.namespace, "default", []string{"trivy"}, change...))
	w.scan(ctx, name, entries)
}

// why returns a function that reads the reason of a Finding's condition Enriched, empty when there is none.
func why(f func() *candorv1alpha1.Finding) func() string {
	return func() string {
		found := f()
		if found == nil {
			return ""
		}
		c := meta.FindStatusCondition(found.Status.Conditions, candorv1alpha1.ConditionEnriched)
		if c == nil {
			return ""
		}
		return c.Reason
	}
}

// explained returns a function that reads the word on a Finding's explanation.
func explained(f func() *candorv1alpha1.Finding) func() candorv1alpha1.Explained {
	return func() candorv1alpha1.Explained {
		if found := f(); found != nil {
			return found.Status.Explained
		}
		return ""
	}
}

// ledger returns what was spent by a scope.
func ledger(ctx context.Context, scope string) (spent candorv1alpha1.LedgerBucket) {
	GinkgoHelper()
	var l candorv1alpha1.Ledger
	Expect(client.IgnoreNotFound(cluster.Client.Get(ctx, client.ObjectKey{Name: candorv1alpha1.Singleton}, &l))).To(Succeed())
	for _, s := range l.Status.Scopes {
		if s.Name != scope {
			continue
		}
		for _, b := range s.Buckets {
			spent.Calls, spent.Tokens, spent.CostMicros = spent.Calls+b.Calls, spent.Tokens+b.Tokens, spent.CostMicros+b.CostMicros
		}
	}
	return spent
}
