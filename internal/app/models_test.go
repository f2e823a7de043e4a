// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

func TestTheEnvironmentMayNameAModel(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want candorv1alpha1.Model
		err  string
	}{
		"none":      {nil, candorv1alpha1.Model{}, ""},
		"Anthropic": {map[string]string{"CANDOR_LLM_PROVIDER": "anthropic", "CANDOR_LLM_MODEL": "m"}, candorv1alpha1.Model{Provider: candorv1alpha1.ModelAnthropic, Name: "m"}, ""},
		"a server of one's own": {
			map[string]string{"CANDOR_LLM_PROVIDER": "OpenAI", "CANDOR_LLM_MODEL": "m", "CANDOR_LLM_BASE_URL": "http://ollama.models.svc:11434/v1"},
			candorv1alpha1.Model{Provider: candorv1alpha1.ModelOpenAI, Name: "m", BaseURL: "http://ollama.models.svc:11434/v1"},
			"",
		},
		"a provider without a model":   {map[string]string{"CANDOR_LLM_PROVIDER": "openai"}, candorv1alpha1.Model{}, "--llm-model: must name the model of --llm-provider"},
		"a provider that is none":      {map[string]string{"CANDOR_LLM_PROVIDER": "gemini"}, candorv1alpha1.Model{}, "--llm-provider=gemini: must be anthropic or openai"},
		"Ollama's own name":            {map[string]string{"CANDOR_LLM_PROVIDER": "ollama"}, candorv1alpha1.Model{}, "--llm-base-url to Ollama's address followed by /v1"},
		"an address of cloud metadata": {map[string]string{"CANDOR_LLM_PROVIDER": "openai", "CANDOR_LLM_MODEL": "m", "CANDOR_LLM_BASE_URL": "http://169.254.169.254/v1"}, candorv1alpha1.Model{}, "--llm-base-url: "},
		"a network that is none":       {map[string]string{"CANDOR_LLM_DENY_CIDRS": "10.0.0.0/33"}, candorv1alpha1.Model{}, "10.0.0.0/33"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			options, err := read(test.env)
			if test.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(options.Models.environment()).To(Equal(test.want))
		})
	}
}

func TestTheFileOfTheSecretWinsAndIsReadEachTime(t *testing.T) {
	g, folder := NewWithT(t), t.TempDir()
	options, err := read(map[string]string{"ANTHROPIC_API_KEY": " of-the-environment\n", "CANDOR_LLM_KEY_FOLDER": folder})
	g.Expect(err).NotTo(HaveOccurred())
	key := func() string { return options.Models.key(candorv1alpha1.ModelAnthropic) }
	g.Expect(key()).To(Equal("of-the-environment"))
	for _, renewed := range []string{"first", "second"} {
		g.Expect(os.WriteFile(filepath.Join(folder, "anthropic-api-key"), []byte(renewed+"\n"), 0o600)).To(Succeed())
		g.Expect(key()).To(Equal(renewed))
	}
	g.Expect(options.Models.key(candorv1alpha1.ModelOpenAI)).To(BeEmpty())
}

func TestAnAddressThatMayNotBeDialledMakesNoModel(t *testing.T) {
	g := NewWithT(t)
	options := DefaultOptions()
	options.Models.keys = map[candorv1alpha1.ModelProvider]string{candorv1alpha1.ModelAnthropic: "k"}
	models, err := options.Models.models()
	g.Expect(err).NotTo(HaveOccurred())
	operating := &candorv1alpha1.OperatingPolicy{}
	operating.Spec.Model = &candorv1alpha1.Model{Provider: candorv1alpha1.ModelAnthropic, Name: "m", BaseURL: "http://169.254.169.254"}
	_, unusable := models.For(operating)
	g.Expect(unusable.Reason).To(Equal(candorv1alpha1.ReasonModelInvalid))
	g.Expect(unusable.Message).To(ContainSubstring("169.254.169.254"))
	operating.Spec.Model.BaseURL = ""
	model, unusable := models.For(operating)
	g.Expect(unusable).To(BeNil())
	g.Expect(model.Backend.Endpoint()).To(Equal("https://api.anthropic.com"))
}
