// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

type syncSpec = fleetmanagementv1alpha1.ExternalAttributeSyncSpec

func aSync(changes ...func(*syncSpec)) *fleetmanagementv1alpha1.ExternalAttributeSync {
	s := &fleetmanagementv1alpha1.ExternalAttributeSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "cmdb"},
		Spec: syncSpec{
			Source: fleetmanagementv1alpha1.ExternalSource{
				Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: "https://cmdb.example.com/hosts"},
			},
			Schedule: "10m",
			Selector: fleetmanagementv1alpha1.PolicySelector{Matchers: []string{`collector.os="linux"`}},
			Mapping:  fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "id", AttributeFields: map[string]string{"team": "owner"}},
		},
	}
	for _, change := range changes {
		change(&s.Spec)
	}
	return s
}

func address(text string) func(*syncSpec) { return func(s *syncSpec) { s.Source.HTTP.URL = text } }

func secret(name, namespace string) func(*syncSpec) {
	return func(s *syncSpec) {
		s.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: name, Namespace: namespace}
	}
}

func query(driver, text string) func(*syncSpec) {
	return func(s *syncSpec) {
		s.Source.Kind, s.Source.HTTP = fleetmanagementv1alpha1.SourceSQL, nil
		s.Source.SQL = &fleetmanagementv1alpha1.SQLSource{Driver: driver, Query: text}
		secret("db", "")(s)
	}
}

func schedule(text, zone string) func(*syncSpec) {
	return func(s *syncSpec) { s.Schedule, s.TimeZone = text, zone }
}

func mapping(change func(*fleetmanagementv1alpha1.AttributeMapping)) func(*syncSpec) {
	return func(s *syncSpec) { change(&s.Mapping) }
}

func fields(of map[string]string) func(*syncSpec) {
	return mapping(func(m *fleetmanagementv1alpha1.AttributeMapping) { m.AttributeFields = of })
}

