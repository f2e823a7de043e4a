// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package crdgate

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

var reports = schema.GroupVersionKind{Group: "aquasecurity.github.io", Version: "v1alpha1", Kind: "VulnerabilityReport"}

// mapper answers every question in the same way.
type mapper struct {
	meta.RESTMapper
	err error
}

func (m mapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{}, m.err
}

func TestOnlyNoMatchMeansNotInstalled(t *testing.T) {
	gone := &meta.NoKindMatchError{GroupKind: reports.GroupKind()}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
	for name, test := range map[string]struct {
		answer    error
		installed bool
		failed    bool
	}{
		"the kind is served":                            {nil, true, false},
		"the kind has no match":                         {gone, false, false},
		"the kind has no match, wrapped":                {fmt.Errorf("discovering: %w", gone), false, false},
		"the resource has no match":                     {&meta.NoResourceMatchError{}, false, false},
		"the API server is away":                        {apierrors.NewServiceUnavailable("away"), false, true},
		"the API server forbids to ask":                 {forbidden, false, true},
		"the API server says that its own path is gone": {apierrors.NewNotFound(schema.GroupResource{}, ""), false, true},
		"a group of others cannot be discovered":        {&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "x"}: errors.New("away")}}, false, true},
		"several kinds match":                           {&meta.AmbiguousKindError{}, false, true},
		"anything else":                                 {errors.New("tls: bad certificate"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			installed, err := CRDInstalled(mapper{err: test.answer}, reports)
			g.Expect(installed).To(Equal(test.installed))
			if !test.failed {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(errors.Is(err, test.answer)).To(BeTrue(), "%v", err)
			g.Expect(err.Error()).To(HavePrefix("asking the API server whether it serves aquasecurity.github.io/v1alpha1, Kind=VulnerabilityReport: "))
		})
	}
}

func TestARealMapperKnowsItsKinds(t *testing.T) {
	g := NewWithT(t)
	real := meta.NewDefaultRESTMapper(nil)
	real.Add(reports, meta.RESTScopeNamespace)
	g.Expect(CRDInstalled(real, reports)).To(BeTrue())
	g.Expect(CRDInstalled(real, reports.GroupVersion().WithKind("ConfigAuditReport"))).To(BeFalse())
	g.Expect(CRDInstalled(real, schema.GroupVersionKind{Group: reports.Group, Version: "v2", Kind: reports.Kind})).To(BeFalse(), "another version")
}
