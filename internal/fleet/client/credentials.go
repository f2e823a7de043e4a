// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// ErrNoCredentials is in the error of credentials that are not configured, or not all of them.
var ErrNoCredentials = errors.New("no credentials of Fleet Management are configured")

// Names of the files of FolderCredentials, which are the keys of the Secret that is mounted there.
const (
	fileBaseURL  = "base-url"
	fileUsername = "username"
	filePassword = "password"
)

// Credentials are where Fleet Management is, and what it knows us by. However they are printed, they show only the host.
type Credentials struct {
	// BaseURL begins with https://. The address that Grafana's pages show, which names a service at its end, will do.
	BaseURL string
	// Username is the ID of the stack, Password the token of an access policy.
	Username, Password string
}

// String tells the host.
func (c Credentials) String() string {
	host := "no address"
	if address, err := url.Parse(strings.TrimSpace(c.BaseURL)); err == nil && address.Host != "" {
		host = address.Hostname()
	}
	return "credentials of " + host
}

// Format implements fmt.Formatter, for all verbs.
func (c Credentials) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.String()) }

// MarshalJSON returns what String does.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// FolderCredentials reads the files base-url, username and password of a folder at each call. When it has none of them, the
// credentials are fallback; the two are never mixed. An empty folder means no folder.
func FolderCredentials(folder string, fallback Credentials) func() (Credentials, error) {
	return func() (Credentials, error) {
		read, err := readFolder(folder)
		if err != nil {
			return Credentials{}, err
		}
		if read != (Credentials{}) {
			return read, read.complete("the folder "+folder, fileBaseURL, fileUsername, filePassword)
		}
		return fallback, fallback.complete("the environment", "FLEET_MANAGEMENT_BASE_URL", "FLEET_MANAGEMENT_USERNAME", "FLEET_MANAGEMENT_PASSWORD")
	}
}

// readFolder reads again when the volume was renewed meanwhile: a new username does not go with an old password.
func readFolder(folder string) (Credentials, error) {
	if folder == "" {
		return Credentials{}, nil
	}
	for {
		// The kubelet renews all files of a volume at once, by moving this link.
		before, _ := os.Readlink(filepath.Join(folder, "..data"))
		read, err := readFiles(folder)
		if after, _ := os.Readlink(filepath.Join(folder, "..data")); after == before {
			return read, err
		}
	}
}

func readFiles(folder string) (Credentials, error) {
	var read Credentials
	for name, value := range map[string]*string{fileBaseURL: &read.BaseURL, fileUsername: &read.Username, filePassword: &read.Password} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Credentials{}, fmt.Errorf("%w: %w", ErrNoCredentials, err)
		}
		*value = strings.TrimSpace(string(content))
	}
	return read, nil
}

// complete names what is missing.
func (c Credentials) complete(where, baseURL, username, password string) error {
	var missing []string
	for _, field := range []struct{ name, value string }{{baseURL, c.BaseURL}, {username, c.Username}, {password, c.Password}} {
		if strings.TrimSpace(field.value) == "" {
			missing = append(missing, field.name)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 3:
		return fmt.Errorf("%w: create the Secret candor-fleet beside the manager, with base-url, username and password", ErrNoCredentials)
	}
	return fmt.Errorf("%w: %s lacks %s", ErrNoCredentials, where, strings.Join(missing, " and "))
}

// stack returns a digest of what tells a stack from others. It is no secret and tells none.
func (c Credentials) stack() string {
	sum := sha256.Sum256([]byte(c.BaseURL + "\n" + c.Username))
	return hex.EncodeToString(sum[:8])
}

// services end the addresses that Grafana's pages show.
var services = []string{"/pipeline.v1.PipelineService", "/collector.v1.CollectorService", "/tenant.v1.TenantService"}

// normalised returns the credentials with a BaseURL of scheme, host and path, or says what is wrong with it.
func (c Credentials) normalised() (Credentials, error) {
	address, err := url.Parse(strings.TrimSpace(c.BaseURL))
	switch {
	case err != nil:
		return Credentials{}, errors.New("base-url is no address: it looks like https://fleet-management-prod-001.grafana.net")
	case address.Scheme != "https" || address.Hostname() == "":
		return Credentials{}, errors.New("base-url must begin with https:// and a host")
	case address.User != nil:
		return Credentials{}, errors.New("base-url must hold no username or password: they have places of their own")
	case address.RawQuery != "" || address.Fragment != "":
		return Credentials{}, errors.New("base-url must end before ? and #")
	}
	path := strings.TrimRight(address.Path, "/")
	for _, service := range services {
		path = strings.TrimRight(strings.TrimSuffix(path, service), "/")
	}
	c.BaseURL = (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: path}).String()
	c.Username, c.Password = strings.TrimSpace(c.Username), strings.TrimSpace(c.Password)
	return c, nil
}
