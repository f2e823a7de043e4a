// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"
)

// Headers of a request.
const (
	HeaderKey       = "Idempotency-Key"
	HeaderTimestamp = "X-Candor-Timestamp"
	HeaderSignature = "X-Candor-Signature"
)

// Signature returns the signature of a body that is sent at a time: sha256= and the hexadecimal HMAC-SHA256 over the time in
// seconds since 1970, a dot and the body.
func Signature(key []byte, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(timestamp(at) + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// Headers returns the headers of a request that is sent at a time. Without a key it is not signed.
func (r Request) Headers(key []byte, at time.Time) http.Header {
	h := http.Header{}
	h.Set("Content-Type", r.ContentType)
	h.Set(HeaderKey, r.Key)
	if len(key) > 0 {
		h.Set(HeaderTimestamp, timestamp(at))
		h.Set(HeaderSignature, Signature(key, at, r.Body))
	}
	return h
}
