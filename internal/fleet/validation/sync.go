// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/source/http"
	"github.com/candor-dev/candor/internal/fleet/source/sqlcheck"
)

type externalSync = *fleetmanagementv1alpha1.ExternalAttributeSync

func syncRules(o Options) []rule[externalSync] {
	return slices.Concat(sourceRules(o), mappingRules(o), []rule[externalSync]{
		{
			reads: func(s externalSync) any { return []string{s.Spec.Schedule, s.Spec.TimeZone} },
			check: func(_, now externalSync, f *findings) { checkSchedule(now, f) },
		},
		{
			reads: func(s externalSync) any { return s.Spec.Selector },
			check: func(old, now externalSync, f *findings) {
				var before fleetmanagementv1alpha1.PolicySelector
				if old != nil {
					before = old.Spec.Selector
				}
				checkSelector(spec.Child("selector"), before, now.Spec.Selector, f)
			},
		},
		{
			reads: func(s externalSync) any { return s.Spec.OnDuplicate },
			check: func(_, now externalSync, f *findings) {
				checkOneOf(spec.Child("onDuplicate"), now.Spec.OnDuplicate, f, fleetmanagementv1alpha1.DuplicateLast,
					fleetmanagementv1alpha1.DuplicateFirst, fleetmanagementv1alpha1.DuplicateFail)
			},
		},
		{
			reads: func(s externalSync) any { return s.Spec.MaxShrinkPercent },
			check: func(_, now externalSync, f *findings) {
				if percent := now.Spec.MaxShrinkPercent; percent != nil && (*percent < 0 || *percent > 100) {
					f.refuse(spec.Child("maxShrinkPercent"), *percent, "must be between 0, which holds back every loss, and 100, which holds back none")
				}
			},
		},
		annotationRule[externalSync](fleetmanagementv1alpha1.AnnotationDryRun, extsync.DryRuns...),
	})
}

var sourcePath = spec.Child("source")

func sourceRules(o Options) []rule[externalSync] {
	return []rule[externalSync]{
		{
			reads: func(s externalSync) any {
				return []any{s.Spec.Source.Kind, s.Spec.Source.HTTP != nil, s.Spec.Source.SQL != nil, s.Spec.Source.SecretRef != nil}
			},
			check: func(_, now externalSync, f *findings) { checkKind(now.Spec.Source, f) },
		},
		{
			reads: func(s externalSync) any { return []any{httpOf(s).URL, s.Spec.Source.SecretRef != nil} },
			check: func(_, now externalSync, f *findings) {
				if now.Spec.Source.HTTP != nil {
					checkURL(httpOf(now).URL, now.Spec.Source.SecretRef != nil, o.CheckURL, f)
				}
			},
		},
		{
			reads: func(s externalSync) any { return httpOf(s).Method },
			check: func(_, now externalSync, f *findings) {
				checkOneOf(sourcePath.Child("http", "method"), httpOf(now).Method, f, fleetmanagementv1alpha1.MethodGet, fleetmanagementv1alpha1.MethodPost)
			},
		},
		{
			reads: func(s externalSync) any { return httpOf(s).RecordsPath },
			check: func(_, now externalSync, f *findings) {
				if err := http.CheckRecordsPath(httpOf(now).RecordsPath); err != nil {
					f.refuse(sourcePath.Child("http", "recordsPath"), shorten(httpOf(now).RecordsPath), err.Error())
				}
			},
		},
		{
			reads: func(s externalSync) any { return httpOf(s).CABundle },
			check: func(_, now externalSync, f *findings) {
				checkCABundle(httpOf(now).CABundle, f)
			},
		},
		{
			reads: func(s externalSync) any { return s.Spec.Source.SQL },
			check: func(old, now externalSync, f *findings) { checkSQL(old, now, f) },
		},
		{
			reads: func(s externalSync) any { return s.Spec.Source.SecretRef },
			check: func(_, now externalSync, f *findings) { checkSecretRef(now, f) },
		},
	}
}