func TestAnExternalAttributeSync(t *testing.T) {
	inside := func(u *url.URL) error { return errors.New(u.Hostname() + " is inside") }
	httpOnly := func(change func(*fleetmanagementv1alpha1.HTTPSource)) func(*syncSpec) {
		return func(s *syncSpec) { change(s.Source.HTTP) }
	}
	for name, test := range map[string]struct {
		sync  *fleetmanagementv1alpha1.ExternalAttributeSync
		guard func(*url.URL) error
		want  []string
	}{
		"of a server is fine": {sync: aSync()},
		"that says everything is fine": {
			sync: aSync(secret("cmdb", "team-a"), schedule("0 6 * * 1-5", "Europe/Berlin"), func(s *syncSpec) {
				s.Source.HTTP.Method, s.Source.HTTP.RecordsPath = fleetmanagementv1alpha1.MethodPost, "data.items"
				s.OnDuplicate, s.MaxShrinkPercent, s.Mapping.RequiredKeys = fleetmanagementv1alpha1.DuplicateFail, ptr.To[int32](100), []string{"owner"}
				s.Selector.CollectorIDs = []string{"edge-1"}
			}),
			guard: func(*url.URL) error { return nil },
		},
		"of a database is fine":                     {sync: aSync(query("postgres", "WITH x AS (SELECT 1) SELECT id, owner FROM hosts;"))},
		"of a server in the clear without a Secret": {sync: aSync(address("http://cmdb.example.com"))},
		"of a server in the clear with a Secret":    {sync: aSync(address("http://cmdb.example.com"), secret("cmdb", "")), want: []string{"spec.source.http.url: Invalid value: must begin with https://, since the credentials"}},
		"of an address that the guard refuses":      {sync: aSync(), guard: inside, want: []string{"spec.source.http.url: Invalid value: cmdb.example.com is inside"}},
		"of a password in the address":              {sync: aSync(address("https://me:hunter2@cmdb.example.com")), want: []string{"spec.source.http.url: Invalid value: must not hold a user or a password"}},
		"of a scheme that is none":                  {sync: aSync(address("ftp://cmdb.example.com")), want: []string{"spec.source.http.url: Invalid value: must begin with https://"}},
		"of no server":                              {sync: aSync(address("https:///hosts")), want: []string{"spec.source.http.url: Invalid value: must name a server"}},
		"of a text that is no address":              {sync: aSync(address("https://%zz")), want: []string{"spec.source.http.url: Invalid value: cannot be read"}},
		"of a blank address":                        {sync: aSync(address(" ")), want: []string{"spec.source.http.url: Required value: write the address that answers with records"}},
		"of a method that is none":                  {sync: aSync(httpOnly(func(h *fleetmanagementv1alpha1.HTTPSource) { h.Method = "PUT" })), want: []string{`spec.source.http.method: Unsupported value: "PUT": supported values: "GET", "POST"`}},
		"of a path with a hole":                     {sync: aSync(httpOnly(func(h *fleetmanagementv1alpha1.HTTPSource) { h.RecordsPath = "data..items" })), want: []string{`spec.source.http.recordsPath: Invalid value: "data..items": has an empty name`}},
		"of a bundle that holds no certificate":     {sync: aSync(httpOnly(func(h *fleetmanagementv1alpha1.HTTPSource) { h.CABundle = "hunter2" })), want: []string{"spec.source.http.caBundle: Invalid value: holds no certificate in PEM: "}},
		"of no known kind":                          {sync: aSync(func(s *syncSpec) { s.Source.Kind = "LDAP" }), want: []string{`spec.source.kind: Unsupported value: "LDAP": supported values: "HTTP", "SQL"`}},
		"of HTTP without http":                      {sync: aSync(func(s *syncSpec) { s.Source.HTTP = nil }), want: []string{"spec.source.http: Required value: write it for the kind HTTP"}},
		"of HTTP with sql, too": {sync: aSync(func(s *syncSpec) {
			s.Source.SQL = &fleetmanagementv1alpha1.SQLSource{Driver: "mysql", Query: "SELECT 1"}
		}), want: []string{"spec.source.sql: Forbidden: remove it, or change kind from HTTP"}},
		"of SQL without sql":                 {sync: aSync(query("mysql", "SELECT 1"), func(s *syncSpec) { s.Source.SQL = nil }), want: []string{"spec.source.sql: Required value: write it for the kind SQL"}},
		"of SQL without a Secret":            {sync: aSync(query("mysql", "SELECT 1"), func(s *syncSpec) { s.Source.SecretRef = nil }), want: []string{"spec.source.secretRef: Required value: name the Secret whose key dsn"}},
		"of no driver":                       {sync: aSync(query("", "SELECT 1")), want: []string{"spec.source.sql.driver: Invalid value: "}},
		"of a driver that is none":           {sync: aSync(query("oracle", "SELECT 1")), want: []string{`spec.source.sql.driver: Invalid value: "oracle": `}},
		"of no query":                        {sync: aSync(query("mysql", " ")), want: []string{"spec.source.sql.query: Invalid value: "}},
		"of a query that writes":             {sync: aSync(query("mysql", "DELETE FROM hosts")), want: []string{"spec.source.sql.query: Invalid value: "}},
		"of two queries":                     {sync: aSync(query("mysql", "SELECT 1; SELECT 2")), want: []string{"spec.source.sql.query: Invalid value: "}},
		"of a Secret without a name":         {sync: aSync(secret(" ", "")), want: []string{"spec.source.secretRef.name: Required value: name a Secret, or leave secretRef out"}},
		"of a Secret whose name is none":     {sync: aSync(secret("CMDB", "")), want: []string{`spec.source.secretRef.name: Invalid value: "CMDB": is no name of a Secret`}},
		"of another namespace's Secret":      {sync: aSync(secret("cmdb", "team-b")), want: []string{`spec.source.secretRef.namespace: Invalid value: "team-b": must be empty or team-a`}},
		"of a schedule that is none":         {sync: aSync(schedule("hourly", "")), want: []string{`spec.schedule: Invalid value: "hourly" is neither a duration such as 10m nor a cron expression`}},
		"of a blank schedule":                {sync: aSync(schedule(" ", "")), want: []string{"spec.schedule: Required value: write a duration such as 10m, or a cron expression of five fields"}},
		"of an interval that is too short":   {sync: aSync(schedule("29s", "")), want: []string{`spec.schedule: Invalid value: "29s" is too short`}},
		"of an interval that goes back":      {sync: aSync(schedule("-10m", "")), want: []string{`spec.schedule: Invalid value: "-10m" is too short`}},
		"of the shortest interval":           {sync: aSync(schedule("30s", ""))},
		"of a descriptor":                    {sync: aSync(schedule("@every 1h", "")), want: []string{"spec.schedule: Invalid value: "}},
		"of six fields":                      {sync: aSync(schedule("0 0 * * * *", "")), want: []string{"spec.schedule: Invalid value: "}},
		"of a zone that is none":             {sync: aSync(schedule("0 * * * *", "Mars/Olympus")), want: []string{`spec.timeZone: Invalid value: "Mars/Olympus" is not known`}},
		"that selects nobody":                {sync: aSync(func(s *syncSpec) { s.Selector.Matchers = nil }), want: []string{"spec.selector: Required value: name collectors by matchers or by collectorIDs"}},
		"of a matcher that is none":          {sync: aSync(func(s *syncSpec) { s.Selector.Matchers = []string{"a==b"} }), want: []string{`spec.selector.matchers[0]: Invalid value: "a==b": there is no operator ==`}},
		"without the field of the ID":        {sync: aSync(mapping(func(m *fleetmanagementv1alpha1.AttributeMapping) { m.CollectorIDField = " " })), want: []string{"spec.mapping.collectorIDField: Required value: write the name of a field of the records"}},
		"without attributes":                 {sync: aSync(fields(nil)), want: []string{"spec.mapping.attributeFields: Required value: say which attribute gets the value of which field"}},
		"of a reserved attribute":            {sync: aSync(fields(map[string]string{"collector.os": "os"})), want: []string{"spec.mapping.attributeFields[collector.os]: Invalid value: keys that start with collector. are reserved"}},
		"of a key that is too long":          {sync: aSync(fields(map[string]string{strings.Repeat("k", 101): "os"})), want: []string{"spec.mapping.attributeFields[" + strings.Repeat("k", 99) + "…]: Invalid value: a key has at most 100 characters"}},
		"of an attribute from a blank field": {sync: aSync(fields(map[string]string{"team": " "})), want: []string{"spec.mapping.attributeFields[team]: Required value: write the name of a field of the records"}},
		"of an attribute from a long field":  {sync: aSync(fields(map[string]string{"team": strings.Repeat("x", 1025)})), want: []string{"spec.mapping.attributeFields[team]: Too long: may not be more than 1024 characters"}},
		"of too many attributes":             {sync: aSync(fields(named(101))), want: []string{"spec.mapping.attributeFields: Too many: 101: must have at most 100 items"}},
		"of a required field without a name": {sync: aSync(mapping(func(m *fleetmanagementv1alpha1.AttributeMapping) { m.RequiredKeys = []string{"a", ""} })), want: []string{"spec.mapping.requiredKeys[1]: Required value: write the name of a field of the records"}},
		"of too many required fields": {sync: aSync(mapping(func(m *fleetmanagementv1alpha1.AttributeMapping) {
			m.RequiredKeys = strings.Split(strings.Repeat("a", 101), "")
		})), want: []string{"spec.mapping.requiredKeys: Too many: 101: must have at most 100 items"}},
		"of a way with duplicates that is none":    {sync: aSync(func(s *syncSpec) { s.OnDuplicate = "Merge" }), want: []string{`spec.onDuplicate: Unsupported value: "Merge": supported values: "Last", "First", "Fail"`}},
		"of a shrink that is more than everything": {sync: aSync(func(s *syncSpec) { s.MaxShrinkPercent = ptr.To[int32](101) }), want: []string{"spec.maxShrinkPercent: Invalid value: 101: must be between 0"}},
		"of a shrink that is less than nothing":    {sync: aSync(func(s *syncSpec) { s.MaxShrinkPercent = ptr.To[int32](-1) }), want: []string{"spec.maxShrinkPercent: Invalid value: -1: must be between 0"}},
		"of a shrink of nothing, which holds all":  {sync: aSync(func(s *syncSpec) { s.MaxShrinkPercent = ptr.To[int32](0) })},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			warnings, errs := ExternalAttributeSync(nil, test.sync, Options{CheckURL: test.guard})
			g.Expect(said(errs)).To(HaveLen(len(test.want)), "%v", said(errs))
			for i, want := range test.want {
				g.Expect(said(errs)[i]).To(HavePrefix(want))
			}
			g.Expect(said(errs)).NotTo(ContainElement(ContainSubstring("hunter2")), "nothing secret is repeated")
			g.Expect(warnings).To(BeEmpty())
		})
	}
}

