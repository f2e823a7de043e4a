// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/test/fakes/llmserver"
)

type object = map[string]any

const key = "sk-secret"

func parse(text string) object {
	var value object
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		panic(err)
	}
	return value
}

func message() object {
	return parse(`{"model":"claude-sonnet-5","max_tokens":1024,"system":[{"type":"text","text":"Be brief."}],
		"messages":[{"role":"user","content":[{"type":"text","text":"CVE-2026-0001 in openssl"}]}],
		"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"list":{"type":"array","items":{"type":"object",
			"properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n","s"],"additionalProperties":false}}},
			"required":["list"],"additionalProperties":false}}}}`)
}

func completion() object {
	return parse(`{"model":"gpt-5.5","max_completion_tokens":1024,
		"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"CVE-2026-0001 in openssl"}],
		"response_format":{"type":"json_schema","json_schema":{"name":"list","strict":true,"schema":{"type":"object","properties":{"list":{"type":"array","items":{"type":"object",
			"properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n","s"],"additionalProperties":false}}},
			"required":["list"],"additionalProperties":false}}}}`)
}

// at returns what stands at the end of a path of keys.
func at(value object, path ...string) object {
	for _, name := range path {
		value = value[name].(object)
	}
	return value
}

func items(request object, path ...string) object {
	return at(request, append(path, "schema", "properties", "list", "items", "properties")...)
}

var formats = map[llmserver.Protocol][]string{llmserver.Anthropic: {"output_config", "format"}, llmserver.OpenAI: {"response_format", "json_schema"}}

func send(t *testing.T, address string, header map[string]string, body any) (status int, answer object, headers http.Header) {
	t.Helper()
	raw, isText := body.(string)
	if !isText {
		encoded, err := json.Marshal(body)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		raw = string(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(raw))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	NewWithT(t).Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	return response.StatusCode, answer, response.Header
}

func headersOf(protocol llmserver.Protocol) map[string]string {
	if protocol == llmserver.Anthropic {
		return map[string]string{"Content-Type": "application/json", "x-api-key": key, "anthropic-version": "2026-10-21"}
	}
	return map[string]string{"Content-Type": "application/json; charset=utf-8", "Authorization": "Bearer " + key}
}

func addressOf(server *llmserver.Server, protocol llmserver.Protocol) string {
	if protocol == llmserver.Anthropic {
		return server.AnthropicURL() + "/v1/messages"
	}
	return server.OpenAIURL() + "/chat/completions"
}

func requestOf(protocol llmserver.Protocol) object {
	if protocol == llmserver.Anthropic {
		return message()
	}
	return completion()
}

func answerOf(protocol llmserver.Protocol, answer object) (text string, stopped any) {
	if protocol == a {
		for _, block := range answer["content"].([]any) {
			text += block.(object)["text"].(string)
		}
		return text, answer["stop_reason"]
	}
	choice := answer["choices"].([]any)[0].(object)
	text, _ = at(choice, "message")["content"].(string)
	return text, choice["finish_reason"]
}

func TestTheServerAnswersWell(t *testing.T) {
	for _, protocol := range []llmserver.Protocol{a, o} {
		t.Run(string(protocol), func(t *testing.T) {
			g := NewWithT(t)
			server := llmserver.Start(llmserver.Options{Key: key})
			defer server.Close()
			seen := map[int]bool{}
			for range 2 { // the second round asks the same
				for _, user := range []string{"CVE-2026-0001", "CVE-2026-0002 and CVE-2026-0003", "KSV001", "AVD-KSV-0014", "nothing", "GHSA-aaaa-bbbb-cccc"} {
					request := requestOf(protocol)
					request["messages"] = []any{object{"role": "user", "content": user}}
					_, answer, _ := send(t, addressOf(server, protocol), headersOf(protocol), request)
					text, _ := answerOf(protocol, answer)
					list := parse(text)["hypotheses"].([]any)
					seen[len(list)] = true
					g.Expect(len(list)).To(And(BeNumerically(">=", 1), BeNumerically("<=", 3)))
					last := 100.0
					for _, item := range list {
						h := item.(object)
						g.Expect(h["cause"]).NotTo(BeEmpty())
						g.Expect(h["rationale"]).NotTo(ContainSubstring("%!"))
						g.Expect(h["confidence"]).To(BeNumerically("<=", last))
						last = h["confidence"].(float64)
						g.Expect(h["recommendedAction"]).To(BeElementOf("None", "Notify", "ProposePullRequest"))
					}
					if strings.HasPrefix(user, "CVE") {
						g.Expect(text).To(ContainSubstring(user[:13]))
					}
				}
			}
			g.Expect(len(seen)).To(BeNumerically(">", 1), "not every answer is as long as the other")
			stats := server.Stats()
			g.Expect(stats.Calls).To(Equal(12))
			g.Expect(stats.ByKey).To(HaveLen(6))
			g.Expect(stats.ByKey).To(HaveEach(2))
			g.Expect(stats.MaxConcurrent).To(Equal(1))
			g.Expect(stats.InputTokens).To(BeNumerically(">", 12))
			g.Expect(stats.OutputTokens).To(BeNumerically(">", 12))
			call := server.Journal()[0]
			g.Expect([]any{call.Number, call.Protocol, call.User, call.System, call.MaxTokens}).To(Equal([]any{1, protocol, "CVE-2026-0001", call.System, int64(1024)}))
		})
	}
}

func TestBehavioursComeInTheirOrder(t *testing.T) {
	for _, protocol := range []llmserver.Protocol{a, o} {
		t.Run(string(protocol), func(t *testing.T) {
			g := NewWithT(t)
			server := llmserver.Start(llmserver.Options{Key: key})
			defer server.Close()
			server.Queue(llmserver.Truncated(), llmserver.Refusal(), llmserver.Answer(strings.Repeat("long ", 2000)))
			server.Script(func(call *llmserver.Call) llmserver.Behaviour {
				if call.Number == 4 {
					return llmserver.Answer("from the script")
				}
				return nil
			})
			var stops []any
			var texts []string
			for range 5 {
				_, answer, _ := send(t, addressOf(server, protocol), headersOf(protocol), requestOf(protocol))
				text, stopped := answerOf(protocol, answer)
				stops, texts = append(stops, stopped), append(texts, text)
			}
			want := map[llmserver.Protocol][]any{a: {"max_tokens", "refusal", "max_tokens", "end_turn", "end_turn"}, o: {"length", "stop", "length", "stop", "stop"}}
			g.Expect(stops).To(Equal(want[protocol]))
			g.Expect(texts[1]).To(BeEmpty())
			g.Expect(texts[3]).To(Equal("from the script"))
			g.Expect(texts[4]).To(ContainSubstring(`"hypotheses"`))
		})
	}
}

func TestAGateHoldsCallsBack(t *testing.T) {
	g := NewWithT(t)
	server, gate := llmserver.Start(llmserver.Options{Key: key}), llmserver.NewGate()
	defer server.Close()
	server.Script(func(*llmserver.Call) llmserver.Behaviour { return gate.Then(llmserver.Good()) })
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { send(t, addressOf(server, o), headersOf(o), completion()) })
	}
	for range 3 {
		g.Expect((<-gate.Arrived()).Protocol).To(Equal(o))
	}
	g.Expect(server.Stats().OutputTokens).To(BeZero(), "nobody has an answer yet")
	gate.Open()
	group.Wait()
	g.Expect(server.Stats().MaxConcurrent).To(Equal(3))
	g.Expect(server.Stats().OutputTokens).NotTo(BeZero())
}

