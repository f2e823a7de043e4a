// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package candor holds the controllers of the kinds in candor.dev.
package candor

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/crdgate"
	"github.com/candor-dev/candor/internal/signals"
)

// Providers knows every class of reports and whether the cluster has it.
type Providers struct {
	// Classes is the table of what this version reads.
	Classes signals.Classes
	// Gates holds the gate of each class, by provider.
	Gates map[string]*crdgate.Gate
}

// Reader returns a reader of a provider's reports; false unless it holds every one of them.
func (p *Providers) Reader(provider string) (client.Reader, bool) {
	gate, ok := p.Gates[provider]
	if !ok {
		return nil, false
	}
	return gate.Reader()
}

// State returns what is known of a provider; false when this version does not have it.
func (p *Providers) State(provider string) (crdgate.State, bool) {
	gate, ok := p.Gates[provider]
	if !ok {
		return crdgate.State{}, false
	}
	return gate.State(), true
}
