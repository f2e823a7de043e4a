// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// ParseURL reads the address of a source, which is https where credentials are sent to it. Its error says what is wrong without a
// word of the address, which may hold what is secret; where the server is, is for a netguard.Guard to judge.
func ParseURL(address string, credentials bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("cannot be read: write an address such as https://cmdb.example.com/api/hosts")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https://, or with http:// where no credentials are sent")
	case u.Hostname() == "":
		return nil, errors.New("must name a server, such as https://cmdb.example.com/api/hosts")
	case u.User != nil:
		return nil, errors.New("must not hold a user or a password: put them into the Secret of secretRef, as username and password")
	case credentials && u.Scheme != "https":
		return nil, errors.New("must begin with https://, since the credentials of secretRef are sent there")
	}
	return u, nil
}

// ParseRecordsPath reads the names of the fields that lead to the list of records; none means that the answer is the list.
func ParseRecordsPath(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	steps := strings.Split(path, ".")
	for _, step := range steps {
		if step == "" {
			return nil, errors.New("has an empty name: write names of fields with one dot between them, such as data.items")
		}
	}
	return steps, nil
}

// root, member and rest are what JSONPath has beside names of fields with dots between them: the answer itself, a name in brackets, and
// what chooses among the elements of a list.
var (
	root   = regexp.MustCompile(`^\$(\.|\[|$)`)
	member = regexp.MustCompile(`\[['"]([^'"\]]*)['"]\]`)
	rest   = regexp.MustCompile(`\[[^\]]*\]|\.\*$`)
)

// CheckRecordsPath says what is wrong with a path that somebody writes. One of JSONPath can be read, and would find nothing.
func CheckRecordsPath(path string) error {
	plain := rest.ReplaceAllString(member.ReplaceAllString(root.ReplaceAllString(path, "$1"), ".$1"), "")
	if plain == path {
		_, err := ParseRecordsPath(path)
		return err
	}
	plain = strings.Trim(plain, ".")
	if plain == "" {
		return errors.New("is JSONPath, which is not read: leave it out, since the answer is the list")
	}
	return fmt.Errorf("is JSONPath, which is not read: write names of fields with dots between them, here %s", plain)
}

// target is who a limit on the rate of fetches counts for: scheme, host and port.
func target(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
