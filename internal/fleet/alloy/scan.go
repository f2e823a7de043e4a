// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package alloy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/grafana/alloy/syntax/scanner"
	"github.com/grafana/alloy/syntax/token"

	"github.com/candor-dev/candor/internal/fleet/lint"
)

// The parser calls itself for each level of these, and a stack that overflows ends the process.
const (
	maxNesting   = 200
	maxOperators = 1000
)

// scanned is what the tokens of a text tell, before it is parsed.
type scanned struct {
	empty   bool
	illegal []lint.Problem
	// refusal is why the text must not be parsed; nil where it may.
	refusal *lint.Problem
}

func scan(src []byte) scanned {
	file := token.NewFile("")
	result := scanned{empty: true}
	s := scanner.New(file, src, func(pos token.Pos, message string) {
		// One error a line is enough; the next ones mostly follow from it.
		at := file.PositionFor(pos)
		if n := len(result.illegal); n == 0 || n < lint.MaxProblems && result.illegal[n-1].Line != at.Line {
			result.illegal = append(result.illegal, problemAt(lint.Error, at, message))
		}
	}, 0)
	nesting, operators := 0, 0
	for {
		pos, tok, _ := s.Scan()
		switch tok {
		case token.EOF:
			return result
		case token.LCURLY, token.LPAREN, token.LBRACK:
			nesting++
		case token.RCURLY, token.RPAREN, token.RBRACK:
			nesting--
		case token.TERMINATOR, token.COMMA:
			operators = 0
		case token.IDENT, token.STRING, token.NUMBER, token.FLOAT, token.BOOL, token.NULL, token.ASSIGN:
		default:
			operators++
		}
		result.empty = result.empty && tok == token.TERMINATOR
		if nesting > maxNesting || operators > maxOperators {
			refusal := problemAt(lint.Error, file.PositionFor(pos),
				fmt.Sprintf("is nested too deeply: at most %d brackets may be open, and a value may have at most %d operators", maxNesting, maxOperators))
			result.refusal = &refusal
			return result
		}
		if s.NumErrors() > 0 && len(result.illegal) == lint.MaxProblems {
			return result
		}
	}
}

// withoutStrings returns the text with the same lines and without what stands in values and comments, which may be secret. Labels
// of blocks stay.
func withoutStrings(src []byte) string {
	var b strings.Builder
	s := scanner.New(token.NewFile(""), src, nil, scanner.IncludeComments)
	end, before := 0, token.EOF
	for {
		pos, tok, lit := s.Scan()
		start := pos.Offset()
		switch {
		case tok == token.EOF:
			b.Write(src[end:])
			return b.String()
		case tok == token.COMMENT:
			b.Write(src[end:start])
			end = commentEnd(src, start)
			b.WriteString("//…" + strings.Repeat("\n", bytes.Count(src[start:end], []byte("\n"))))
		case tok == token.STRING && before != token.IDENT, tok == token.ILLEGAL && strings.HasPrefix(lit, "'"):
			b.Write(src[end:start])
			end = start + len(lit)
			b.WriteString(lit[:1] + "…" + strings.Repeat("\n", strings.Count(lit, "\n")) + lit[:1])
		}
		before = tok
	}
}

// commentEnd returns where a comment ends, which its token does not tell, since it lacks carriage returns.
func commentEnd(src []byte, start int) int {
	closing, after := "\n", 0
	if bytes.HasPrefix(src[start:], []byte("/*")) {
		closing, after = "*/", len("*/")
	}
	length := bytes.Index(src[start:], []byte(closing))
	if length < 0 {
		return len(src)
	}
	return start + length + after
}