func TestAPathOfJSONPathIsRefusedWithTheRightForm(t *testing.T) {
	for path, want := range map[string]string{
		"$.data.hosts[*]": "here data.hosts",
		"data.hosts[]":    "here data.hosts",
		"$.data.hosts.*":  "here data.hosts",
		"$['data'].hosts": "here data.hosts",
		"$[*]":            "leave it out, since the answer is the list",
		"$":               "leave it out, since the answer is the list",
		"data.hosts":      "",
		"$data.*hosts":    "",
	} {
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			s := aSync()
			s.Spec.Source.HTTP.RecordsPath = path
			_, errs := ExternalAttributeSync(nil, s, Options{})
			if want == "" {
				g.Expect(errs).To(BeEmpty())
				return
			}
			g.Expect(said(errs)).To(ConsistOf(And(HavePrefix("spec.source.http.recordsPath: Invalid value: "), ContainSubstring("is JSONPath, which is not read: "), HaveSuffix(want))))
		})
	}
}

func TestAnExternalAttributeSyncIsWarnedOf(t *testing.T) {
	g := NewWithT(t)
	s := aSync(schedule("10m", "Europe/Berlin"))
	s.Annotations = map[string]string{fleetmanagementv1alpha1.AnnotationDryRun: "yes"}
	warnings, errs := ExternalAttributeSync(nil, s, Options{})
	g.Expect(warnings).To(ConsistOf("spec.timeZone: has no effect on a duration: leave it out, or write a cron expression"))
	g.Expect(said(errs)).To(ConsistOf(
		`metadata.annotations[fleetmanagement.grafana.com/dry-run]: Unsupported value: "yes": supported values: "true", "false", "redacted"`,
	))
	old := s.DeepCopy()
	s.Spec.Suspend = true
	_, errs = ExternalAttributeSync(old, s, Options{})
	g.Expect(errs).To(BeEmpty(), "it had this value before")
	s.Annotations[fleetmanagementv1alpha1.AnnotationDryRun] = fleetmanagementv1alpha1.DryRunRedacted
	warnings, _ = ExternalAttributeSync(aSync(schedule("10m", "Europe/Berlin")), s, Options{})
	g.Expect(warnings).To(BeEmpty(), "the schedule is as it was")
}

