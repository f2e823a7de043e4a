// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attributes decides which remote attributes a collector is to have, who asks for each, and which operations lead there
// from what Fleet Management holds.
package attributes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// ReservedPrefix starts the keys that Fleet Management sets by itself. Nobody can ask for one.
const ReservedPrefix = "collector."

// Layer is what one object asks for.
type Layer struct {
	Kind fleetmanagementv1alpha1.OwnerKind
	// Name is the namespace and name of the object, with a slash between them.
	Name string
	// Priority decides between objects of one kind: the higher one wins, and of equal ones that whose Name comes first.
	Priority   int32
	Attributes map[string]string
}

// precedence is the order in which kinds win.
var precedence = []fleetmanagementv1alpha1.OwnerKind{
	fleetmanagementv1alpha1.OwnerExternalAttributeSync,
	fleetmanagementv1alpha1.OwnerCollector,
	fleetmanagementv1alpha1.OwnerRemoteAttributePolicy,
}

// Limits bound what can be asked for.
type Limits struct {
	// Key and Value bound the characters of a key and of a value.
	Key, Value int
	// Total bounds the attributes of a collector, and Others is how many of them nobody here asks for.
	Total, Others int
	// Also returns why somebody else does not allow an attribute, empty if they do; nil allows all.
	Also func(key, value string) string
}

// DefaultLimits are those that Grafana documents.
func DefaultLimits() Limits { return Limits{Key: 100, Value: 150, Total: 100} }

// WithValue returns limits whose values have at most so many characters; 0 leaves them as they are.
func (l Limits) WithValue(characters int) Limits {
	l.Value = cmp.Or(characters, l.Value)
	return l
}

// Beside counts the attributes that a collector has and that stay there besides what the layers ask for: those that others set, and
// those of owned that are restored when they are let go.
func (l Limits) Beside(live map[string]string, owned []fleetmanagementv1alpha1.AttributeOwner, layers []Layer,
	release fleetmanagementv1alpha1.ReleasePolicy,
) Limits {
	goes := make(map[string]bool, len(owned))
	for _, o := range owned {
		restored := o.PreviousValue != nil && release != fleetmanagementv1alpha1.ReleaseRemove
		goes[o.Key] = live[o.Key] == o.Value && !restored
	}
	for key := range live {
		asked := func(layer Layer) bool { _, asks := layer.Attributes[key]; return asks }
		if !goes[key] && !slices.ContainsFunc(layers, asked) {
			l.Others++
		}
	}
	return l
}

// Check returns why an attribute cannot be given whatever the others are, empty if it can.
func (l Limits) Check(key, value string) string {
	switch {
	case key == "":
		return "a key must not be empty"
	case strings.HasPrefix(key, ReservedPrefix):
		return "keys that start with " + ReservedPrefix + " are reserved"
	case !utf8.ValidString(key) || !utf8.ValidString(value):
		return "keys and values must be valid UTF-8"
	case utf8.RuneCountInString(key) > l.Key:
		return fmt.Sprintf("a key has at most %d characters, and this one has %d", l.Key, utf8.RuneCountInString(key))
	case utf8.RuneCountInString(value) > l.Value:
		return fmt.Sprintf("a value has at most %d characters, and this one has %d", l.Value, utf8.RuneCountInString(value))
	case l.Also != nil:
		return l.Also(key, value)
	default:
		return ""
	}
}

// Merged is what all layers come to.
type Merged struct {
	// Attributes has one claim per key, the one that wins.
	Attributes map[string]Claim
	// Refused are the claims that cannot be given, in order of precedence and key. The next claim for the same key wins instead.
	Refused []Refusal
	// Ties are the keys for which the winner's equals in kind and priority ask for another value, by key.
	Ties []Tie
}

// Claim is what an object asks for.
type Claim struct {
	Kind  fleetmanagementv1alpha1.OwnerKind
	Name  string
	Value string
}

// Refusal is a claim that cannot be given.
type Refusal struct {
	Key    string
	Kind   fleetmanagementv1alpha1.OwnerKind
	Name   string
	Reason string
}

// Tie is a key for which objects of equal standing ask for different values.
type Tie struct {
	Key  string
	Kind fleetmanagementv1alpha1.OwnerKind
	// Winner is the name of the object whose value is taken, Others those of the objects that ask for another one, in order.
	Winner string
	Others []string
}

// Desired returns the value of each key.
func (m Merged) Desired() map[string]string {
	desired := make(map[string]string, len(m.Attributes))
	for key, claim := range m.Attributes {
		desired[key] = claim.Value
	}
	return desired
}

// Merge lets the first layer that asks for a key have it: ExternalAttributeSync before Collector before RemoteAttributePolicy, then
// as Layer says. The order of layers does not matter. Each claim is checked by itself, so that one that is over a limit costs
// nobody else anything.
func Merge(layers []Layer, limits Limits) Merged {
	layers = slices.SortedStableFunc(slices.Values(layers), before)
	merged := Merged{Attributes: map[string]Claim{}}
	winners, ties := map[string]Layer{}, map[string]*Tie{}
	for _, layer := range layers {
		for _, key := range sortedKeys(layer.Attributes) {
			value := layer.Attributes[key]
			winner, taken := winners[key]
			reason := limits.Check(key, value)
			if reason == "" && !taken && len(merged.Attributes)+limits.Others >= limits.Total {
				reason = fmt.Sprintf("a collector has at most %d attributes, and this one has %d that others set", limits.Total, limits.Others)
			}
			switch {
			case reason != "":
				merged.Refused = append(merged.Refused, Refusal{key, layer.Kind, layer.Name, reason})
			case !taken:
				winners[key], merged.Attributes[key] = layer, Claim{layer.Kind, layer.Name, value}
			case winner.Kind == layer.Kind && winner.Priority == layer.Priority && winner.Attributes[key] != value:
				if ties[key] == nil {
					ties[key] = &Tie{Key: key, Kind: layer.Kind, Winner: winner.Name}
				}
				ties[key].Others = append(ties[key].Others, layer.Name)
			}
		}
	}
	for _, key := range sortedKeys(ties) {
		merged.Ties = append(merged.Ties, *ties[key])
	}
	return merged
}

func before(a, b Layer) int {
	return cmp.Or(
		cmp.Compare(slices.Index(precedence, a.Kind), slices.Index(precedence, b.Kind)),
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(a.Name, b.Name))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
