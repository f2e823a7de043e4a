// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlcheck

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

type kind int

const (
	// none is what stands after the last token.
	none kind = iota
	// word is a keyword or a name, in lower case.
	word
	// quoted is what stands in double quotes or backticks, in lower case: a name, or a text by some settings of MySQL.
	quoted
	// literal is a text.
	literal
	// symbol is any other character, or a number.
	symbol
)

type token struct {
	kind kind
	text string
}

func (t token) is(character string) bool { return t.kind == symbol && t.text == character }

func (t token) oneOf(words ...string) bool { return t.kind == word && slices.Contains(words, t.text) }

// at returns the token at an index, or none behind the last.
func at(tokens []token, i int) token {
	if i < len(tokens) {
		return tokens[i]
	}
	return token{}
}

// rules are where the databases differ in what they take for comments and quotes.
type rules struct {
	backticks, hashComments, dollarQuotes, nestedComments bool
	// dashes tells that -- begins a comment, by what follows.
	dashes func(rest string) bool
	// lineEnds end a comment.
	lineEnds string
}

var (
	postgresRules = rules{dollarQuotes: true, nestedComments: true, lineEnds: "\r\n", dashes: func(string) bool { return true }}
	mysqlRules    = rules{backticks: true, hashComments: true, lineEnds: "\n", dashes: func(rest string) bool {
		return rest == "" || rest[0] <= ' '
	}}
)

var (
	number    = regexp.MustCompile(`^(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`)
	name      = regexp.MustCompile(`^[A-Za-z_\x{80}-\x{10ffff}][0-9A-Za-z_$\x{80}-\x{10ffff}]*`)
	dollarTag = regexp.MustCompile(`^\$(?:[A-Za-z_\x{80}-\x{10ffff}][0-9A-Za-z_\x{80}-\x{10ffff}]*)?\$`)
)

// scan cuts a query into tokens, without comments.
func scan(query string, rules rules) (tokens []token, err error) {
	for query != "" {
		var t token
		var length int
		rest, comment, err := rules.comment(query)
		switch {
		case err != nil:
			return nil, err
		case comment:
			query = rest
			continue
		case strings.ContainsRune(" \t\r\n", rune(query[0])):
			length = 1
		case query[0] == '\'' || query[0] == '"' || rules.backticks && query[0] == '`':
			t, length, err = readQuoted(query)
		case rules.dollarQuotes && dollarTag.MatchString(query):
			t, length, err = readDollarQuoted(query)
		case len(query) > 2 && strings.EqualFold(query[:3], `u&"`):
			return nil, errors.New(`must not write names as U&"…": write the letters themselves`)
		default:
			t, length = readPlain(query)
		}
		if err != nil {
			return nil, err
		}
		if t.kind != none {
			tokens = append(tokens, t)
		}
		query = query[length:]
	}
	return tokens, nil
}

// comment returns what stands after a comment at the beginning of a query.
func (r rules) comment(query string) (rest string, found bool, err error) {
	switch {
	case strings.HasPrefix(query, "/*"):
		rest, err = r.block(query)
		return rest, true, err
	case r.hashComments && query[0] == '#', strings.HasPrefix(query, "--") && r.dashes(query[2:]):
		end := strings.IndexAny(query, r.lineEnds)
		if end < 0 {
			end = len(query)
		}
		return query[end:], true, nil
	default:
		return query, false, nil
	}
}

func (r rules) block(query string) (rest string, err error) {
	if opened := strings.ToUpper(query[2:min(len(query), 4)]); strings.HasPrefix(opened, "!") || strings.HasPrefix(opened, "+") || opened == "M!" {
		return "", errors.New("must not have comments that a database obeys, such as /*! */ and /*+ */")
	}
	depth := 0
	for i := 0; i+1 < len(query); {
		switch query[i : i+2] {
		case "/*":
			if depth == 0 || r.nestedComments {
				depth++
			}
			i += 2
		case "*/":
			if depth--; depth == 0 {
				return query[i+2:], nil
			}
			i += 2
		default:
			i++
		}
	}
	return "", errors.New("has a comment without an end")
}

// readQuoted reads what stands in quotes, in which two of them stand for one. Databases do not agree, and by their settings not even
// with themselves, whether a backslash before a quote takes it away.
func readQuoted(query string) (token, int, error) {
	quote := query[0]
	backslashes := 0
	for i := 1; i < len(query); i++ {
		switch query[i] {
		case '\\':
			backslashes++
			continue
		case quote:
			if quote != '`' && backslashes%2 == 1 {
				return token{}, 0, errors.New("has a backslash before a quote, which databases read differently: write the quote twice, without the backslash")
			}
			if i+1 < len(query) && query[i+1] == quote {
				i++
				break
			}
			inner := strings.ReplaceAll(query[1:i], string([]byte{quote, quote}), string(quote))
			if quote == '\'' {
				return token{kind: literal, text: inner}, i + 1, nil
			}
			return token{kind: quoted, text: strings.ToLower(inner)}, i + 1, nil
		}
		backslashes = 0
	}
	return token{}, 0, errors.New("has a quote without an end")
}

func readDollarQuoted(query string) (token, int, error) {
	tag := dollarTag.FindString(query)
	end := strings.Index(query[len(tag):], tag)
	if end < 0 {
		return token{}, 0, errors.New("has a quote without an end")
	}
	return token{kind: literal, text: query[len(tag) : len(tag)+end]}, end + 2*len(tag), nil
}

func readPlain(query string) (token, int) {
	if found := name.FindString(query); found != "" {
		return token{kind: word, text: strings.ToLower(found)}, len(found)
	}
	if found := number.FindString(query); found != "" {
		return token{kind: symbol, text: found}, len(found)
	}
	return token{kind: symbol, text: query[:1]}, 1
}
