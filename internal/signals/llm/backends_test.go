// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/internal/signals/llm"
	"github.com/candor-dev/candor/internal/signals/llm/anthropic"
	"github.com/candor-dev/candor/internal/signals/llm/openai"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

// client returns the HTTP client of the manager.
func client(t *testing.T) *http.Client {
	t.Helper()
	guard, err := netguard.New(netguard.Administrator, netguard.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	made, err := egress.NewClient(egress.Options{Guard: guard, MaxBody: llm.MaxAnswer})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(made.CloseIdleConnections)
	return made
}

const schema = `{"additionalProperties":false,"properties":{"hypotheses":{"description":"One to three hypotheses, likeliest first.","items":` +
	`{"additionalProperties":false,"properties":{` +
	`"cause":{"description":"One sentence: what may be behind it, and the change that removes it.","type":"string"},` +
	`"confidence":{"description":"How sure you are, in per cent, from 0 to 100.","type":"integer"},` +
	`"rationale":{"description":"Why you think so, from the evidence alone.","type":"string"},` +
	`"recommendedAction":{"description":"What to do next.","enum":["None","Notify","ProposePullRequest"],"type":"string"}},` +
	`"required":["cause","confidence","rationale","recommendedAction"],"type":"object"},"type":"array"}},"required":["hypotheses"],"type":"object"}`

func TestRender(t *testing.T) {
	asked, short := llm.Prompt{System: "Be brief.", User: `say "<JSON>"`}, llm.Prompt{User: "hi"}
	for name, test := range map[string]struct {
		backend  llm.Backend
		prompt   llm.Prompt
		settings llm.Settings
		want     string
	}{
		"the Messages API": {
			anthropic.New(options(nil)), asked, settings, `{"max_tokens":1024,"messages":[{"role":"user","content":[{"text":"say \"\u003cJSON\u003e\"","type":"text"}]}],` +
				`"model":"some-model-5","output_config":{"format":{"schema":` + schema + `,"type":"json_schema"}},"system":[{"text":"Be brief.","type":"text"}]}`,
		},
		"the Messages API without a system": {
			anthropic.New(options(nil)), short, settings, `{"max_tokens":1024,"messages":[{"role":"user","content":[{"text":"hi","type":"text"}]}],` +
				`"model":"some-model-5","output_config":{"format":{"schema":` + schema + `,"type":"json_schema"}}}`,
		},
		"the Chat Completions API": {
			openai.New(options(nil)), asked, settings, `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"say \"\u003cJSON\u003e\""}],` +
				`"model":"some-model-5","max_completion_tokens":1024,"response_format":{"type":"json_schema","json_schema":{"name":"hypotheses","schema":` + schema + `,"strict":true}}}`,
		},
		"a server that knows the former limit and any JSON": {
			openai.New(options(nil)), short,
			llm.Settings{Model: "m", MaxOutputTokens: 1, StructuredOutput: "JSONObject", TokenLimit: "MaxTokens"},
			`{"messages":[{"role":"user","content":"hi"}],"model":"m","max_tokens":1,"response_format":{"type":"json_object"}}`,
		},
		"a server that knows nothing of JSON": {
			openai.New(options(nil)), short,
			llm.Settings{Model: "m", MaxOutputTokens: 1, StructuredOutput: "None", TokenLimit: "MaxCompletionTokens"},
			`{"messages":[{"role":"user","content":"hi"}],"model":"m","max_completion_tokens":1}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			body, err := test.backend.Render(test.prompt, test.settings)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(body).To(MatchJSON(test.want))
			for range 100 {
				again, err := test.backend.Render(test.prompt, test.settings)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(again)).To(Equal(string(body)), "equal questions are equal bytes")
			}
		})
	}
}

func TestRenderRefusesSettings(t *testing.T) {
	for name, test := range map[string]struct {
		backends []llm.Backend
		settings llm.Settings
		says     string
	}{
		"without a model":              {both(), llm.Settings{MaxOutputTokens: 1}, "model.name"},
		"without a limit":              {both(), llm.Settings{Model: "m"}, "model.maxOutputTokens is 0"},
		"with an output nobody knows":  {[]llm.Backend{openai.New(options(nil))}, llm.Settings{Model: "m", MaxOutputTokens: 1, StructuredOutput: "XML"}, `model.structuredOutput is "XML": set it to one of [JSONSchema JSONObject None]`},
		"with a limit that none knows": {[]llm.Backend{openai.New(options(nil))}, llm.Settings{Model: "m", MaxOutputTokens: 1, TokenLimit: "Words"}, `model.tokenLimit is "Words": set it to one of [MaxCompletionTokens MaxTokens]`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, backend := range test.backends {
				g := NewWithT(t)
				_, err := backend.Render(question, test.settings)
				g.Expect(err).To(MatchError(ContainSubstring(test.says)))
				failure := (*llm.Error)(nil)
				g.Expect(errors.As(err, &failure)).To(BeTrue())
				g.Expect(failure.Class).To(Equal(llm.ConfigInvalid))
			}
		})
	}
}

func both() []llm.Backend {
	return []llm.Backend{anthropic.New(options(nil)), openai.New(options(nil))}
}

func TestTheSchemaIsThatOfEveryServer(t *testing.T) {
	g := NewWithT(t)
	for _, backend := range both() {
		body, err := backend.Render(question, settings)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(body)).To(ContainSubstring(schema), "the same bytes for all")
		var request any
		g.Expect(json.Unmarshal(body, &request)).To(Succeed())
		eachObject(request, func(object map[string]any) {
			for _, refused := range []string{"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern", "temperature", "top_p", "thinking", "effort", "stream"} {
				g.Expect(object).NotTo(HaveKey(refused))
			}
			if object["type"] != "object" {
				return
			}
			required := make(map[string]any)
			for _, name := range object["required"].([]any) {
				required[name.(string)] = true
			}
			g.Expect(object["additionalProperties"]).To(BeFalse())
			g.Expect(required).To(HaveLen(len(object["properties"].(map[string]any))))
		})
	}
}

func eachObject(value any, visit func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(value)
		for _, child := range value {
			eachObject(child, visit)
		}
	case []any:
		for _, child := range value {
			eachObject(child, visit)
		}
	}
}

func TestServersTakeEveryRendering(t *testing.T) {
	for name, test := range map[string]struct {
		backend  string
		settings llm.Settings
	}{
		"a model of Anthropic":             {"anthropic", llm.Settings{Model: "claude-sonnet-5", MaxOutputTokens: 128}},
		"a model of OpenAI":                {"openai", llm.Settings{Model: "gpt-5.5", MaxOutputTokens: 128}},
		"a model of OpenAI, in words":      {"openai", llm.Settings{Model: "o4-mini", MaxOutputTokens: 128, StructuredOutput: "JSONSchema", TokenLimit: "MaxCompletionTokens"}},
		"a server of one's own":            {"openai", llm.Settings{Model: "llama4", MaxOutputTokens: 128, StructuredOutput: "JSONObject", TokenLimit: "MaxTokens"}},
		"a server of one's own, unadorned": {"openai", llm.Settings{Model: "llama4", MaxOutputTokens: 128, StructuredOutput: "None", TokenLimit: "MaxTokens"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := llmserver.Start(llmserver.Options{Key: key})
			defer server.Close()
			server.Queue(says(one))
			backend := backends[test.backend](server, options(client(t)))
			prompt := llm.Compose(candorv1alpha1.FindingSpec{}, "team-a", candorv1alpha1.SharingCluster)
			body, err := backend.Render(prompt, test.settings)
			g.Expect(err).NotTo(HaveOccurred())
			reply, err := backend.Call(t.Context(), body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reply.Text).To(Equal(one))
			call := server.Journal()[0]
			g.Expect(llm.Prompt{System: call.System, User: call.User}).To(Equal(prompt))
			g.Expect(call.MaxTokens).To(BeEquivalentTo(128))
		})
	}
}

// environment is what a stray variable of the pod could change in either SDK.
var environment = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_ORGANIZATION_ID", "ANTHROPIC_IDENTITY_TOKEN",
	"ANTHROPIC_WORKSPACE_ID", "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET",
}

func TestTheEnvironmentChangesNothing(t *testing.T) {
	stray := llmserver.Start(llmserver.Options{})
	defer stray.Close()
	for _, name := range environment {
		t.Setenv(name, "stray")
	}
	t.Setenv("ANTHROPIC_BASE_URL", stray.AnthropicURL())
	t.Setenv("OPENAI_BASE_URL", stray.OpenAIURL())
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Stray: stray")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Stray: stray")
	for name, connect := range backends {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := llmserver.Start(llmserver.Options{Key: key})
			defer server.Close()
			backend := connect(server, options(client(t)))
			body, err := backend.Render(question, settings)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = backend.Call(t.Context(), body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(fmt.Sprint(server.Journal()[0].Header)).NotTo(MatchRegexp(`(?i)stray|traceparent|Openai-Organization`))
			g.Expect(string(server.Journal()[0].Body)).NotTo(ContainSubstring("stray"))
		})
	}
	NewWithT(t).Expect(stray.Stats().Calls).To(BeZero())
}

func TestKeys(t *testing.T) {
	for backendName, connect := range backends {
		for name, test := range map[string]struct {
			keys []string // one a call
			want map[string][]string
		}{
			"the present key is sent": {[]string{"old-key", "new-key"}, map[string][]string{
				"anthropic": {"old-key ", "new-key "}, "openai": {" Bearer old-key", " Bearer new-key"},
			}},
			"blanks around a key are not": {[]string{" \t" + key + "\n"}, map[string][]string{"anthropic": {key + " "}, "openai": {" Bearer " + key}}},
			"without a key":               {[]string{"", "\n"}, map[string][]string{"openai": {" ", " "}}},
		} {
			t.Run(backendName+": "+name, func(t *testing.T) {
				g := NewWithT(t)
				server := llmserver.Start(llmserver.Options{})
				defer server.Close()
				given, next := options(client(t)), 0
				given.Key = func() string {
					next++
					return test.keys[next-1]
				}
				backend := connect(server, given)
				body, err := backend.Render(question, settings)
				g.Expect(err).NotTo(HaveOccurred())
				for range test.keys {
					if _, err := backend.Call(t.Context(), body); test.want[backendName] == nil {
						expectError(g, err, row{class: llm.AuthFailed, says: "anthropic-api-key"}, llmserver.Stats{})
					} else {
						g.Expect(err).NotTo(HaveOccurred())
					}
				}
				var sent []string
				for _, call := range server.Journal() {
					sent = append(sent, call.Header.Get("x-api-key")+" "+call.Header.Get("Authorization"))
				}
				g.Expect(sent).To(Equal(test.want[backendName]))
			})
		}
	}
}

func TestTheWordsOfAServerAreBounded(t *testing.T) {
	long := strings.Repeat("word ", 2000)
	for backendName, connect := range backends {
		for name, test := range map[string]struct{ said, shown string }{
			"a key is not repeated":                      {"no such key: " + key + ", sorry", "no such key: [key], sorry"},
			"nor with characters between that none sees": {"no such key: " + key[:9] + "\x00\u200b" + key[9:], "no such key: [key]"},
			"nor at the end of a long text":              {long[:190] + key + key + key, long[:190] + "[key]"},
			"a text of many lines becomes one":           {"a\r\n\x1b[31mb\tc", "a [31mb c"},
		} {
			t.Run(backendName+": "+name, func(t *testing.T) {
				g := NewWithT(t)
				server := llmserver.Start(llmserver.Options{Key: key})
				defer server.Close()
				server.Queue(fails(400, "invalid_request_error", "", test.said))
				backend := connect(server, options(client(t)))
				body, err := backend.Render(question, settings)
				g.Expect(err).NotTo(HaveOccurred())
				_, err = backend.Call(t.Context(), body)
				expectError(g, err, row{class: llm.ConfigInvalid, says: test.shown}, llmserver.Stats{})
				g.Expect(len(err.Error())).To(BeNumerically("<", 260))
			})
		}
	}
}

func TestWhatAServerCallsItselfIsBounded(t *testing.T) {
	g := NewWithT(t)
	server := llmserver.Start(llmserver.Options{})
	defer server.Close()
	name := "a\n" + key + strings.Repeat("b", 500)
	answer := map[string]any{
		"id": "1", "object": "chat.completion", "model": name, "choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"content": one}}},
		"usage": map[string]any{"prompt_tokens": -5, "completion_tokens": 1e18},
	}
	body, err := json.Marshal(answer)
	g.Expect(err).NotTo(HaveOccurred())
	server.Queue(llmserver.WithHeader("X-Request-Id", strings.Repeat("r", 500), sends(200, "application/json", string(body))))
	backend := backends["openai"](server, options(client(t)))
	asked, err := backend.Render(question, settings)
	g.Expect(err).NotTo(HaveOccurred())
	reply, err := backend.Call(t.Context(), asked)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reply.Model).To(HavePrefix("a [key]bbb"))
	g.Expect(len(reply.Model)).To(BeNumerically("<=", 128))
	g.Expect(len(reply.RequestID)).To(BeNumerically("<=", 128))
	g.Expect(reply.Usage).To(Equal(llm.Usage{OutputTokens: 1 << 31}), "no server can refund by a negative number")
}

func TestBackendsAreSafeForConcurrentUse(t *testing.T) {
	const callers = 16
	for name, connect := range backends {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server, gate := llmserver.Start(llmserver.Options{Key: key}), llmserver.NewGate()
			defer server.Close()
			server.Script(func(call *llmserver.Call) llmserver.Behaviour { return gate.Then(says(call.User)) })
			backend := connect(server, options(client(t)))
			var group sync.WaitGroup
			failures := make([]error, callers)
			for i := range callers {
				group.Go(func() {
					user := fmt.Sprintf("caller %d asks for JSON", i)
					body, err := backend.Render(llm.Prompt{User: user}, settings)
					if err == nil {
						var reply llm.Reply
						if reply, err = backend.Call(t.Context(), body); err == nil && reply.Text != user {
							err = fmt.Errorf("caller %d got the answer %q", i, reply.Text)
						}
					}
					failures[i] = err
				})
			}
			for range callers {
				<-gate.Arrived()
			}
			gate.Open()
			group.Wait()
			g.Expect(errors.Join(failures...)).NotTo(HaveOccurred())
			g.Expect(server.Stats().MaxConcurrent).To(Equal(callers))
		})
	}
}
