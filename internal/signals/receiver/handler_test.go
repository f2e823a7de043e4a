// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/candor-dev/candor/internal/signals/notify"
)

// told is what a sender is told, beside the headers.
func told(w *httptest.ResponseRecorder) string {
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

func TestASignalIsTaken(t *testing.T) {
	web := Signal{Severity: "HIGH", Kind: "Deployment", Name: "web", ID: "a"}
	signed := web
	signed.At = start
	for name, c := range map[string]struct {
		headers []string
		want    Signal
	}{
		"by the signature of its body":                        {plain(firing), web},
		"by a signature with a time, which is that of signal": {stamped(start, firing), signed},
		"by a token": {bearing(token), web},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld()
			answer := w.said(request(firing, c.headers...))
			g.Expect(told(answer)).To(Equal(`202 {"result":"created"}`))
			g.Expect(answer.Header()).To(Equal(http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "Content-Length": {"21"}}))
			g.Expect(w.taken).To(Equal([]Signal{c.want}))
			g.Expect(w.received(FormCandor, Created)).To(Equal(1.0))
		})
	}
}

func TestWhatBecameOfASignalIsTold(t *testing.T) {
	const full = `429 {"result":"full","error":"the policy has as many Findings as its webhookReceiver.maxFindings allows: resolve some, or raise it"}`
	for result, want := range map[Result]string{
		Created: `202 {"result":"created"}`, Updated: `202 {"result":"updated"}`, Unchanged: `202 {"result":"unchanged"}`,
		Filtered: `202 {"result":"filtered"}`, Resolved: `202 {"result":"resolved"}`, Late: `202 {"result":"late"}`, Full: full,
	} {
		g, w := NewWithT(t), newWorld()
		w.result = result
		answer := w.said(request(firing, plain(firing)...))
		g.Expect(told(answer)).To(Equal(want))
		g.Expect(w.received(FormCandor, result)).To(Equal(1.0), string(result))
		if result == Full {
			g.Expect(answer.Header().Get("Retry-After")).To(Equal("60"))
			w.result = Created
			g.Expect(told(w.said(request(firing, plain(firing)...)))).To(Equal(`202 {"result":"created"}`), "it may be tried again")
		}
	}
}

func TestTheSameAgainSaysTheSameAndAnEarlierOneIsAReplay(t *testing.T) {
	ended := replaced("status", `"resolved"`)
	for name, sent := range map[string]func(body string) []string{
		"signed":               plain,
		"signed with one time": func(body string) []string { return stamped(start, body) },
		"with a token":         func(string) []string { return bearing(token) },
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld()
			send := func(body string) string { return told(w.said(request(body, sent(body)...))) }
			g.Expect(send(firing)).To(Equal(`202 {"result":"created"}`))
			w.result = Unchanged
			g.Expect(send(firing)).To(Equal(`202 {"result":"unchanged"}`), "which the store says: it knows what other replicas were told")
			w.result = Resolved
			g.Expect(send(ended)).To(Equal(`202 {"result":"resolved"}`))
			g.Expect(send(firing)).To(HavePrefix("401"), "it would open again what has ended")
			g.Expect(send(ended)).To(HavePrefix("202"))
			g.Expect(w.taken).To(HaveLen(4))
			g.Expect(w.refused(ReasonReplay)).To(Equal(1.0))
		})
	}
	t.Run("signed with the time of each", func(t *testing.T) {
		g, w := NewWithT(t), newWorld()
		for i, body := range []string{firing, ended, firing} {
			at := start.Add(time.Duration(i) * time.Second)
			g.Expect(told(w.said(request(body, stamped(at, body)...)))).To(HavePrefix("202"))
		}
		g.Expect(w.taken).To(HaveLen(3))
	})
	t.Run("to another policy with the same key", func(t *testing.T) {
		g, w := NewWithT(t), newWorld()
		w.said(request(firing, plain(firing)...))
		w.said(request(ended, plain(ended)...))
		other := request(firing, plain(firing)...)
		other.URL.Path = "/webhook/team-a/signing"
		g.Expect(told(w.said(other))).To(Equal(`202 {"result":"created"}`))
	})
	for _, result := range []Result{Late, Full} {
		t.Run("after one that was "+string(result)+", which was not the last word", func(t *testing.T) {
			g, w := NewWithT(t), newWorld()
			w.said(request(firing, plain(firing)...))
			w.result = result
			w.said(request(ended, plain(ended)...))
			w.result = Unchanged
			g.Expect(told(w.said(request(firing, plain(firing)...)))).To(Equal(`202 {"result":"unchanged"}`))
		})
	}
	for _, field := range []string{"kind", "name", "container", "id"} {
		t.Run("after one of another "+field, func(t *testing.T) {
			g, w := NewWithT(t), newWorld()
			other := replaced(field, `"other"`)
			w.said(request(firing, plain(firing)...))
			w.said(request(other, plain(other)...))
			g.Expect(told(w.said(request(firing, plain(firing)...)))).To(HavePrefix("202"))
		})
	}
	t.Run("after one that the policy does not ask for, which ended what stood", func(t *testing.T) {
		g, w := NewWithT(t), newWorld()
		milder := replaced("severity", `"LOW"`)
		w.said(request(firing, plain(firing)...))
		w.result = Filtered
		w.said(request(milder, plain(milder)...))
		g.Expect(told(w.said(request(firing, plain(firing)...)))).To(HavePrefix("401"))
	})
	t.Run("after ten minutes", func(t *testing.T) {
		g, w := NewWithT(t), newWorld()
		w.said(request(firing, plain(firing)...))
		w.said(request(ended, plain(ended)...))
		w.clock.SetTime(start.Add(10*time.Minute + time.Second))
		g.Expect(told(w.said(request(firing, plain(firing)...)))).To(HavePrefix("202"))
	})
}

