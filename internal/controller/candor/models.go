// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/llm"
)

// +kubebuilder:rbac:groups=candor.dev,resources=operatingpolicies,verbs=get;list;watch

// What the definition of the OperatingPolicy says where it is left out; the environment's model has the same.
const (
	defaultOutputTokens = 1024
	defaultTimeout      = 60 * time.Second
	defaultConcurrent   = 2
)

// Model is the model that may be asked now.
type Model struct {
	Provider candorv1alpha1.ModelProvider
	Backend  llm.Backend
	Settings llm.Settings
	// Address is the server's.
	Address    string
	Prices     *candorv1alpha1.Prices
	Timeout    time.Duration
	Concurrent int
	// identity differs for another model, address or key.
	identity [sha256.Size]byte
}

// Models makes models of what people configure.
type Models struct {
	// Environment is the model that the manager's environment names, for where the OperatingPolicy names none; its provider
	// is empty where it does not.
	Environment candorv1alpha1.Model
	// New makes a backend. An error says what is wrong with the address.
	New func(provider candorv1alpha1.ModelProvider, baseURL string) (llm.Backend, error)
	// Key returns the present key of a provider; empty when there is none.
	Key func(provider candorv1alpha1.ModelProvider) string

	mu       sync.Mutex
	backends map[backendKey]llm.Backend
}

type backendKey struct {
	provider candorv1alpha1.ModelProvider
	address  string
}

// Unusable is why no model can be asked.
type Unusable struct {
	// Reason is one of the reasons of Ready on an OperatingPolicy; empty where no model is configured, which is fine.
	Reason string
	// Message says it in a sentence.
	Message string
}

// For returns the model that the policy, which may be nil, or the environment names.
func (m *Models) For(operating *candorv1alpha1.OperatingPolicy) (*Model, *Unusable) {
	spec := m.Environment
	if operating != nil && operating.Spec.Model != nil {
		spec = *operating.Spec.Model
	}
	if spec.Provider == "" {
		return nil, &Unusable{Message: "No model is configured: Findings stay deterministic."}
	}
	key := m.Key(spec.Provider)
	if spec.Provider == candorv1alpha1.ModelAnthropic && key == "" {
		return nil, &Unusable{Reason: candorv1alpha1.ReasonNoKey, Message: "There is no key for the model: put it into the Secret candor-llm beside the manager, as anthropic-api-key."}
	}
	backend, err := m.backend(backendKey{spec.Provider, spec.BaseURL})
	if err != nil {
		return nil, &Unusable{Reason: candorv1alpha1.ReasonModelInvalid, Message: fmt.Sprintf("The model cannot be asked: %v.", err)}
	}
	model := &Model{
		Provider: spec.Provider, Backend: backend, Address: spec.BaseURL, Prices: spec.Prices,
		Settings: llm.Settings{
			Model: spec.Name, MaxOutputTokens: cmp.Or(spec.MaxOutputTokens, defaultOutputTokens),
			StructuredOutput: string(cmp.Or(spec.StructuredOutput, candorv1alpha1.StructuredJSONSchema)),
			TokenLimit:       string(cmp.Or(spec.TokenLimit, candorv1alpha1.TokenLimitMaxCompletionTokens)),
		},
		Timeout:    cmp.Or(time.Duration(spec.TimeoutSeconds)*time.Second, defaultTimeout),
		Concurrent: cmp.Or(int(spec.MaxConcurrent), defaultConcurrent),
	}
	model.identity = identify(model, key)
	return model, nil
}

// mark differs whenever the model, its address or its key does, or why none can be asked.
func (m *Models) mark(operating *candorv1alpha1.OperatingPolicy) string {
	model, unusable := m.For(operating)
	if unusable != nil {
		return unusable.Message
	}
	return string(model.identity[:])
}

func (m *Models) backend(key backendKey) (llm.Backend, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if backend, made := m.backends[key]; made {
		return backend, nil
	}
	backend, err := m.New(key.provider, key.address)
	if err != nil {
		return nil, err
	}
	m.backends = map[backendKey]llm.Backend{key: backend} // one model is asked at a time, so the former one is let go
	return backend, nil
}

// operatingPolicy returns the cluster's OperatingPolicy, nil when there is none.
func operatingPolicy(ctx context.Context, reader client.Reader) (*candorv1alpha1.OperatingPolicy, error) {
	var policy candorv1alpha1.OperatingPolicy
	err := reader.Get(ctx, types.NamespacedName{Name: candorv1alpha1.Singleton}, &policy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the OperatingPolicy: %w", err)
	}
	return &policy, nil
}

func audits(operating *candorv1alpha1.OperatingPolicy) bool {
	return operating != nil && operating.Spec.Mode == candorv1alpha1.ModeAudit
}
