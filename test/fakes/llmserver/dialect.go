// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

const invalidRequest = "invalid_request_error"

type object = map[string]any

// refusal is an answer that is an error of the API.
type refusal struct {
	status  int
	kind    string
	code    string
	param   string
	message string
}

// stop is why a model stopped.
type stop int

const (
	stopDone stop = iota
	stopLength
	stopRefused
)

// reply is what a model said.
type reply struct {
	text          string
	stop          stop
	input, output int64
}

// dialect is what differs between the two APIs.
type dialect interface {
	protocol() Protocol
	requestIDHeader() string
	authorize(r *http.Request, key string) *refusal
	check(header http.Header, request object) *refusal
	unknownModel(model string) *refusal
	prompt(request object) (system, user string)
	limit(request object) int64
	answer(call *Call, said reply) object
	fail(w http.ResponseWriter, refused *refusal, requestID string)
}

func dialectOf(path string) dialect {
	switch path {
	case "/v1/messages":
		return messages{}
	case "/v1/chat/completions":
		return completions{}
	default:
		return nil
	}
}

func contains(list []string, word string) bool { return slices.Contains(list, word) }

// unknownField returns the first key that is none of known, in order of the alphabet; empty when there is none.
func unknownField(fields object, known ...string) string {
	unknown := ""
	for name := range fields {
		if !slices.Contains(known, name) && (unknown == "" || name < unknown) {
			unknown = name
		}
	}
	return unknown
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // the value is made of strings, numbers and maps of them
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(unpark(body))
}

// parking holds, while text is encoded, bytes that are no UTF-8: encoding/json would replace them.
const parking = 0xE000

func park(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var parked strings.Builder
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			r = parking + rune(text[i])
		}
		parked.WriteRune(r)
	}
	return parked.String()
}

func unpark(body []byte) []byte {
	if bytes.IndexByte(body, string(rune(parking))[0]) < 0 {
		return body
	}
	for b := rune(0x80); b <= 0xFF; b++ {
		body = bytes.ReplaceAll(body, []byte(string(parking+b)), []byte{byte(b)})
	}
	return body
}

func bearer(r *http.Request) string {
	key, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return ""
	}
	return key
}

// texts joins the text of a content, which is a string or a list of text blocks; ok is false when it is neither or empty.
func texts(content any) (joined string, ok bool) {
	switch content := content.(type) {
	case string:
		return content, content != ""
	case []any:
		var all []string
		for _, block := range content {
			fields, _ := block.(object)
			text, _ := fields["text"].(string)
			if fields["type"] != "text" || text == "" {
				return "", false
			}
			all = append(all, text)
		}
		return strings.Join(all, "\n"), len(all) > 0
	default:
		return "", false
	}
}

func positive(number any) int64 {
	value, ok := number.(float64)
	if !ok || value < 1 || value != float64(int64(value)) {
		return 0
	}
	return int64(value)
}
