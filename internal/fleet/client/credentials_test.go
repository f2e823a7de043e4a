// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

func TestTheFolderOfCredentials(t *testing.T) {
	all := client.Credentials{BaseURL: "https://fleet.example", Username: "1", Password: "p"}
	other := client.Credentials{BaseURL: "https://environment.example", Username: "2", Password: "e"}
	for name, test := range map[string]struct {
		files    map[string]string
		fallback client.Credentials
		want     client.Credentials
		err      string
	}{
		"holds all three":             {map[string]string{"base-url": "https://fleet.example\n", "username": "1\n", "password": "p\n"}, other, all, ""},
		"is empty":                    {nil, other, other, ""},
		"holds other things":          {map[string]string{"README": "x"}, other, other, ""},
		"is never mixed with another": {map[string]string{"username": "1", "password": "p"}, other, client.Credentials{}, " lacks base-url"},
		"holds an empty file":         {map[string]string{"base-url": "https://fleet.example", "username": " \n", "password": ""}, other, client.Credentials{}, " lacks username and password"},
		"and nothing else":            {nil, client.Credentials{}, client.Credentials{}, ": create the Secret candor-fleet beside the manager, with base-url, username and password"},
		"and half an environment": {
			nil, client.Credentials{BaseURL: "https://fleet.example", Username: "1"}, client.Credentials{}, ": the environment lacks FLEET_MANAGEMENT_PASSWORD",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			folder := t.TempDir()
			for file, content := range test.files {
				g.Expect(os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600)).To(Succeed())
			}
			got, err := client.FolderCredentials(folder, test.fallback)()
			if test.err != "" {
				g.Expect(err).To(MatchError(client.ErrNoCredentials))
				g.Expect(err).To(MatchError(HaveSuffix(test.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(test.want))
		})
	}
	for name, folder := range map[string]string{"is not there": filepath.Join(t.TempDir(), "none"), "has no name": ""} {
		t.Run(name, func(t *testing.T) {
			got, err := client.FolderCredentials(folder, other)()
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(got).To(Equal(other))
		})
	}
	t.Run("cannot be read", func(t *testing.T) {
		folder := t.TempDir()
		NewWithT(t).Expect(os.Mkdir(filepath.Join(folder, "password"), 0o700)).To(Succeed())
		_, err := client.FolderCredentials(folder, other)()
		NewWithT(t).Expect(err).To(MatchError(client.ErrNoCredentials))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("is a directory")))
	})
}

func TestAddressesOfFleetManagement(t *testing.T) {
	for name, test := range map[string]struct{ baseURL, want, err string }{
		"as it is":                       {"https://fleet.example", "https://fleet.example/", ""},
		"with a slash":                   {"https://fleet.example/", "https://fleet.example/", ""},
		"with blanks":                    {" https://fleet.example\n", "https://fleet.example/", ""},
		"with a port":                    {"https://fleet.example:8443", "https://fleet.example:8443/", ""},
		"of the page about pipelines":    {"https://fleet.example/pipeline.v1.PipelineService/", "https://fleet.example/", ""},
		"of the page about collectors":   {"https://fleet.example/collector.v1.CollectorService", "https://fleet.example/", ""},
		"behind a gateway":               {"https://gateway.example/fleet/", "https://gateway.example/fleet/", ""},
		"behind a gateway, of the page":  {"https://gateway.example/fleet/pipeline.v1.PipelineService//", "https://gateway.example/fleet/", ""},
		"in cleartext":                   {"http://fleet.example", "", "base-url must begin with https:// and a host"},
		"without a scheme":               {"fleet.example", "", "base-url must begin with https:// and a host"},
		"without a host":                 {"https:///fleet", "", "base-url must begin with https:// and a host"},
		"with a user":                    {"https://user:" + password + "@fleet.example", "", "base-url must hold no username or password: they have places of their own"},
		"with a query":                   {"https://fleet.example/?token=" + password, "", "base-url must end before ? and #"},
		"with a fragment":                {"https://fleet.example/#" + password, "", "base-url must end before ? and #"},
		"that is none":                   {"https://fleet.example:" + password, "", "base-url is no address: it looks like https://fleet-management-prod-001.grafana.net"},
		"with what is no character":      {"https://fleet.example/%zz" + password, "", "base-url is no address: it looks like https://fleet-management-prod-001.grafana.net"},
		"that would be read as a scheme": {password + "://fleet.example", "", "base-url must begin with https:// and a host"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var asked []string
			s := standAt(t, test.baseURL, &http.Client{Transport: sender(func(request *http.Request) (*http.Response, error) {
				asked = append(asked, request.URL.String())
				g.Expect(request.Host).To(Equal(request.URL.Host))
				user, secret, _ := request.BasicAuth()
				g.Expect(user + " " + secret).To(Equal(username + " " + password))
				return answerOf(http.StatusOK, nil), nil
			})})
			err := list(t.Context(), s.Client)
			if test.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(asked).To(Equal([]string{test.want + "pipeline.v1.PipelineService/ListPipelines"}))
				return
			}
			f := faultOf(t, err)
			g.Expect(f.Kind).To(Equal(fault.Wait))
			g.Expect(f.Reason).To(Equal(fleetmanagementv1alpha1.ReasonBaseURLWrong))
			g.Expect(f).To(MatchError(test.err))
			g.Expect(asked).To(BeEmpty())
		})
	}
}