// exchange sends a request as it is and returns the answer as it is, but for the time of it.
func exchange(t *testing.T, address, path, body string, headers ...string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a connection that is left open fails the test, and does not hang it
	var head strings.Builder
	fmt.Fprintf(&head, "%s HTTP/1.1\r\nHost: candor\r\nContent-Length: %d\r\n", path, len(body))
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&head, "%s: %s\r\n", headers[i], headers[i+1])
	}
	written := make(chan struct{})
	go func() { // a refusal may come before the end of the body
		defer close(written)
		_, _ = io.WriteString(conn, head.String()+"\r\n"+body)
	}()
	answer, err := io.ReadAll(conn)
	if len(answer) == 0 {
		t.Fatalf("no answer to %s: %v", path, err)
	}
	<-written
	return regexp.MustCompile(`Date: .*\r\n`).ReplaceAllString(string(answer), "")
}

func TestWhoeverIsNotAuthenticatedGetsOneAnswer(t *testing.T) {
	w := newWorld()
	server := httptest.NewUnstartedServer(w.Handler)
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().String()
	ended := replaced("status", `"resolved"`)
	for _, body := range []string{firing, ended} { // so that there is something to replay
		NewWithT(t).Expect(told(w.said(request(body, plain(body)...)))).To(HavePrefix("202"))
	}
	large := strings.Repeat("x", 2<<20)
	justTooLarge := strings.Repeat(" ", maxBody+1-len(firing)) + firing

	answers := map[string][]string{}
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		reason     Reason
	}{
		"an unknown namespace":              {"/webhook/team-b/signals", firing, plain(firing), ReasonUnknown},
		"an unknown policy":                 {"/webhook/team-a/nothing", firing, stamped(start, firing), ReasonUnknown},
		"a name that none can have":         {"/webhook/team-a/A%00B", firing, plain(firing), ReasonUnknown},
		"a policy without a token":          {"/webhook/team-a/signing", firing, bearing(token), ReasonUnknown},
		"a policy without a key":            {"/webhook/team-a/token", firing, plain(firing), ReasonUnknown},
		"a wrong signature":                 {path, firing, []string{notify.HeaderSignature, "sha256=" + strings.Repeat("0", 64)}, ReasonSignature},
		"a wrong clock":                     {path, firing, stamped(start.Add(-time.Hour), firing), ReasonClock},
		"a time that is none":               {path, firing, []string{notify.HeaderTimestamp, "x", notify.HeaderSignature, "sha256="}, ReasonMalformed},
		"a replay":                          {path, firing, plain(firing), ReasonReplay},
		"a wrong token":                     {path, firing, bearing("no"), ReasonToken},
		"nothing":                           {path, firing, nil, ReasonUnsigned},
		"a body of 2 MiB":                   {path, large, plain(large), ReasonSize},
		"a body of 2 MiB to nobody":         {"/webhook/team-b/signals", large, plain(large), ReasonSize},
		"a body one byte too large":         {path, justTooLarge, plain(justTooLarge), ReasonSize},
		"a body of no JSON, and no key":     {path, "{", nil, ReasonUnsigned},
		"no body, and a signature of it":    {"/webhook/team-b/signals", "", plain(""), ReasonUnknown},
		"a type that there is not":          {path, firing, []string{"Content-Type", "/;"}, ReasonUnsigned},
		"a batch of events without a token": {path, "[]", []string{"Content-Type", "application/cloudevents-batch+json"}, ReasonUnsigned},
	} {
		before := w.refused(c.reason)
		answer := exchange(t, address, "POST "+c.path, c.body, c.headers...)
		answers[answer] = append(answers[answer], name)
		if w.refused(c.reason) != before+1 {
			t.Errorf("%s: not counted as %s", name, c.reason)
		}
	}
	g := NewWithT(t)
	g.Expect(answers).To(HaveLen(1), "%v", answers)
	for answer := range answers {
		g.Expect(answer).To(HavePrefix("HTTP/1.1 401 Unauthorized\r\n"))
	}
	g.Expect(w.taken).To(HaveLen(2))
	g.Expect(w.logged.String()).NotTo(Or(ContainSubstring("team-b"), ContainSubstring("nothing"), ContainSubstring(secret), ContainSubstring(token)))
}

