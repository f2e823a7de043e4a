// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/json"
)

func decode(text string, fields Fields) (any, error) {
	return fields.Decode(NewDecoder(strings.NewReader(text)))
}

func TestOnlyTheFieldsThatAreAskedForAreKept(t *testing.T) {
	const report = `{"kind":"Report","report":{"summary":{"high":2},"artifact":{"tag":"1","digest":"d"},
		"items":[{"id":"a","title":"x"},"text",null,[{"id":"b","title":"y"}]]}}`
	for name, test := range map[string]struct {
		paths []string
		want  string
	}{
		"a field":                           {[]string{"kind"}, `{"kind":"Report"}`},
		"everything below a field":          {[]string{"report.artifact"}, `{"report":{"artifact":{"tag":"1","digest":"d"}}}`},
		"fields of the items of a list":     {[]string{"report.items.id"}, `{"report":{"items":[{"id":"a"},"text",null,[{"id":"b"}]]}}`},
		"a field deeper than there is any":  {[]string{"kind.name"}, `{"kind":"Report"}`},
		"a field that is not there":         {[]string{"nothing", "report.nothing"}, `{"report":{}}`},
		"a shorter path after a longer one": {[]string{"report.artifact.tag", "report.artifact"}, `{"report":{"artifact":{"tag":"1","digest":"d"}}}`},
		"a longer path after a shorter one": {[]string{"report.artifact", "report.artifact.tag"}, `{"report":{"artifact":{"tag":"1","digest":"d"}}}`},
		"everything":                        {nil, report},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var want any
			g.Expect(json.Unmarshal([]byte(test.want), &want)).To(Succeed())
			g.Expect(decode(report, Of(test.paths...))).To(Equal(want))
		})
	}
}

func TestScalarsHaveTheTypesOfUnstructuredObjects(t *testing.T) {
	g := NewWithT(t)
	g.Expect(decode(`[1,-2,1.5,1e3,9223372036854775808,true,false,null,"é\n"]`, nil)).To(Equal(
		[]any{int64(1), int64(-2), 1.5, 1000.0, 9223372036854775808.0, true, false, nil, "é\n"}))
}

func TestWhatIsNoJSONIsAnError(t *testing.T) {
	for _, text := range []string{``, `{`, `{"a":`, `{"a" 1}`, `[1`, `{"a":tru}`, `nul`} {
		_, err := decode(text, Of("a"))
		NewWithT(t).Expect(err).To(HaveOccurred(), text)
	}
	g := NewWithT(t)
	g.Expect(Each(NewDecoder(strings.NewReader(`[]`)), nil)).To(MatchError(ContainSubstring("[ instead of {")))
	g.Expect(EachItem(NewDecoder(strings.NewReader(`{}`)), nil)).To(MatchError(ContainSubstring("{ instead of [")))
}

// FuzzEverythingKeptIsWhatKubernetesDecodes compares with the decoder of Kubernetes where both accept the text.
func FuzzEverythingKeptIsWhatKubernetesDecodes(f *testing.F) {
	f.Add(`{"a":[1,2.5,{"b":null}],"c":"\u00e9"}`)
	f.Add(`[[],{},"",0,-0,1e400]`)
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		if json.Unmarshal([]byte(text), &want) != nil || strings.Contains(text, "\ufffd") {
			t.Skip()
		}
		got, err := decode(text, nil)
		if err != nil {
			t.Skip()
		}
		NewWithT(t).Expect(got).To(Equal(want))
	})
}