func TestNothingPrintsAPassword(t *testing.T) {
	secret := client.Credentials{BaseURL: "https://user:" + password + "@fleet.example/?t=" + password, Username: username, Password: password}
	s := newStand(t)
	NewWithT(t).Expect(list(t.Context(), s.Client)).To(Succeed())
	options := client.Options{Credentials: func() (client.Credentials, error) { return secret, nil }}
	for name, thing := range map[string]any{
		"credentials": secret, "a pointer to them": &secret, "them in a struct": struct{ C client.Credentials }{secret}, "options": options, "a client": s.Client,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T"} {
			NewWithT(t).Expect(fmt.Sprintf(verb, thing)).NotTo(ContainSubstring(password), "%s as %s", name, verb)
		}
		text, _ := json.Marshal(thing)
		NewWithT(t).Expect(string(text)).NotTo(ContainSubstring(password), name)
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "thing", thing)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "thing", thing)
		NewWithT(t).Expect(log.String()).NotTo(ContainSubstring(password), name)
	}
	NewWithT(t).Expect(secret.String()).To(Equal("credentials of fleet.example"))
	NewWithT(t).Expect(client.Credentials{}.String()).To(Equal("credentials of no address"))
}

func TestNoErrorAndNoSpanHoldsAPassword(t *testing.T) {
	const basic = "NDcxMTpodW50ZXIyLWh1bnRlcjI="
	echo := func(status int, kind, format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, given, _ := r.BasicAuth()
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, format, given+" "+r.Header.Get("Authorization"))
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"the API repeats it":  echo(400, "application/json", `{"code":"invalid_argument","message":"%s"}`),
		"the edge repeats it": echo(403, "text/plain", "%s"),
		"a redirect repeats it": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://user:"+password+"@elsewhere.example/?t="+password, http.StatusTemporaryRedirect)
		},
		"the type repeats it":    echo(200, "text/"+password, "%s"),
		"the connection ends":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"the answer is no proto": echo(200, "application/proto", "%s"),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			url, ca := serve(t, handler)
			s := standAt(t, url, httpClient(t, ca))
			err := list(t.Context(), s.Client)
			g.Expect(err).To(HaveOccurred())
			held := list(t.Context(), s.Client)
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprint(held), fmt.Sprint(s.Available()), spansOf(s)} {
				g.Expect(text).NotTo(ContainSubstring(password))
				g.Expect(text).NotTo(ContainSubstring(basic))
			}
			for unwrapped := err; unwrapped != nil; unwrapped = errors.Unwrap(unwrapped) {
				g.Expect(unwrapped.Error()).NotTo(ContainSubstring(password))
			}
		})
	}
}

// spansOf writes down everything that spans say.
func spansOf(s *stand) string {
	var text strings.Builder
	for _, span := range s.spans.Ended() {
		_, _ = fmt.Fprintln(&text, span.Name(), span.Status(), span.Attributes())
		for _, event := range span.Events() {
			_, _ = fmt.Fprintln(&text, event.Name, event.Attributes)
		}
	}
	return text.String()
}

func TestASpanTellsOfACall(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	s.server.Fail(fleetserver.Rule{Respond: fleetserver.ConnectError(connect.CodeNotFound, "none")})
	g.Expect(s.DeletePipeline(t.Context(), "7")).NotTo(Succeed())
	facts := func(i int) map[string]string {
		told := map[string]string{}
		for _, attribute := range s.spans.Ended()[i].Attributes() {
			told[string(attribute.Key)] = attribute.Value.String()
		}
		return told
	}
	g.Expect(s.spans.Ended()).To(HaveLen(2))
	g.Expect(s.spans.Ended()[0].Name()).To(Equal("/pipeline.v1.PipelineService/ListPipelines"))
	g.Expect(s.spans.Ended()[0].InstrumentationScope().Name).To(Equal("candor"))
	g.Expect(facts(0)).To(Equal(map[string]string{
		"rpc.system": "connect", "rpc.service": "pipeline.v1.PipelineService", "rpc.method": "ListPipelines", "server.address": "127.0.0.1", "net.peer.name": "127.0.0.1",
	}))
	g.Expect(facts(1)).To(HaveKeyWithValue("rpc.connect_rpc.error_code", "not_found"))
	g.Expect(s.spans.Ended()[1].Status().Description).To(Equal("DeletePipeline: Fleet Management has no such thing (404 Not Found, not_found): none"))
}

func TestASpanTellsNotWhatAServerSaysOfContentsThatItRefuses(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, `token = "of-a-person"`)})
	_, err := s.CreatePipeline(t.Context(), client.Pipeline{Name: "p"})
	g.Expect(err).To(MatchError(ContainSubstring("of-a-person")))
	g.Expect(spansOf(s)).NotTo(ContainSubstring("of-a-person"))
	g.Expect(s.spans.Ended()[0].Status().Description).To(Equal("CreatePipeline: Fleet Management refuses it (400 Bad Request, invalid_argument)"))
}

func TestAnAnswerThatIsTooLargeIsNotHeld(t *testing.T) {
	g := NewWithT(t)
	sent := make(chan int64, 1)
	url, ca := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/proto")
		w.Header().Set("Content-Length", fmt.Sprint(300<<20))
		n, _ := io.Copy(w, io.LimitReader(zeros{}, 300<<20))
		sent <- n
	})
	s := standAt(t, url, httpClient(t, ca))
	err := list(t.Context(), s.Client)
	g.Expect(faultOf(t, err).Kind).To(Equal(fault.Retry))
	g.Expect(err).To(MatchError("ListPipelines: no usable answer of Fleet Management (200 OK): the answer is too large"))
	g.Expect(<-sent).To(BeNumerically("<", 32<<20), "what the buffers of the connection hold")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
