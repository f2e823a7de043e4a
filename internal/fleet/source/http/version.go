// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// maxVersion bounds what is kept of an answer's version, in bytes.
const maxVersion = 4 << 10

// version is what the server says of the state of an answer, and which source says so: the version of another one means nothing.
func (s *Source) version(response *http.Response) string {
	tag, modified := response.Header.Get("ETag"), response.Header.Get("Last-Modified")
	version := strings.Join([]string{s.fingerprint(), tag, modified}, "\n")
	if s.method != http.MethodGet || tag == "" && modified == "" || len(version) > maxVersion {
		return ""
	}
	return version
}

// ask adds to a request which version is known.
func (s *Source) ask(request *http.Request, known string) {
	parts := strings.Split(known, "\n")
	if len(parts) != 3 || parts[0] != s.fingerprint() || s.method != http.MethodGet {
		return
	}
	for i, header := range []string{"If-None-Match", "If-Modified-Since"} {
		if value := parts[i+1]; value != "" {
			request.Header.Set(header, value)
		}
	}
}

// fingerprint tells one source from another without telling its address or credentials.
func (s *Source) fingerprint() string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{s.address.String(), s.credentials.authorization}, s.path...), "\n")))
	return hex.EncodeToString(sum[:8])
}
