// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/internal/signals/llm"
	"github.com/candor-dev/candor/internal/signals/llm/anthropic"
	"github.com/candor-dev/candor/internal/signals/llm/openai"
)

// ModelOptions are what a person can set about models beside the OperatingPolicy.
type ModelOptions struct {
	// Provider, Model and BaseURL name a model for where the OperatingPolicy names none.
	Provider, Model, BaseURL string
	// KeyFolder is where the Secret candor-llm is mounted. Its files are read for each call, since they are renewed in place.
	KeyFolder string
	// CABundle is a file of certificates to trust beside those of the system.
	CABundle string
	// AllowCIDRs and DenyCIDRs change which addresses may be dialled, separated by commas.
	AllowCIDRs, DenyCIDRs string

	// keys are those of the environment.
	keys map[candorv1alpha1.ModelProvider]string
}

// The files of the Secret, and the variables that serve a small installation instead.
var keySources = map[candorv1alpha1.ModelProvider]struct{ file, variable string }{
	candorv1alpha1.ModelAnthropic: {"anthropic-api-key", "ANTHROPIC_API_KEY"},
	candorv1alpha1.ModelOpenAI:    {"openai-api-key", "OPENAI_API_KEY"},
}

func (o *ModelOptions) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.Provider, "llm-provider", "", "Protocol of the model for where the OperatingPolicy names none: anthropic or openai; empty names none.")
	fs.StringVar(&o.Model, "llm-model", "", "Name of that model.")
	fs.StringVar(&o.BaseURL, "llm-base-url", "", "Address of its server, for openai with its /v1; by default that of the provider.")
	fs.StringVar(&o.KeyFolder, "llm-key-folder", "/etc/candor/llm", "Folder of the files anthropic-api-key and openai-api-key, read for each call. The variables ANTHROPIC_API_KEY and OPENAI_API_KEY serve where a file is missing.")
	fs.StringVar(&o.CABundle, "llm-ca-bundle", "", "File of PEM certificates that model servers are trusted by, beside those of the system.")
	fs.StringVar(&o.AllowCIDRs, "llm-allow-cidrs", "", "Networks that may be dialled for models although they are link-local or reserved, separated by commas.")
	fs.StringVar(&o.DenyCIDRs, "llm-deny-cidrs", "", "Networks that must not be dialled for models, separated by commas. They win over --llm-allow-cidrs.")
}

func (o *ModelOptions) readKeys(lookup func(string) (string, bool)) {
	o.keys = map[candorv1alpha1.ModelProvider]string{}
	for provider, source := range keySources {
		if value, set := lookup(source.variable); set {
			o.keys[provider] = strings.TrimSpace(value)
		}
	}
}

func (o *ModelOptions) validate() error {
	_, err := o.environment()
	guard, guardErr := o.outbound().guard()
	if guardErr == nil && o.Provider != "" {
		if addressErr := checkAddress(guard, o.BaseURL); addressErr != nil {
			guardErr = fmt.Errorf("--llm-base-url: %w", addressErr)
		}
	}
	return errors.Join(err, guardErr)
}

// environment returns the model that the options name; its provider is empty when they name none.
func (o *ModelOptions) environment() (candorv1alpha1.Model, error) {
	model := candorv1alpha1.Model{Name: o.Model, BaseURL: o.BaseURL}
	switch strings.ToLower(o.Provider) {
	case "":
		return candorv1alpha1.Model{}, nil
	case "anthropic":
		model.Provider = candorv1alpha1.ModelAnthropic
	case "openai":
		model.Provider = candorv1alpha1.ModelOpenAI
	case "ollama":
		return model, errors.New("--llm-provider=ollama: set openai, and --llm-base-url to Ollama's address followed by /v1")
	default:
		return model, fmt.Errorf("--llm-provider=%s: must be anthropic or openai", o.Provider)
	}
	if o.Model == "" {
		return model, errors.New("--llm-model: must name the model of --llm-provider")
	}
	return model, nil
}

func (o *ModelOptions) outbound() outbound {
	return outbound{prefix: "llm", profile: netguard.Administrator, allow: o.AllowCIDRs, deny: o.DenyCIDRs, bundle: o.CABundle}
}

// models returns what makes models of what people configure.
func (o *ModelOptions) models() (*candorcontroller.Models, error) {
	environment, err := o.environment()
	if err != nil {
		return nil, err
	}
	guard, err := o.outbound().guard()
	if err != nil {
		return nil, err
	}
	client, err := o.outbound().client(guard, llm.MaxAnswer)
	if err != nil {
		return nil, err
	}
	return &candorcontroller.Models{
		Environment: environment,
		Key:         o.key,
		New: func(provider candorv1alpha1.ModelProvider, baseURL string) (llm.Backend, error) {
			if err := checkAddress(guard, baseURL); err != nil {
				return nil, err
			}
			options := llm.Options{BaseURL: baseURL, HTTP: client, Key: func() string { return o.key(provider) }}
			if provider == candorv1alpha1.ModelAnthropic {
				return anthropic.New(options), nil
			}
			return openai.New(options), nil
		},
	}, nil
}

// checkAddress tells of an address that can never be dialled before anything is asked. What a name resolves to is judged at each
// dial.
func checkAddress(guard *netguard.Guard, baseURL string) error {
	if baseURL == "" {
		return nil
	}
	address, err := url.Parse(baseURL)
	if err != nil {
		return errors.New("the address is none") // the error of Parse repeats it, and a password in it
	}
	return guard.CheckURL(address)
}

// key returns the present key of a provider: that of the file, else that of the environment.
func (o *ModelOptions) key(provider candorv1alpha1.ModelProvider) string {
	content, err := os.ReadFile(filepath.Join(o.KeyFolder, keySources[provider].file))
	if err != nil {
		return o.keys[provider]
	}
	return cmp.Or(strings.TrimSpace(string(content)), o.keys[provider])
}
