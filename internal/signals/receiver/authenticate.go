// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/candor-dev/candor/internal/signals/notify"
)

const (
	// ClockWindow is how far the time of a signature may be from now.
	ClockWindow = 5 * time.Minute
	// bearer is how the value of the header Authorization begins, in any case.
	bearer = "bearer "
)

// proof is what an authenticated request is known by.
type proof struct {
	// key tells it from every other request to the policy: that of the same content is the same, unless it was signed at another
	// time, or is about another subject by its headers.
	key string
	// at is when it was signed; zero where the signature holds no time, or there is none.
	at time.Time
	// signed says that a signature vouches for the body, and for nothing else. A token vouches for the whole request.
	signed bool
}

// authenticate finds out whether the credentials made a request. Each request takes one HMAC over its body, with the dummy for a
// key where there is none, so that an unknown policy takes as long as a known one.
func authenticate(h http.Header, body []byte, c Credentials, dummy []byte, now time.Time) (proof, Reason) {
	for _, name := range []string{notify.HeaderSignature, notify.HeaderTimestamp, "Authorization"} {
		if len(h.Values(name)) > 1 {
			sign(dummy, body)
			return proof{}, ReasonMalformed
		}
	}
	signature, stamp := h.Get(notify.HeaderSignature), h.Get(notify.HeaderTimestamp)
	switch {
	case signature == "":
		return checkToken(h, body, c.Token, dummy)
	case stamp == "":
		return checkSignature(signature, body, c.Signing, dummy)
	default:
		return checkStamped(signature, stamp, body, c.Signing, dummy, now)
	}
}

// checkStamped judges a signature over a time and the body.
func checkStamped(signature, stamp string, body, key, dummy []byte, now time.Time) (proof, Reason) {
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	at := time.Unix(seconds, 0)
	want := notify.Signature(either(key, dummy), at, body)
	switch {
	case err != nil:
		return proof{}, ReasonMalformed
	case len(key) == 0:
		return proof{}, ReasonUnknown
	case !same(signature, want):
		return proof{}, ReasonSignature
	case now.Sub(at).Abs() > ClockWindow:
		return proof{}, ReasonClock
	}
	return proof{key: want, at: at, signed: true}, ""
}

// checkSignature judges a signature over the body alone. One over a time and a body is none of another body: no JSON begins like
// "1700000000.{".
func checkSignature(signature string, body, key, dummy []byte) (proof, Reason) {
	want := sign(either(key, dummy), body)
	switch {
	case len(key) == 0:
		return proof{}, ReasonUnknown
	case !same(signature, want):
		return proof{}, ReasonSignature
	}
	return proof{key: want, signed: true}, ""
}

// checkToken judges what the header Authorization says.
func checkToken(h http.Header, body, token, dummy []byte) (proof, Reason) {
	key, authorization := sign(dummy, body), h.Get("Authorization")
	if len(authorization) < len(bearer) || !strings.EqualFold(authorization[:len(bearer)], bearer) {
		return proof{}, ReasonUnsigned
	}
	given, want := sha256.Sum256([]byte(authorization[len(bearer):])), sha256.Sum256(token)
	equal := subtle.ConstantTimeCompare(given[:], want[:]) == 1
	switch {
	case len(token) == 0:
		return proof{}, ReasonUnknown
	case !equal:
		return proof{}, ReasonToken
	}
	return proof{key: "token " + key + " " + h.Get(headerSubject)}, ""
}

// sign returns the signature of a body without a time.
func sign(key, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// same compares two signatures in a time that tells nothing of the one that is wanted.
func same(given, want string) bool {
	return hmac.Equal([]byte(strings.ToLower(given)), []byte(want))
}

func either(key, dummy []byte) []byte {
	if len(key) == 0 {
		return dummy
	}
	return key
}
