// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestASelectorMeansNamedCollectorsAndThoseThatAllMatchersMatch(t *testing.T) {
	for name, test := range map[string]struct {
		matchers, ids []string
		id            string
		attributes    map[string]string
		want          bool
	}{
		"all matchers hold":                         {[]string{"env=prod", "team!=b"}, nil, "x", map[string]string{"env": "prod"}, true},
		"one matcher does not hold":                 {[]string{"env=prod", "team!=b"}, nil, "x", map[string]string{"env": "prod", "team": "b"}, false},
		"named, whatever its attributes":            {[]string{"env=prod"}, []string{"x"}, "x", nil, true},
		"not named, no matchers":                    {nil, []string{"x"}, "y", map[string]string{"env": "prod"}, false},
		"not named, and matchers hold":              {[]string{"env=prod"}, []string{"x"}, "y", map[string]string{"env": "prod"}, true},
		"an empty selector means none":              {nil, nil, "x", nil, false},
		"the ID is an attribute":                    {[]string{"collector.ID=~edge-.*"}, nil, "edge-1", nil, true},
		"the ID in lower case":                      {[]string{"collector.id=edge-1"}, nil, "edge-1", nil, true},
		"an attribute cannot pose as the ID":        {[]string{"collector.ID=edge-1"}, nil, "x", map[string]string{"collector.ID": "edge-1"}, false},
		"other attributes of the service are asked": {[]string{"collector.os=linux"}, nil, "x", map[string]string{"collector.os": "linux"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := Compile(test.matchers, test.ids)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Matches(test.id, func(key string) string { return test.attributes[key] })).To(Equal(test.want))
		})
	}
}

func TestCompileNamesEachItemThatIsWrong(t *testing.T) {
	_, err := Compile([]string{"a=b", "a=="}, []string{"x", " "})
	NewWithT(t).Expect(err).To(MatchError(`matchers[1] "a==": there is no operator ==: write a=""` + "\n" + `collectorIDs[1]: an ID must not be blank`))
}

func TestKeysAreThoseThatWakeAPolicyAT19(t *testing.T) {
	for name, test := range map[string]struct {
		matchers, ids []string
		keys          []string
		wildcard      bool
	}{
		"a matcher that needs its attribute":             {[]string{"b=x", "a=~.+", "b!=y"}, nil, []string{"a", "b"}, false},
		"a negation beside one that needs an attribute":  {[]string{"a=x", "b!=y"}, nil, []string{"a"}, false},
		"a negation alone":                               {[]string{"b!=y"}, nil, nil, true},
		"a negation that needs an attribute":             {[]string{`b!=""`}, nil, []string{"b"}, false},
		"an expression that an absent attribute matches": {[]string{"a=~.*"}, nil, nil, true},
		"an empty value":                                 {[]string{`a=""`}, nil, nil, true},
		"IDs alone":                                      {nil, []string{"x"}, nil, true},
		"IDs beside matchers":                            {[]string{"a=x"}, []string{"x"}, []string{"a"}, true},
		"the ID, which every collector has":              {[]string{"collector.id=x"}, nil, nil, true},
		"the ID beside an attribute":                     {[]string{"collector.id=x", "a=x"}, nil, []string{"a"}, false},
		"nothing":                                        {nil, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := Compile(test.matchers, test.ids)
			g.Expect(err).NotTo(HaveOccurred())
			keys, wildcard := s.Keys()
			g.Expect(keys).To(Equal(test.keys))
			g.Expect(wildcard).To(Equal(test.wildcard))
			// What Keys promises: without wildcard, a collector that has none of them is not meant.
			bare := s.Matches("x", func(string) string { return "" })
			g.Expect(bare && !wildcard).To(BeFalse())
		})
	}
}
