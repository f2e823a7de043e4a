// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DropUnsupportedKind says that no provider reads this kind of report.
const DropUnsupportedKind = "unsupported_kind"

// Classes is every class of reports that this version reads.
type Classes []Class

// Providers returns the names of the providers that have reports, in the order of the table.
func (c Classes) Providers() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Provider
	}
	return names
}

// Known returns the names that spec.providers may use.
func (c Classes) Known() []string { return append(c.Providers(), Posted) }

// ByProvider returns the class of a provider.
func (c Classes) ByProvider(provider string) (Class, bool) {
	for i := range c {
		if c[i].Provider == provider {
			return c[i], true
		}
	}
	return Class{}, false
}

// Reports reads a report of any class. Its error is a *Drop.
func (c Classes) Reports(report *unstructured.Unstructured) ([]Report, Class, error) {
	for i := range c {
		if c[i].Kind == report.GroupVersionKind() {
			reports, err := c[i].Reports(report)
			return reports, c[i], err
		}
	}
	return nil, Class{}, &Drop{Reason: DropUnsupportedKind, Detail: fmt.Sprintf("no provider reads %s", report.GroupVersionKind())}
}
