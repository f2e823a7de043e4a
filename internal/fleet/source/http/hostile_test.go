// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fleet/source"
)

func TestAPartOfAnAnswerIsNone(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"a range that nobody asked for": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "items 0-0/500")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, `[{"id": "a"}]`)
		}, "the server answers 206 Partial Content"},
		"a promise": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `[]`)
		}, "the server answers 202 Accepted"},
		"nothing":                          {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, ""},
		"nothing new, though nobody asked": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotModified) }, "answers 304"},
		"the page to sign in": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!DOCTYPE html><title>Sign in</title>")
		}, "looks like HTML"},
		"what is said to be compressed and is not": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, `[]`)
		}, "the answer cannot be read"},
		"compressed as nobody asked": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "\x1b\x00\x00")
		}, "no JSON"},
		"less than was announced": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `[{"id": "a"}]`)
		}, "the server ends the connection"},
		"two lists": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `[][]`) }, "no JSON"},
		"a list of lists of lists": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, strings.Repeat("[", 5<<20)+strings.Repeat("]", 5<<20))
		}, "no JSON"},
		"redirects without end": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/again")
			w.WriteHeader(http.StatusFound)
		}, "more than 3 redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { test.answer(w) })
			_, err := sourceOf(t, spec(server, ""), nil).Fetch(t.Context(), "")
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

// raw answers each connection with the same bytes, whatever is asked.
func raw(t *testing.T, answer string) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}()
	return &httptest.Server{URL: "http://" + listener.Addr().String()}
}

func TestAnAnswerThatIsCutOffIsNone(t *testing.T) {
	for name, answer := range map[string]string{
		"in the middle of a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]",
		"before the last chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n",
		"without a length":         "HTTP/1.0 200 OK\r\n\r\n[{\"id\":",
		"within the header":        "HTTP/1.1 200 OK\r\nContent-Le",
		"before it begins":         "",
		"with no answer at all":    "SSH-2.0-OpenSSH_9.2\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sourceOf(t, spec(raw(t, answer), ""), nil).Fetch(t.Context(), "")
			NewWithT(t).Expect(err).To(HaveOccurred())
		})
	}
}

func TestAVersionThatNoHeaderMayHaveIsNotKept(t *testing.T) {
	for _, header := range []string{"ETag: \"a\x01b\"", "ETag: \"a\x7fb\"", "Last-Modified: \x02", "ETag: \"\xff\""} {
		t.Run(fmt.Sprintf("%q", header), func(t *testing.T) {
			g := NewWithT(t)
			s := sourceOf(t, spec(raw(t, "HTTP/1.1 200 OK\r\n"+header+"\r\nContent-Length: 13\r\n\r\n[{\"id\": \"a\"}]"), ""), nil)
			result, err := s.Fetch(t.Context(), "")
			if err != nil {
				return // such a header is an error by itself
			}
			again, err := s.Fetch(t.Context(), result.Version)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again.Records).To(HaveLen(1))
		})
	}
}

func TestFieldsAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		fields, records int
		fits            bool
	}{
		"as many as may be":         {100, source.MaxValues / 100, true},
		"more":                      {100, source.MaxValues/100 + 1, false},
		"all of them in one record": {source.MaxValues + 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			fields := make([]string, test.fields)
			for i := range fields {
				fields[i] = fmt.Sprintf(`"%x":1`, i)
			}
			record := "{" + strings.Join(fields, ",") + "}"
			records, _, err := decode([]byte("["+strings.Repeat(record+",", test.records-1)+record+"]"), nil)
			if test.fits {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(records).To(HaveLen(test.records))
				return
			}
			g.Expect(err).To(MatchError("the records have more than 1000000 fields in all: have the server return only those that are mapped"))
		})
	}
}

func TestOddRecordsAreReadAsTheyAreWritten(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("k", 10_000)
	records, skipped, err := decode([]byte(`[{"n": 1e400, "n": -0.0, "zero": "a\u0000b", "`+long+`": "v", "half": "\ud800", "deep": `+
		strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}, null]`), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(skipped).To(Equal(1))
	for field, want := range map[string]string{"n": "-0.0", "zero": "a\x00b", long: "v", "half": "\ufffd"} {
		text, fits := source.Text(records[0][field])
		g.Expect(fits).To(BeTrue())
		g.Expect(text).To(Equal(want))
	}
	_, fits := source.Text(records[0]["deep"])
	g.Expect(fits).To(BeFalse())
}