func TestWhatAnUpdateOfAnExternalAttributeSyncLeavesAsItWasPasses(t *testing.T) {
	server := []func(*syncSpec){
		address("http://me@localhost"), secret("CMDB", "team-b"), schedule("1ns", ""), fields(map[string]string{"collector.os": "os", "team": " "}),
		mapping(func(m *fleetmanagementv1alpha1.AttributeMapping) { m.RequiredKeys = []string{""} }),
		func(s *syncSpec) { s.Selector.Matchers = []string{"a==b"} },
	}
	database := []func(*syncSpec){query("", "DELETE FROM hosts")}
	changed := func(broken []func(*syncSpec), more ...func(*syncSpec)) *fleetmanagementv1alpha1.ExternalAttributeSync {
		return aSync(append(append([]func(*syncSpec){}, broken...), more...)...)
	}
	annotated, leaves := changed(server), changed(server)
	annotated.Annotations, leaves.DeletionTimestamp = map[string]string{fleetmanagementv1alpha1.AnnotationFetchNow: "1"}, &metav1.Time{}
	for name, test := range map[string]struct {
		old, now *fleetmanagementv1alpha1.ExternalAttributeSync
		want     []string
	}{
		"as a new one it is refused": {nil, changed(server), []string{
			"spec.source.http.url", "spec.source.secretRef.name", "spec.source.secretRef.namespace",
			"spec.mapping.attributeFields[collector.os]", "spec.mapping.attributeFields[team]", "spec.mapping.requiredKeys[0]",
			"spec.schedule", "spec.selector.matchers[0]",
		}},
		"an annotation":                   {changed(server), annotated, nil},
		"an object that is being deleted": {aSync(), leaves, nil},
		"a pause":                         {changed(server), changed(server, func(s *syncSpec) { s.Suspend = true }), nil},
		"an attribute more":               {changed(server), changed(server, fields(map[string]string{"collector.os": "os", "team": " ", "env": "env"})), nil},
		"another method":                  {changed(server), changed(server, func(s *syncSpec) { s.Source.HTTP.Method = fleetmanagementv1alpha1.MethodPost }), nil},
		"another address":                 {changed(server), changed(server, address("http://you@localhost")), []string{"spec.source.http.url"}},
		"a database in place of a server": {changed(server), changed(server, query("", "DELETE FROM hosts")), []string{"spec.source.sql.driver", "spec.source.sql.query"}},
		"another driver":                  {changed(database), changed(database, query("mysql", "DELETE FROM hosts")), nil},
		"another query":                   {changed(database), changed(database, query("", "DROP TABLE hosts")), []string{"spec.source.sql.query"}},
		"a Secret for what is asked in the clear": {aSync(address("http://cmdb.example.com")), aSync(address("http://cmdb.example.com"), secret("cmdb", "")), []string{
			"spec.source.http.url",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := ExternalAttributeSync(test.old, test.now, Options{})
			var fields []string
			for _, err := range errs {
				fields = append(fields, err.Field)
			}
			NewWithT(t).Expect(fields).To(Equal(test.want), "%v", said(errs))
		})
	}
}

// named is a mapping of n attributes.
func named(n int) map[string]string {
	fields := numbered(n)
	for key := range fields {
		fields[key] = "field"
	}
	return fields
}
