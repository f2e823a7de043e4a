// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/llm"
)

func someModel(change ...func(*Model)) *Model {
	m := &Model{Provider: candorv1alpha1.ModelAnthropic, Address: "https://models.example.com", Settings: llm.Settings{Model: "small"}}
	for _, c := range change {
		c(m)
	}
	return m
}

func failed(class llm.Class, after time.Duration) *llm.Error {
	return &llm.Error{Class: class, After: after, Err: errors.New("it broke")}
}

// waitsAfter returns how long a model is left alone after each of as many failures in a row, each right after the wait before.
func waitsAfter(p *Pause, failure *llm.Error, times int) []time.Duration {
	var all []time.Duration
	now := noon
	for range times {
		p.Heard(identify(someModel(), "key"), failure, now)
		until, _ := p.Until(identify(someModel(), "key"), now)
		if until.IsZero() {
			all = append(all, 0)
			continue
		}
		all, now = append(all, until.Sub(now)), until
	}
	return all
}

func TestAModelIsLeftAloneAfterAFailure(t *testing.T) {
	const second, minute = time.Second, time.Minute
	for name, test := range map[string]struct {
		class llm.Class
		after time.Duration
		want  []time.Duration
	}{
		"longer and longer while it limits the rate":              {llm.RateLimited, 0, []time.Duration{20 * second, 40 * second, 80 * second, 160 * second, 320 * second, 10 * minute, 10 * minute}},
		"for as long as it asks, if that is longer":               {llm.RateLimited, 15 * minute, []time.Duration{15 * minute, 15 * minute}},
		"longer than it asks, if it keeps failing":                {llm.RateLimited, 30 * second, []time.Duration{30 * second, 40 * second, 80 * second}},
		"longer and longer while it is unavailable":               {llm.Unavailable, 0, []time.Duration{15 * second, 30 * second, time.Minute, 2 * minute, 4 * minute, 8 * minute, 10 * minute}},
		"longer and longer while it cannot be reached":            {llm.Unreachable, 0, []time.Duration{15 * second, 30 * second}},
		"for minutes while it refuses the key":                    {llm.AuthFailed, 0, []time.Duration{minute, 2 * minute, 4 * minute, 8 * minute, 16 * minute, 30 * minute, 30 * minute}},
		"for minutes while it does not know the model":            {llm.ModelNotFound, 0, []time.Duration{minute, 2 * minute}},
		"for an hour while the account has nothing left":          {llm.QuotaExhausted, 0, []time.Duration{time.Hour, time.Hour}},
		"not at all for a refusal":                                {llm.Refused, 0, []time.Duration{0, 0}},
		"not at all for an answer that is cut":                    {llm.Truncated, 0, []time.Duration{0}},
		"not at all for an answer that cannot be read":            {llm.InvalidOutput, 0, []time.Duration{0}},
		"not at all for a request that it does not take":          {llm.ConfigInvalid, 0, []time.Duration{0}},
		"not at all for an answer that is too large":              {llm.TooLarge, 0, []time.Duration{0}},
		"not at all for an answer that does not come in time":     {llm.Timeout, 0, []time.Duration{0}},
		"no longer than the longest wait, however often it fails": {llm.Unavailable, 0, append([]time.Duration{15 * second, 30 * second, time.Minute, 2 * minute, 4 * minute, 8 * minute}, repeat(10*minute, 60)...)},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := NewWithT(t), &Pause{}
			p.Until(identify(someModel(), "key"), noon)
			g.Expect(waitsAfter(p, failed(test.class, test.after), len(test.want))).To(Equal(test.want))
		})
	}
}