// httpOf returns an empty source where there is none.
func httpOf(s externalSync) fleetmanagementv1alpha1.HTTPSource {
	if s.Spec.Source.HTTP == nil {
		return fleetmanagementv1alpha1.HTTPSource{}
	}
	return *s.Spec.Source.HTTP
}

func checkKind(source fleetmanagementv1alpha1.ExternalSource, f *findings) {
	// one is what kind asks for, and other what must be absent.
	pair := func(one, other string, hasOne, hasOther bool) {
		if !hasOne {
			f.require(sourcePath.Child(one), fmt.Sprintf("write it for the kind %s", source.Kind))
		}
		if hasOther {
			f.errs = append(f.errs, field.Forbidden(sourcePath.Child(other), fmt.Sprintf("remove it, or change kind from %s", source.Kind)))
		}
	}
	switch source.Kind {
	case fleetmanagementv1alpha1.SourceHTTP:
		pair("http", "sql", source.HTTP != nil, source.SQL != nil)
	case fleetmanagementv1alpha1.SourceSQL:
		pair("sql", "http", source.SQL != nil, source.HTTP != nil)
		if source.SecretRef == nil {
			f.require(sourcePath.Child("secretRef"), "name the Secret whose key dsn says how to reach the database")
		}
	default:
		f.errs = append(f.errs, field.NotSupported(sourcePath.Child("kind"), source.Kind,
			[]fleetmanagementv1alpha1.SourceKind{fleetmanagementv1alpha1.SourceHTTP, fleetmanagementv1alpha1.SourceSQL}))
	}
}

// checkURL repeats nothing of an address but what the guard says about its host: credentials may stand in it.
func checkURL(text string, credentials bool, guard func(*url.URL) error, f *findings) {
	path := sourcePath.Child("http", "url")
	if strings.TrimSpace(text) == "" {
		f.require(path, "write the address that answers with records")
		return
	}
	u, err := http.ParseURL(text, credentials)
	if err == nil && guard != nil {
		err = guard(u)
	}
	if err != nil {
		f.refuse(path, unsaid, err.Error())
	}
}

// checkCABundle has the bundle read as it is read before a fetch.
func checkCABundle(bundle string, f *findings) {
	if bundle == "" {
		return
	}
	if _, err := egress.Roots([]byte(bundle)); err != nil {
		f.refuse(sourcePath.Child("http", "caBundle"), unsaid, err.Error())
	}
}

func checkSQL(old, now externalSync, f *findings) {
	var before fleetmanagementv1alpha1.SQLSource
	source, path := now.Spec.Source.SQL, sourcePath.Child("sql")
	if source == nil {
		return
	}
	changed := old == nil || old.Spec.Source.SQL == nil
	if !changed {
		before = *old.Spec.Source.SQL
	}
	if changed || source.Driver != before.Driver {
		if err := sqlcheck.CheckDriver(source.Driver); err != nil {
			f.refuse(path.Child("driver"), shorten(source.Driver), err.Error())
		}
	}
	if changed || source.Query != before.Query {
		if err := sqlcheck.CheckQuery(source.Query); err != nil {
			f.refuse(path.Child("query"), unsaid, err.Error())
		}
	}
}

func checkSecretRef(s externalSync, f *findings) {
	ref, path := s.Spec.Source.SecretRef, sourcePath.Child("secretRef")
	if ref == nil {
		return
	}
	switch {
	case strings.TrimSpace(ref.Name) == "":
		f.require(path.Child("name"), "name a Secret, or leave secretRef out")
	case len(validation.IsDNS1123Subdomain(ref.Name)) > 0:
		f.refuse(path.Child("name"), shorten(ref.Name), "is no name of a Secret, which has lower case letters, digits, hyphens and dots")
	}
	if ref.Namespace != "" && ref.Namespace != s.Namespace {
		f.refuse(path.Child("namespace"), shorten(ref.Namespace),
			fmt.Sprintf("must be empty or %s: a Secret of another namespace is not read, so copy it, or create the sync there", s.Namespace))
	}
}

