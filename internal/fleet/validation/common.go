// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/lint"
	"github.com/candor-dev/candor/internal/fleet/matcher"
)

const (
	maxMatchers     = 100
	maxCollectorIDs = 1000
	maxCollectorID  = 512
)

func checkSelector(path *field.Path, before, now fleetmanagementv1alpha1.PolicySelector, f *findings) {
	if len(now.Matchers) == 0 && len(now.CollectorIDs) == 0 {
		f.require(path, "name collectors by matchers or by collectorIDs; an empty selector selects none")
	}
	checkMatchers(path.Child("matchers"), before.Matchers, now.Matchers, f)
	checkCollectorIDs(path.Child("collectorIDs"), before.CollectorIDs, now.CollectorIDs, f)
}

// checkMatchers leaves out what before holds already.
func checkMatchers(path *field.Path, before, now []string, f *findings) {
	if len(now) > maxMatchers {
		f.errs = append(f.errs, field.TooMany(path, len(now), maxMatchers))
		return
	}
	for i, text := range now {
		if slices.Contains(before, text) {
			continue
		}
		if _, err := matcher.Parse(text); err != nil {
			f.refuse(path.Index(i), shorten(text), err.Error())
		}
	}
}

// checkCollectorIDs leaves out what before holds already.
func checkCollectorIDs(path *field.Path, before, now []string, f *findings) {
	if len(now) > maxCollectorIDs {
		f.errs = append(f.errs, field.TooMany(path, len(now), maxCollectorIDs))
		return
	}
	for i, id := range now {
		switch {
		case slices.Contains(before, id):
		case strings.TrimSpace(id) == "":
			f.refuse(path.Index(i), id, "an ID must not be blank: write one, or remove the item")
		case utf8.RuneCountInString(id) > maxCollectorID:
			f.errs = append(f.errs, field.TooLongCharacters(path.Index(i), "", maxCollectorID))
		}
	}
}

// checkOneOf refuses a value that is neither empty nor one of the supported ones.
func checkOneOf[T ~string](path *field.Path, value T, f *findings, supported ...T) {
	if value != "" && !slices.Contains(supported, value) {
		f.errs = append(f.errs, field.NotSupported(path, value, supported))
	}
}

// annotationRule refuses a value that means nothing: whoever writes one wants something of the operator, and it must not do the opposite.
func annotationRule[T metav1.Object](key string, values ...string) rule[T] {
	return rule[T]{
		reads: func(o T) any {
			value, set := o.GetAnnotations()[key]
			return []any{value, set}
		},
		check: func(_, now T, f *findings) {
			if value, set := now.GetAnnotations()[key]; set && !slices.Contains(values, value) {
				f.errs = append(f.errs, field.NotSupported(annotation(key), shorten(value), values))
			}
		},
	}
}

func annotation(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }

const maxShown = 100

// shorten keeps an error or a warning readable, whatever somebody wrote.
func shorten(text string) string { return lint.Shorten(text, maxShown) }
