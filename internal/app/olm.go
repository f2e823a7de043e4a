// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
	"github.com/candor-dev/candor/internal/upgradeable"
)

// addOLM tells OLM when the manager may be replaced. Outside OLM it does nothing.
func (b *building) addOLM() error {
	name, namespace := b.options.OperatorCondition, b.options.podNamespace()
	if name == "" {
		return nil
	}
	uncached, err := b.uncached()
	if err != nil {
		return err
	}
	b.firstLook = candorcontroller.NewFirstLook(b.mgr.GetCache(), b.providers)
	err = b.mgr.Add(&upgradeable.Reporter{
		Client: uncached, Condition: client.ObjectKey{Namespace: namespace, Name: name}, Left: b.firstLook.Left, Done: b.firstLook.End,
		Clock: b.parts.Clock, Log: b.mgr.GetLogger().WithName("olm"),
	})
	if err != nil {
		return fmt.Errorf("adding the report to OLM: %w", err)
	}
	return nil
}
