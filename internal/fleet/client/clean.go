// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/base64"
	"strings"

	"github.com/candor-dev/candor/internal/fault"
)

const (
	// maxMessage bounds what is told of the words of others, in bytes.
	maxMessage = 200
	// minSecret is the shortest password that is kept out of texts. Shorter ones are words, of servers that ask for none.
	minSecret = 8
)

// clean makes the words of others fit to be shown: one line of up to 200 bytes, without the password.
func (c Credentials) clean(text string) string {
	if len(c.Password) >= minSecret {
		basic := base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
		text = strings.NewReplacer(c.Password, "[password]", basic, "[password]").Replace(text)
	}
	return fault.OneLine(text, maxMessage)
}
