// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/internal/signals"
)

const rightsFile = "hack/docgen/rights.yaml"

func flagsPage() (string, error) {
	t := table{{"Flag", "Environment variable", "Default", "Meaning"}}
	app.Flags(func(f *flag.Flag) {
		t = append(t, []string{code("--" + f.Name), code(app.EnvName(f.Name)), code(f.DefValue), f.Usage})
	})
	return `Each flag has an environment variable that means the same. The flag wins where both are set. Durations are written
as in 90s, 2h or 720h. A wrong value, or an unknown flag, ends the manager with exit code 2 before it does anything.
A variable CANDOR_… of an unknown name is logged at start and otherwise ignored.

` + t.String(), nil
}

func providersPage() (string, error) {
	t := table{{"Provider", "Kind of the reports", "CustomResourceDefinition", "What it lists", "To have such reports"}}
	for _, c := range app.Classes() {
		t = append(t, []string{code(c.Provider), c.Kind.Kind + " of " + c.Kind.GroupVersion().String(), code(c.CRD), c.Many, c.Install})
	}
	return "The names that `spec.providers` of a SignalPolicy may use, and what each of them reads.\n\n" + t.String() +
		"\n" + code(signals.Posted) + " reads no reports: it takes [signals that other tools post](../receive.md).\n", nil
}

func rbacPage() (string, error) {
	body, purposes := "What the ServiceAccount of the manager may do, and what for. It sees no Secret but the one of `config/default`, which it fills\n"+
		"itself; with `config/default-certmanager` and from OLM it sees none. The Secret of a\n"+
		"[source](../fleet-attributes.md#the-secret), a [sink](../notify.md) or a [receiver](../receive.md) it sees where a Role of yours lets it.\n", explanations{}
	if err := read(rightsFile, &purposes); err != nil {
		return "", err
	}
	for _, file := range []string{"rbac/role", "rbac/leader_election_role", "rbac/metrics_auth_role", "own-certificate/role", "own-certificate/cluster_role"} {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := read("config/"+file+".yaml", &role); err != nil {
			return "", err
		}
		where := ""
		if strings.HasPrefix(file, "own-certificate/") {
			where = ", of config/default alone"
		}
		t := table{{"API group", "Resource", "Only these", "Verbs", "For what"}}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					verbs := strings.Join(rule.Verbs, ",")
					key := group + "/" + resource + " " + verbs
					if own := role.Name + " " + key; purposes.has(own) { // another role has the same for something else
						key = own
					}
					t = append(t, []string{group, code(resource), strings.Join(rule.ResourceNames, ", "), verbs, purposes.take(key)})
				}
			}
		}
		body += fmt.Sprintf("\n## %s %s%s\n\n%s", role.Kind, role.Name, where, t)
	}
	return body, purposes.problem(rightsFile)
}

func apiPage() (string, error) {
	files, err := filepath.Glob("config/crd/bases/*.yaml")
	body := "What `kubectl explain` says, on one page. `[]` stands for each item of a list.\n"
	for _, file := range files {
		var crd schema
		if err := read(file, &crd); err != nil {
			return "", err
		}
		spec, names := crd.sub("spec"), crd.sub("spec").sub("names")
		version := schema(spec["versions"].([]any)[0].(map[string]any))
		root := version.sub("schema").sub("openAPIV3Schema")
		t := root.fields(table{{"Field", "Type", "Default", "Bounds", "Meaning"}}, "", "spec", "status")
		body += fmt.Sprintf("\n## %s\n\n%s\n\n`%s/%s`, scope %s, %s.\n\n%s", names["kind"], flat(root.text("description")),
			spec["group"], version["name"], spec["scope"], commands(names), t)
	}
	return body, err
}

// commands says how to list a kind.
func commands(names schema) string {
	said := "`kubectl get " + names.text("plural") + "`"
	if short, ok := names["shortNames"].([]any); ok {
		said += fmt.Sprintf(" or `%s`", short[0])
	}
	return said
}

// schema is one of OpenAPI, or what stands around it.
type schema map[string]any

func (s schema) text(key string) string { value, _ := s[key].(string); return value }

func (s schema) sub(key string) schema { value, _ := s[key].(map[string]any); return value }