func TestAPauseEndsAtOnce(t *testing.T) {
	for name, change := range map[string]func(*Model, *string){
		"when the key changes":      func(_ *Model, key *string) { *key = "another" },
		"when the key is gone":      func(_ *Model, key *string) { *key = "" },
		"when the model changes":    func(m *Model, _ *string) { m.Settings.Model = "large" },
		"when the address changes":  func(m *Model, _ *string) { m.Address = "https://other.example.com" },
		"when the protocol changes": func(m *Model, _ *string) { m.Provider = candorv1alpha1.ModelOpenAI },
	} {
		t.Run(name, func(t *testing.T) {
			g, p := NewWithT(t), &Pause{}
			model, key := someModel(), "key"
			p.Until(identify(model, key), noon)
			p.Heard(identify(someModel(), "key"), failed(llm.AuthFailed, 0), noon)
			until, probe := p.Until(identify(model, key), noon)
			g.Expect(until).To(Equal(noon.Add(time.Minute)))
			g.Expect(probe).To(BeTrue())
			change(model, &key)
			until, probe = p.Until(identify(model, key), noon)
			g.Expect(until).To(BeZero())
			g.Expect(probe).To(BeFalse())
			if last := p.Last(); last != nil {
				t.Errorf("it is still about %v", last)
			}
		})
	}
}

func TestOneCallTriesWhetherAPauseIsOver(t *testing.T) {
	for name, test := range map[string]struct {
		heard *llm.Error
		probe bool
		until time.Time
	}{
		"a success lets every call run":                        {nil, false, time.Time{}},
		"a refusal of one call lets every call run":            {failed(llm.Refused, 0), false, time.Time{}},
		"no answer in time says nothing about the server":      {failed(llm.Timeout, 0), true, time.Time{}},
		"another failure begins a pause that is twice as long": {failed(llm.Unavailable, 0), true, noon.Add(45 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := NewWithT(t), &Pause{}
			p.Until(identify(someModel(), "key"), noon)
			p.Heard(identify(someModel(), "key"), failed(llm.Unavailable, 0), noon)
			over := noon.Add(15 * time.Second)
			until, probe := p.Until(identify(someModel(), "key"), over)
			g.Expect(until).To(BeZero())
			g.Expect(probe).To(BeTrue(), "one call at first")
			p.Heard(identify(someModel(), "key"), test.heard, over)
			until, probe = p.Until(identify(someModel(), "key"), over)
			g.Expect(until).To(Equal(test.until))
			g.Expect(probe).To(Equal(test.probe))
		})
	}
}

func TestCallsThatRanAtOnceAndFailedTogetherAreOneFailure(t *testing.T) {
	g, p := NewWithT(t), &Pause{}
	p.Until(identify(someModel(), "key"), noon)
	for range 5 {
		p.Heard(identify(someModel(), "key"), failed(llm.Unavailable, 0), noon)
	}
	until, _ := p.Until(identify(someModel(), "key"), noon)
	g.Expect(until).To(Equal(noon.Add(15 * time.Second)))
	p.Heard(identify(someModel(), "key"), failed(llm.RateLimited, time.Second), noon.Add(time.Second))
	until, _ = p.Until(identify(someModel(), "key"), noon)
	g.Expect(until).To(Equal(noon.Add(21*time.Second)), "the longer wait counts")
	p.Heard(identify(someModel(), "key"), failed(llm.Unavailable, 0), noon.Add(2*time.Second))
	until, _ = p.Until(identify(someModel(), "key"), noon)
	g.Expect(until).To(Equal(noon.Add(21*time.Second)), "a later failure shortens nothing")
}

func TestWhatConcernsAnotherModelOrEndsBeforeThePauseDoesNotTouchIt(t *testing.T) {
	g, p := NewWithT(t), &Pause{}
	p.Until(identify(someModel(), "key"), noon)
	p.Heard(identify(someModel(), "former"), failed(llm.AuthFailed, 0), noon)
	until, _ := p.Until(identify(someModel(), "key"), noon)
	g.Expect(until).To(BeZero(), "the former key was refused")
	p.Heard(identify(someModel(), "key"), failed(llm.Unavailable, 0), noon)
	p.Heard(identify(someModel(), "key"), nil, noon.Add(time.Second))
	until, _ = p.Until(identify(someModel(), "key"), noon.Add(time.Second))
	g.Expect(until).To(Equal(noon.Add(15*time.Second)), "a call that was begun before succeeded")
}
