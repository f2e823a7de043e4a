// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/render"
)

// MaxSinkAnswer is how much is read of the answer of a sink, in bytes. Nobody is told what it says.
const MaxSinkAnswer = 4 << 10

// maxAddress is how long an address may be, in bytes. Servers refuse longer ones.
const maxAddress = 8 << 10

// Keys of Secrets, where a sink names none.
const (
	defaultURLKey     = "url"
	defaultSigningKey = "secret"
)

// destination is where a sink is posted to. Nothing of it gets into a message, a log or a status.
type destination struct {
	address *url.URL
	// signing is the key of the signature; empty for none.
	signing []byte
}

// deliver sends a batch, as far as it comes.
func (n *Notifier) deliver(ctx context.Context, b *batch) report {
	target, found, err := n.target(ctx, b.sinkKey)
	switch {
	case err != nil:
		return n.stuck(b, err)
	case !found:
		return report{gone: true}
	}
	to, wrong := n.resolve(ctx, target)
	if wrong != nil {
		return report{trouble: wrong}
	}
	requests, err := n.compose(ctx, b, target)
	if err != nil {
		return n.stuck(b, err)
	}
	var r report
	for _, request := range requests {
		if n.isOver() {
			r.ended = true
			break
		}
		if r.trouble = n.post(ctx, to, request); r.trouble != nil {
			r.failed = request.Events
			break
		}
		r.delivered = append(r.delivered, request.Events...)
	}
	n.count(target, b, r)
	return r
}

// stuck is what becomes of a batch that could not be made, for a reason that is none of the sink's.
func (n *Notifier) stuck(b *batch, err error) report {
	logf.Log.WithName("notify").Error(err, "Cannot make a message", "policy", b.policyName().String(), "sink", b.sink)
	return report{trouble: &trouble{message: "Candor could not make the message; its log says why."}}
}

// count counts what was sent.
func (n *Notifier) count(target notify.Target, b *batch, r report) {
	switch {
	case b.message == nil || r.ended:
	case r.trouble != nil:
		n.Metrics.notified(target.Sink.Type, b.message.Event, outcomeFailed)
	default:
		n.Metrics.notified(target.Sink.Type, b.message.Event, outcomeDelivered)
	}
	for _, p := range b.parcels {
		switch {
		case r.has(p.event.Key):
			n.Metrics.notified(target.Sink.Type, p.kind, outcomeDelivered)
		case slices.Contains(r.failed, p.event.Key):
			n.Metrics.notified(target.Sink.Type, p.kind, outcomeFailed)
		}
	}
}

// resolve finds out where a sink is.
func (n *Notifier) resolve(ctx context.Context, target notify.Target) (destination, *trouble) {
	text, field := target.Sink.URL, "url"
	if from := target.Sink.URLFrom; from != nil {
		field = "urlFrom"
		value, wrong := n.secret(ctx, target, "urlFrom", from, defaultURLKey)
		if wrong != nil {
			return destination{}, wrong
		}
		text = string(value)
	}
	if len(text) > maxAddress {
		return destination{}, &trouble{misconfigured: true, message: fmt.Sprintf("%s: what it holds is longer than %d bytes, which no address is.", field, maxAddress)}
	}
	address, err := url.Parse(strings.TrimSpace(text))
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		return destination{}, &trouble{misconfigured: true, message: field + ": what it holds is no address: it must begin with https:// and name a server."}
	}
	if n.Guard.CheckURL(address) != nil {
		return destination{}, n.disallowed()
	}
	to := destination{address: address}
	if from := target.Sink.SigningKeyFrom; from != nil {
		value, wrong := n.secret(ctx, target, "signingKeyFrom", from, defaultSigningKey)
		if wrong != nil {
			return destination{}, wrong
		}
		if to.signing = bytes.TrimRight(value, "\r\n"); len(to.signing) == 0 {
			return destination{}, &trouble{misconfigured: true, message: "signingKeyFrom: " + nothingUnder(from.Name, cmp.Or(from.Key, defaultSigningKey))}
		}
	}
	return to, nil
}

func (n *Notifier) secret(ctx context.Context, target notify.Target, field string, from *candorv1alpha1.SecretKeyReference, key string) ([]byte, *trouble) {
	value, err := n.Secrets.Get(ctx, types.NamespacedName{Namespace: target.Policy.Namespace, Name: from.Name}, cmp.Or(from.Key, key))
	var wrong *SecretError
	switch {
	case errors.As(err, &wrong):
		return nil, &trouble{misconfigured: true, message: field + ": " + wrong.Message}
	case err != nil:
		return nil, &trouble{message: field + ": the API server does not tell what its Secret holds."}
	}
	return value, nil
}

// post sends one request.
func (n *Notifier) post(ctx context.Context, to destination, r notify.Request) *trouble {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Address(to.address).String(), bytes.NewReader(r.Body))
	if err != nil {
		return &trouble{misconfigured: true, message: "Nothing can be posted to its address."}
	}
	request.Header = r.Headers(to.signing, n.Clock.Now())
	request.Header.Set("User-Agent", "candor")
	response, err := n.HTTP.Do(request)
	if err != nil {
		return n.unreached(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body) // which lets the connection be used again
	if status := response.StatusCode; status < 200 || status > 299 {
		answer := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
		return &trouble{message: "It answers " + answer + ".", retryAfter: fault.RetryAfter(response.Header.Get("Retry-After"), n.Clock.Now())}
	}
	return nil
}

// unreached says why there was no answer. The error itself holds the address, which is nobody's to know.
func (n *Notifier) unreached(err error) *trouble {
	var (
		certificate *tls.CertificateVerificationError
		name        *net.DNSError
		timeout     net.Error
	)
	switch {
	case errors.Is(err, netguard.ErrDisallowed):
		return n.disallowed()
	case errors.Is(err, egress.ErrRedirect):
		return &trouble{message: "It redirects, which is not followed: use the address that answers itself."}
	case errors.As(err, &certificate):
		return &trouble{message: "Its certificate is not trusted: an administrator can add a certificate with --notification-ca-bundle."}
	case errors.As(err, &name) && name.IsNotFound:
		return &trouble{message: "Its name does not exist."}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &trouble{message: fmt.Sprintf("It did not answer within %s.", n.Timeout)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &trouble{message: "It refuses the connection."}
	default:
		return &trouble{message: "The connection to it failed."}
	}
}

func (n *Notifier) disallowed() *trouble {
	return &trouble{misconfigured: true, message: "Its address is in a network that is closed: use a public one, or have an administrator open the network with " + n.AllowSetting + "."}
}

func (n *Notifier) isOver() bool {
	select {
	case <-n.over:
		return true
	default:
		return false
	}
}

// compose makes the requests of a batch. There are none for a batch that only checks, and for what is not worth saying.
func (n *Notifier) compose(ctx context.Context, b *batch, target notify.Target) ([]notify.Request, error) {
	m, worth, err := n.message(ctx, b, target)
	if err != nil || !worth {
		return nil, err
	}
	return render.Requests(target.Sink.Type, m, notify.Options{Keep: 3 * n.DigestInterval})
}