// fields adds the properties of s, or only some, and theirs.
func (s schema) fields(t table, path string, only ...string) table {
	properties := s.sub("properties")
	if len(only) == 0 {
		only = slices.Sorted(maps.Keys(properties))
	}
	for _, name := range only {
		if _, has := properties[name]; !has {
			continue // a Ledger has no spec
		}
		property, kind := properties.sub(name), properties.sub(name).text("type")
		limits := property.bounds("")
		if required, _ := s["required"].([]any); slices.Contains(required, any(name)) {
			limits = append([]string{"required"}, limits...)
		}
		inner, below := property, path+name+"."
		if kind == "array" {
			inner, below = property.sub("items"), path+name+"[]."
			kind, limits = "array of "+inner.text("type"), append(limits, inner.bounds("each ")...)
		}
		byDefault := ""
		if value, ok := property["default"]; ok {
			byDefault = fmt.Sprint(value)
		}
		t = append(t, []string{code(path + name), kind, code(byDefault), strings.Join(limits, ", "), property.text("description")})
		if name != "conditions" {
			t = inner.fields(t, below)
		}
	}
	return t
}

func (s schema) bounds(prefix string) []string {
	var all []string
	for _, key := range []string{"enum", "format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"} {
		value, ok := s[key]
		if number, isFloat := value.(float64); isFloat {
			value = strconv.FormatFloat(number, 'f', -1, 64)
		}
		if ok && value != "int32" && value != "int64" {
			all = append(all, prefix+key+" "+strings.Trim(fmt.Sprint(value), "[]"))
		}
	}
	if pattern := s.text("pattern"); pattern != "" {
		all = append(all, prefix+"pattern "+code(pattern))
	}
	rules, _ := s["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		all = append(all, schema(rule.(map[string]any)).text("message"))
	}
	return all
}

// conditionGroups are the API groups that have conditions: where those stand, and whether an event announces each.
var conditionGroups = []struct{ name, constants, events string }{
	{"candor.dev", "api/candor/v1alpha1/conditions.go", "hack/docgen/events.yaml"},
	{"fleetmanagement.grafana.com", "api/fleetmanagement/v1alpha1/conditions.go", "hack/docgen/fleetevents.yaml"},
}

func conditionsPage() (string, error) {
	body := "A condition's `reason` is one of the words below; its `message` says it in a sentence.\n"
	for _, group := range conditionGroups {
		tables, err := conditionTables(group.constants, group.events)
		if err != nil {
			return "", err
		}
		body += "\n## " + group.name + "\n" + tables
	}
	return body + "\n## Events\n\nThe reason of an event is that of the condition, and its note is the condition's message. An event is recorded when the\n" +
		"status or the reason of a condition changes. A Finding's first outcome has no event, and neither has a change to or from\nOutOfPolicy.\n\n" +
		"Exceptions: the events of BudgetExhausted, BackendPaused and ReceiverFull have the name of the condition as their reason, the note of\n" +
		"Enriched is the likeliest cause that the model named, and the kinds of fleetmanagement.grafana.com have the events that\n" +
		"are listed with them beside those of their conditions.\n", nil
}

// conditionTables has a table for each group of constants.
func conditionTables(path, eventsFile string) (string, error) {
	all, err := constants(path)
	if err != nil {
		return "", err
	}
	body, group, events := "", "", explanations{}
	if err := read(eventsFile, &events); err != nil {
		return "", err
	}
	var t table
	for i, c := range all {
		if c.group != group {
			title, more, _ := strings.Cut(c.group, ". ")
			body += strings.TrimRight("\n### "+strings.TrimSuffix(title, ".")+"\n\n"+more, "\n") + "\n\n"
			group, t = c.group, table{{"Name", "Meaning", "Event"}}
		}
		key := c.value
		if strings.HasPrefix(c.name, "Condition") {
			key = "condition " + c.value
		}
		event := events.take(key)
		t = append(t, []string{code(c.value), c.meaning, event})
		if i == len(all)-1 || all[i+1].group != group {
			body += t.String()
		}
	}
	return body, events.problem(eventsFile)
}

// constant is one with a doc comment of its own.
type constant struct{ group, name, value, meaning string }

// constants reads the text constants of a file. One that is converted from another, such as string(OutcomeStale), has the
// value that its own name ends in.
func constants(path string) ([]constant, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var all []constant
	for _, declaration := range file.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			s := spec.(*ast.ValueSpec)
			c := constant{name: s.Names[0].Name, group: flat(block.Doc.Text()), meaning: flat(s.Doc.Text())}
			if !block.Lparen.IsValid() {
				c.group, c.meaning = "Other reasons", c.group
			}
			c.value = strings.TrimPrefix(c.name, "Reason")
			if literal, ok := s.Values[0].(*ast.BasicLit); ok {
				c.value = strings.Trim(literal.Value, `"`)
			}
			_, c.meaning, _ = strings.Cut(c.meaning, " ")
			c.meaning = strings.ToUpper(c.meaning[:1]) + c.meaning[1:]
			all = append(all, c)
		}
	}
	return all, nil
}