func TestABodyThatEndsEarlyIsRefusedLikeEverything(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	server := httptest.NewUnstartedServer(w.Handler)
	server.StartTLS()
	defer server.Close()
	whole := exchange(t, server.Listener.Addr().String(), "POST "+path, firing)

	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	_, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: candor\r\nContent-Length: 100\r\n\r\n{")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.CloseWrite()).To(Succeed())
	answer, _ := io.ReadAll(conn)
	g.Expect(regexp.MustCompile(`Date: .*\r\n`).ReplaceAllString(string(answer), "")).To(Equal(whole))
	g.Expect(w.refused(ReasonUnread)).To(Equal(1.0))
}

func TestNothingElseIsFoundWhateverItNames(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	want := ""
	for _, line := range []string{
		"GET " + path, "PUT " + path, "HEAD " + path, "OPTIONS " + path, "GET /webhook/team-b/signals", "POST /", "POST /webhook", "POST /webhook/team-a",
		"POST /webhook/team-a/", "POST /webhook//signals", "POST " + path + "/", "POST " + path + "/more", "POST /Webhook/team-a/signals", "POST /webhook/a%2Fb/c",
	} {
		method, target, _ := strings.Cut(line, " ")
		r := httptest.NewRequest(method, target, strings.NewReader(firing))
		for i, headers := 0, plain(firing); i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer := w.said(r)
		got := fmt.Sprint(answer.Header(), told(answer))
		want = max(want, got)
		g.Expect(got).To(Equal(want), line)
		g.Expect(answer.Code).To(Equal(http.StatusNotFound), line)
	}
	g.Expect(w.taken).To(BeEmpty())
}

func TestWhoIsAuthenticatedIsToldWhatIsWrong(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	wrong := replaced("severity", `"high"`)
	g.Expect(told(w.said(request(wrong, plain(wrong)...)))).To(Equal(`400 {"error":"severity: must be LOW, MEDIUM, HIGH or CRITICAL"}`))
	g.Expect(told(w.said(request(wrong, plain(wrong)...)))).To(HavePrefix("400"), "what was not taken is no replay")
	g.Expect(w.refused(ReasonInvalid)).To(Equal(2.0))
	largest := firing + strings.Repeat(" ", maxBody-len(firing))
	g.Expect(told(w.said(request(largest, plain(largest)...)))).To(Equal(`202 {"result":"created"}`))
}

func TestTroubleOfTheClusterAsksToTryAgain(t *testing.T) {
	const again = `503 {"error":"the cluster gives no answer: try again"}`
	g, w := NewWithT(t), newWorld()
	w.err = errDown
	answer := w.said(request(firing, plain(firing)...))
	g.Expect(told(answer)).To(Equal(again))
	g.Expect(answer.Header().Get("Retry-After")).To(Equal("1"))
	w.err, w.trouble = nil, errDown
	g.Expect(told(w.said(request(firing, plain(firing)...)))).To(Equal(again))
	g.Expect(w.refused(ReasonTrouble)).To(Equal(2.0))
	w.trouble = nil
	g.Expect(told(w.said(request(firing, plain(firing)...)))).To(Equal(`202 {"result":"created"}`))
	g.Expect(w.logged.String()).To(ContainSubstring("team-a"))
	g.Expect(w.logged.String()).NotTo(ContainSubstring(secret), "an error may repeat what a signal said")
}

func TestEventsOfFalcoStayInTheirNamespace(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	foreign := strings.Replace(falcoInPod, `"team-a"`, `"team-b"`, 1)
	g.Expect(told(w.said(request(foreign, bearing(token)...)))).To(Equal(`202 {"result":"filtered"}`))
	g.Expect(w.taken).To(BeEmpty())
	g.Expect(told(w.said(request(falcoInPod, bearing(token)...)))).To(Equal(`202 {"result":"created"}`))
	g.Expect(w.taken).To(HaveLen(1))
	g.Expect(w.received(FormFalco, Filtered)).To(Equal(1.0))
	g.Expect(fmt.Sprint(w.taken, w.logged.String())).NotTo(ContainSubstring("hunter2"))
}

func TestAPolicyTakesSoMuchASecond(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	send := func(id int) *httptest.ResponseRecorder {
		body := replaced("id", fmt.Sprintf(`"%d"`, id))
		return w.said(request(body, plain(body)...))
	}
	for range 100 { // those who are not authenticated use up nothing
		g.Expect(w.said(request(firing, bearing("no")...)).Code).To(Equal(http.StatusUnauthorized))
	}
	for id := range 50 {
		g.Expect(send(id).Code).To(Equal(http.StatusAccepted))
	}
	answer := send(50)
	g.Expect(told(answer)).To(Equal(`429 {"error":"too many signals for this policy: 10 a second are taken"}`))
	g.Expect(answer.Header().Get("Retry-After")).To(Equal("1"))
	g.Expect(w.refused(ReasonRate)).To(Equal(1.0))
	g.Expect(send(49).Code).To(Equal(http.StatusTooManyRequests), "what is known counts as well")

	w.clock.SetTime(start.Add(200 * time.Millisecond))
	g.Expect(send(50).Code).To(Equal(http.StatusAccepted), "one that had to wait was not counted, and is no replay")
	g.Expect(send(51).Code).To(Equal(http.StatusAccepted))
	g.Expect(send(52).Code).To(Equal(http.StatusTooManyRequests))

	other := request(firing, plain(firing)...)
	other.URL.Path = "/webhook/team-a/signing"
	g.Expect(w.said(other).Code).To(Equal(http.StatusAccepted), "one policy takes nothing from another")
}

func TestRatesOfPoliciesAreBounded(t *testing.T) {
	r := newRates()
	for i := range maxPolicies + 10 {
		r.wait(types.NamespacedName{Name: fmt.Sprint(i)}, start)
	}
	NewWithT(t).Expect(r.policies.Len()).To(Equal(maxPolicies))
}

func TestSoManyRequestsAreAnsweredAtOnce(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	w.entered, w.hold = make(chan struct{}, maxRequests), make(chan struct{})
	codes := make(chan int, maxRequests)
	send := func(i int) *httptest.ResponseRecorder {
		body := replaced("id", fmt.Sprintf(`"%d"`, i))
		r := request(body, plain(body)...)
		if i%2 == 1 {
			r.URL.Path = "/webhook/team-a/signing"
		}
		return w.said(r)
	}
	for i := range maxRequests - 1 {
		go func() { codes <- send(i).Code }()
		<-w.entered
	}
	answer := send(0)
	g.Expect(told(answer)).To(Equal(`503 {"error":"this very request is being taken: try again"}`))

	go func() { codes <- send(maxRequests - 1).Code }()
	<-w.entered
	answer = send(maxRequests)
	g.Expect(told(answer)).To(Equal(`503 {"error":"busy: try again"}`))
	g.Expect(answer.Header().Get("Retry-After")).To(Equal("1"))
	g.Expect(w.refused(ReasonBusy)).To(Equal(2.0))

	close(w.hold)
	for range maxRequests {
		g.Expect(<-codes).To(Equal(http.StatusAccepted))
	}
	w.entered = nil
	g.Expect(send(maxRequests).Code).To(Equal(http.StatusAccepted))
}

func TestTheGaugeTellsWhetherSignalsCanComeIn(t *testing.T) {
	g, m := NewWithT(t), NewMetrics()
	g.Expect(gauge(m)).To(Equal(0.0))
	up := true
	m.Watch(func() bool { return up })
	g.Expect(gauge(m)).To(Equal(1.0))
	up = false
	g.Expect(gauge(m)).To(Equal(0.0))
}