func checkSchedule(s externalSync, f *findings) {
	path, zone := spec.Child("schedule"), spec.Child("timeZone")
	if strings.TrimSpace(s.Spec.Schedule) == "" {
		f.require(path, "write a duration such as 10m, or a cron expression of five fields")
		return
	}
	if _, err := extsync.ParseSchedule(anySchedule, s.Spec.TimeZone); err != nil {
		f.refuse(zone, unsaid, reasonOf(err, "timeZone"))
		return
	}
	if _, err := extsync.ParseSchedule(s.Spec.Schedule, s.Spec.TimeZone); err != nil {
		f.refuse(path, unsaid, reasonOf(err, "schedule"))
		return
	}
	if _, err := time.ParseDuration(strings.TrimSpace(s.Spec.Schedule)); err == nil && s.Spec.TimeZone != "" {
		f.warn(zone, "has no effect on a duration: leave it out, or write a cron expression")
	}
}

// anySchedule is one that every zone goes with.
const anySchedule = "1h"

// reasonOf returns the text of an error without the name of the field, which the path says.
func reasonOf(err error, name string) string { return strings.TrimPrefix(err.Error(), name+": ") }

const maxFieldName = 1024

func mappingRules(o Options) []rule[externalSync] {
	path := spec.Child("mapping")
	return []rule[externalSync]{
		{
			reads: func(s externalSync) any { return s.Spec.Mapping.CollectorIDField },
			check: func(_, now externalSync, f *findings) {
				checkField(path.Child("collectorIDField"), now.Spec.Mapping.CollectorIDField, f)
			},
		},
		{
			reads: func(s externalSync) any { return s.Spec.Mapping.AttributeFields },
			check: func(old, now externalSync, f *findings) {
				var before map[string]string
				if old != nil {
					before = old.Spec.Mapping.AttributeFields
				}
				checkAttributeFields(path.Child("attributeFields"), before, now.Spec.Mapping.AttributeFields, o, f)
			},
		},
		{
			reads: func(s externalSync) any { return s.Spec.Mapping.RequiredKeys },
			check: func(old, now externalSync, f *findings) {
				var before []string
				if old != nil {
					before = old.Spec.Mapping.RequiredKeys
				}
				keys := now.Spec.Mapping.RequiredKeys
				if len(keys) > maxRequiredKeys {
					f.errs = append(f.errs, field.TooMany(path.Child("requiredKeys"), len(keys), maxRequiredKeys))
				}
				for i, key := range keys {
					if !slices.Contains(before, key) {
						checkField(path.Child("requiredKeys").Index(i), key, f)
					}
				}
			},
		},
	}
}

const maxRequiredKeys = 100

// checkAttributeFields leaves out what before holds already.
func checkAttributeFields(path *field.Path, before, now map[string]string, o Options, f *findings) {
	limits := o.attributeLimits()
	if len(now) == 0 {
		f.require(path, "say which attribute gets the value of which field, at least for one")
	}
	if len(now) > limits.Total {
		f.errs = append(f.errs, field.TooMany(path, len(now), limits.Total))
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if value, existed := before[key]; existed && value == now[key] {
			continue
		}
		if reason := limits.Check(key, ""); reason != "" {
			f.refuse(path.Key(shorten(key)), unsaid, reason)
			continue
		}
		checkField(path.Key(key), now[key], f)
	}
}

// checkField looks at the name of a field of records.
func checkField(path *field.Path, name string, f *findings) {
	switch {
	case strings.TrimSpace(name) == "":
		f.require(path, "write the name of a field of the records")
	case utf8.RuneCountInString(name) > maxFieldName:
		f.errs = append(f.errs, field.TooLongCharacters(path, "", maxFieldName))
	}
}
