// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestOfFindsTheFaultInAnError(t *testing.T) {
	wait := &Fault{Kind: Wait, Reason: "RateLimited", After: time.Minute, Err: io.ErrUnexpectedEOF}
	for name, test := range map[string]struct {
		err  error
		want *Fault
	}{
		"a fault is itself":                            {wait, wait},
		"a fault that is wrapped keeps what to do":     {fmt.Errorf("asking: %w", wait), wait},
		"a fault among others keeps what to do":        {errors.Join(io.EOF, wait), wait},
		"any other error is tried again, for a reason": {io.EOF, &Fault{Kind: Retry, Reason: "Failed", Err: io.EOF}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Of(test.err, "Failed")).To(Equal(test.want)) })
	}
}

func TestAFaultSpeaksAsItsCause(t *testing.T) {
	g := NewWithT(t)
	f := &Fault{Kind: Terminal, Reason: "Invalid", Err: fmt.Errorf("reading the answer: %w", io.EOF)}
	g.Expect(f).To(MatchError("reading the answer: EOF"))
	g.Expect(f).To(MatchError(io.EOF))
}

func TestOnlyWhatIsGoneIsIgnored(t *testing.T) {
	gone := &Fault{Kind: NotFound, Reason: "NotFound", Err: io.EOF}
	terminal := &Fault{Kind: Terminal, Reason: "Invalid", Err: io.EOF}
	for name, test := range map[string]struct{ err, want error }{
		"no error":              {nil, nil},
		"gone":                  {gone, nil},
		"gone, wrapped":         {fmt.Errorf("deleting: %w", gone), nil},
		"a fault that stays":    {terminal, terminal},
		"an error that is none": {io.EOF, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want == nil {
				NewWithT(t).Expect(IgnoreNotFound(test.err)).To(Succeed())
				return
			}
			NewWithT(t).Expect(IgnoreNotFound(test.err)).To(BeIdenticalTo(test.want))
		})
	}
}

func TestTheZeroFaultIsTriedAgain(t *testing.T) {
	NewWithT(t).Expect(Fault{}.Kind).To(Equal(Retry))
}

func TestTheWordsOfOthersAreOneShortLine(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"what fits stays":                 {"busy, try later", "busy, try later"},
		"lines become one":                {"a\r\n\t b\x00\x1b[31mc\u2028d", "a b [31mc d"},
		"what is no text is marked":       {"a\xffb", "a?b"},
		"what is long ends in a mark":     {"0123456789abcdefghij", "0123456789abc…"},
		"no character is cut into halves": {"0123456789abüüüüüüüüüü", "0123456789ab…"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(OneLine(test.text, 16)).To(Equal(test.want)) })
	}
}