func TestWhatHangsEndsWithItsClientOrTheServer(t *testing.T) {
	g := NewWithT(t)
	server, gate := llmserver.Start(llmserver.Options{}), llmserver.NewGate()
	gate.Open()
	server.Queue(gate.Then(llmserver.Hang()), gate.Then(llmserver.Hang()))
	encoded, err := json.Marshal(completion())
	g.Expect(err).NotTo(HaveOccurred())
	ask := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, addressOf(server, o), bytes.NewReader(encoded))
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		return errorOf(err, response.Body.Close())
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-gate.Arrived()
		cancel()
		<-gate.Arrived()
		server.Close()
	}()
	g.Expect(ask(ctx)).To(MatchError(context.Canceled))
	g.Expect(ask(t.Context())).To(Succeed(), "an answer without content")
}

func errorOf(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func TestTheSlowTheHugeAndTheRaw(t *testing.T) {
	g := NewWithT(t)
	server, release := llmserver.Start(llmserver.Options{Key: key}), make(chan struct{})
	defer server.Close()
	server.Queue(llmserver.Slow(release), llmserver.Answer("a \xff b \uFFFD"), llmserver.Huge(1<<20), llmserver.Drop())
	ask := func() (*http.Response, error) {
		encoded, err := json.Marshal(message())
		g.Expect(err).NotTo(HaveOccurred())
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, addressOf(server, a), bytes.NewReader(encoded))
		g.Expect(err).NotTo(HaveOccurred())
		for name, value := range headersOf(a) {
			request.Header.Set(name, value)
		}
		return http.DefaultClient.Do(request)
	}
	read := func() string {
		response, err := ask()
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		if response.ContentLength < 0 { // it came in parts: the headers were here before the release
			select {
			case <-release:
			default:
				close(release)
			}
		}
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return string(body)
	}
	g.Expect(read()).To(ContainSubstring(`\"hypotheses\"`))
	g.Expect(read()).To(ContainSubstring("\"a \xff b \uFFFD\""))
	g.Expect(read()).To(HaveLen(1 << 20))
	_, err := ask()
	g.Expect(err).To(HaveOccurred())
}

func TestOtherPathsAreNotThere(t *testing.T) {
	g := NewWithT(t)
	server := llmserver.Start(llmserver.Options{})
	defer server.Close()
	for _, path := range []string{"/", "/v1/models", "/v1/v1/messages", "/chat/completions"} {
		response, err := http.Get(server.AnthropicURL() + path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(404))
	}
	g.Expect(server.Stats().Calls).To(BeZero())
}
