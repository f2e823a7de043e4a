// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/render"
)

var update = flag.Bool("update", false, "write the golden files of notifications anew")

// posted is a request as a golden file shows it.
type posted struct {
	Path        string          `json:"path,omitempty"`
	ContentType string          `json:"contentType"`
	Key         string          `json:"key"`
	Events      []string        `json:"events,omitempty"`
	Body        json.RawMessage `json:"body"`
}

func TestWhatIsPostedIsThatOfTheGoldenFiles(t *testing.T) {
	for form, sink := range forms {
		for name, m := range messages(finding) {
			t.Run(form+" "+name, func(t *testing.T) {
				g := NewWithT(t)
				m.Sink = sink.name
				requests, err := render.Requests(sink.sink, m, notify.Options{})
				g.Expect(err).NotTo(HaveOccurred())
				shown := make([]posted, 0, len(requests))
				for _, r := range requests {
					shown = append(shown, posted{r.Path, r.ContentType, r.Key, r.Events, r.Body})
				}
				var text strings.Builder
				encoder := json.NewEncoder(&text)
				encoder.SetIndent("", "  ")
				encoder.SetEscapeHTML(false)
				g.Expect(encoder.Encode(shown)).To(Succeed())

				file := filepath.Join("testdata", form, name+".json")
				if *update {
					g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
					g.Expect(os.WriteFile(file, []byte(text.String()), 0o644)).To(Succeed())
				}
				golden, err := os.ReadFile(file)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(text.String()).To(Equal(string(golden)), "go test ./internal/signals/notify/render -update writes it anew")
			})
		}
	}
}

func TestEveryEventIsInOneRequestAndEachRequestIsBounded(t *testing.T) {
	for form, sink := range forms {
		t.Run(form, func(t *testing.T) {
			g := NewWithT(t)
			m := many(470)
			m.Sink = sink.name
			requests, err := render.Requests(sink.sink, m, notify.Options{})
			g.Expect(err).NotTo(HaveOccurred())
			var events []string
			keys := map[string]bool{}
			for _, r := range requests {
				events = append(events, r.Events...)
				keys[r.Key] = true
				g.Expect(len(r.Body)).To(BeNumerically("<", 256<<10))
			}
			g.Expect(events).To(Equal(notify.Keys(m.Events)), "in order")
			g.Expect(keys).To(HaveLen(len(requests)), "requests that differ have keys that do")
			repeated, err := render.Requests(sink.sink, m, notify.Options{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(repeated).To(Equal(requests), "the same is sent with the same keys")
		})
	}
}

func TestAMessageThatDoesNotHoldWhatItSaysIsAnError(t *testing.T) {
	for form, sink := range forms {
		for _, kind := range []notify.Kind{notify.KindDigest, notify.KindSummary, notify.KindBudget, "Song", ""} {
			if form == "alertmanager" && (kind == notify.KindDigest || kind == notify.KindSummary) {
				continue // It posts the open Findings, and there are none.
			}
			_, err := render.Requests(sink.sink, notify.Message{Kind: kind, Sink: sink.name}, notify.Options{})
			NewWithT(t).Expect(err).To(HaveOccurred(), "%s %s", form, kind)
		}
	}
	_, err := render.Requests("Pigeon", notify.Message{}, notify.Options{})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`"Pigeon"`)))
}

func TestNothingThatAModelWroteLeaves(t *testing.T) {
	for form, sink := range forms {
		for name, m := range messages(finding) {
			m.Sink = sink.name
			requests, err := render.Requests(sink.sink, m, notify.Options{})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			for _, r := range requests {
				NewWithT(t).Expect(string(r.Body)).NotTo(ContainSubstring("WRITTEN-BY-A-MODEL"), "%s %s", form, name)
			}
		}
	}
}
