// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"encoding/base64"
	"strings"

	"github.com/candor-dev/candor/internal/fleet/source"
)

// Keys of the Secret. A token wins over a user.
const (
	tokenKey    = "bearer-token"
	usernameKey = "username"
	passwordKey = "password"
)

// credentials are what is sent, and what must not be told.
type credentials struct {
	authorization string
	secrets       []string
}

// read takes credentials from the data of a Secret; nil means that none are sent.
func read(secret map[string][]byte) (credentials, error) {
	if secret == nil {
		return credentials{}, nil
	}
	// Files often end in a line break, and with it Secrets that are made of them.
	token := strings.TrimSpace(string(secret[tokenKey]))
	username := strings.TrimRight(string(secret[usernameKey]), "\r\n")
	password := strings.TrimRight(string(secret[passwordKey]), "\r\n")
	switch {
	case token != "":
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return credentials{}, source.SecretUnreadable("key %s of the Secret has a character that no header may have: check how the Secret was made", tokenKey)
		}
		return credentials{authorization: "Bearer " + token, secrets: []string{token}}, nil
	case username != "" && password != "":
		if strings.Contains(username, ":") {
			return credentials{}, source.SecretUnreadable("key %s of the Secret has a colon, which Basic authentication cannot carry", usernameKey)
		}
		basic := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
		return credentials{authorization: "Basic " + basic, secrets: []string{password, basic}}, nil
	default:
		return credentials{}, source.SecretUnreadable("the Secret needs the key %s, or the keys %s and %s; remove secretRef where the server asks for no credentials", tokenKey, usernameKey, passwordKey)
	}
}
