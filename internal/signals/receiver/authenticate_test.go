// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/signals/notify"
)

func TestWhoIsAuthenticated(t *testing.T) {
	both, dummy := Credentials{Signing: []byte(secret), Token: []byte(token)}, []byte("dummy")
	// printf '1700000000.{…}' | openssl dgst -sha256 -hmac s3cret-s3cret-s3cret, and the same without the time
	const ofTime = "b4c42e1e4d7b56b089496dc2e5b3ed5aacf4ed09426211726439a4e19f809a63"
	const ofBody = "e3571780c2d0374763b8f012ad7894ba8dd7b6d89ac1baa90596cdd9c32a72d3"
	signature, timestamp := notify.HeaderSignature, notify.HeaderTimestamp

	for name, c := range map[string]struct {
		headers []string
		with    Credentials
		now     time.Time
		want    Reason
	}{
		"a signature of openssl over a time and the body":      {[]string{timestamp, "1700000000", signature, "sha256=" + ofTime}, both, start, ""},
		"a signature of openssl over the body":                 {[]string{signature, "sha256=" + ofBody}, both, start, ""},
		"a signature in capitals":                              {[]string{signature, "SHA256=" + strings.ToUpper(ofBody)}, both, start, ""},
		"a token":                                              {bearing(token), both, start, ""},
		"a token after the word in another case":               {[]string{"Authorization", "bEARER " + token}, both, start, ""},
		"a time five minutes ago":                              {stamped(start, firing), both, start.Add(5 * time.Minute), ""},
		"a time five minutes ahead":                            {stamped(start, firing), both, start.Add(-5 * time.Minute), ""},
		"a time longer ago":                                    {stamped(start, firing), both, start.Add(5*time.Minute + time.Second), ReasonClock},
		"a time farther ahead":                                 {stamped(start, firing), both, start.Add(-5*time.Minute - time.Second), ReasonClock},
		"a time at the end of all times":                       {[]string{timestamp, "9223372036854775807", signature, notify.Signature([]byte(secret), time.Unix(1<<63-1, 0), []byte(firing))}, both, start, ReasonClock},
		"a time that is none":                                  {[]string{timestamp, "now", signature, "sha256=" + ofTime}, both, start, ReasonMalformed},
		"a time in milliseconds":                               {[]string{timestamp, "1700000000000", signature, "sha256=" + ofTime}, both, start, ReasonSignature},
		"the signature of the body beside a time":              {[]string{timestamp, "1700000000", signature, "sha256=" + ofBody}, both, start, ReasonSignature},
		"the signature of a time without it":                   {[]string{signature, "sha256=" + ofTime}, both, start, ReasonSignature},
		"the signature of another key":                         {[]string{signature, sign([]byte("other"), []byte(firing))}, both, start, ReasonSignature},
		"the signature of another body":                        {plain(firing + " "), both, start, ReasonSignature},
		"a signature cut short":                                {[]string{signature, "sha256=" + ofBody[:62]}, both, start, ReasonSignature},
		"a signature without its name":                         {[]string{signature, ofBody}, both, start, ReasonSignature},
		"a wrong signature beside the right token":             {slices.Concat([]string{signature, "sha256=00"}, bearing(token)), both, start, ReasonSignature},
		"a right signature beside a wrong token":               {slices.Concat(plain(firing), bearing("other")), both, start, ""},
		"two signatures":                                       {slices.Concat(plain(firing), plain(firing)), both, start, ReasonMalformed},
		"two tokens":                                           {slices.Concat(bearing(token), bearing("other")), both, start, ReasonMalformed},
		"another token":                                        {bearing(token + "t"), both, start, ReasonToken},
		"no token after the word":                              {bearing(""), both, start, ReasonToken},
		"a password":                                           {[]string{"Authorization", "Basic dDprZW4="}, both, start, ReasonUnsigned},
		"nothing":                                              {nil, both, start, ReasonUnsigned},
		"a time alone":                                         {[]string{timestamp, "1700000000"}, both, start, ReasonUnsigned},
		"a signature where there is a token alone":             {plain(firing), Credentials{Token: []byte(token)}, start, ReasonUnknown},
		"a signature with a time where there is a token alone": {stamped(start, firing), Credentials{Token: []byte(token)}, start, ReasonUnknown},
		"a token where there is a key alone":                   {bearing(token), Credentials{Signing: []byte(secret)}, start, ReasonUnknown},
		"no token where there is none":                         {bearing(""), Credentials{}, start, ReasonUnknown},
		"the signature of the dummy where there is no key":     {[]string{signature, sign(dummy, []byte(firing))}, Credentials{}, start, ReasonUnknown},
		"the signature of an empty key where there is none":    {[]string{signature, sign(nil, []byte(firing))}, Credentials{}, start, ReasonUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := http.Header{}
			for i := 0; i < len(c.headers); i += 2 {
				h.Add(c.headers[i], c.headers[i+1])
			}
			p, reason := authenticate(h, []byte(firing), c.with, dummy, c.now)
			g.Expect(reason).To(Equal(c.want))
			if c.want != "" {
				g.Expect(p).To(BeZero())
				return
			}
			g.Expect(p.key).NotTo(BeEmpty())
			g.Expect(p.signed).To(Equal(h.Get(signature) != ""))
			g.Expect(p.at.IsZero()).To(Equal(h.Get(timestamp) == ""))
		})
	}
}

func TestRequestsAreKnownByWhatTheySay(t *testing.T) {
	g := NewWithT(t)
	key := func(body string, headers ...string) string {
		r := request(body, headers...)
		p, reason := authenticate(r.Header, []byte(body), Credentials{Signing: []byte(secret), Token: []byte(token)}, []byte("dummy"), start)
		g.Expect(reason).To(BeEmpty())
		return p.key
	}
	later := start.Add(time.Second)
	keys := []string{
		key(firing, plain(firing)...), key("{}", plain("{}")...),
		key(firing, stamped(start, firing)...), key(firing, stamped(later, firing)...), key("{}", stamped(start, "{}")...),
		key(firing, bearing(token)...), key("{}", bearing(token)...),
	}
	g.Expect(slices.Compact(slices.Sorted(slices.Values(keys)))).To(HaveLen(len(keys)), "requests that differ have keys that differ")
	g.Expect(key(firing, notify.HeaderSignature, strings.ToUpper(sign([]byte(secret), []byte(firing))))).To(Equal(keys[0]), "capitals make no other request")
}
