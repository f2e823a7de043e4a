// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
)

const (
	// maxBody is the size of a body that is read, in bytes.
	maxBody = 256 << 10
	// maxRequests is how many requests are answered at once. One whose body is still on its way is none: whoever sends slowly
	// would keep others out.
	maxRequests = 64
	// maxReading is how many bodies are read at once, of smallBody bytes each; maxLarge is how many of them may be larger.
	maxReading, smallBody = 512, 16 << 10
	maxLarge              = 64
	// takeTime is how long a request may take once its body is there.
	takeTime = 10 * time.Second

	// RefusalTime is what a refusal takes at least. A Secret that has to be read takes some milliseconds, which would tell that
	// there is a policy.
	RefusalTime = 250 * time.Millisecond
)

// Options are what a Handler works with; all are required.
type Options struct {
	Keys    Keys
	Store   Store
	Clock   clock.PassiveClock
	Metrics *Metrics
	Log     logr.Logger
	// Refuse returns what tells that RefusalTime is over.
	Refuse func() <-chan time.Time
}

// Handler answers requests that bring signals.
type Handler struct {
	Options
	replays *replays
	rates   *rates
	// reading, large and slots hold what is read and answered now.
	reading, large, slots slots
	// dummy is the key of policies that have none.
	dummy []byte
}

// New returns a Handler that has seen no request yet.
func New(o Options) *Handler {
	h := &Handler{
		Options: o, replays: newReplays(o.Clock), rates: newRates(), dummy: make([]byte, 32),
		reading: make(slots, maxReading), large: make(slots, maxLarge), slots: make(slots, maxRequests),
	}
	_, _ = rand.Read(h.dummy) // it never fails
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	policy, found := target(r)
	if !found {
		notFound().write(w)
		return
	}
	due := h.Refuse()
	said := h.receive(policy, r)
	if said.status == http.StatusUnauthorized {
		select {
		case <-due:
		case <-r.Context().Done():
		}
	}
	said.write(w)
}

// slots bounds what is done at once.
type slots chan struct{}

// take reports whether there is room; then leave must be called.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) leave() { <-s }

// target returns the policy that a request is for. Whether there is one of that name is not its business.
func target(r *http.Request) (types.NamespacedName, bool) {
	parts := strings.Split(r.URL.Path, "/")
	escaped := strings.Contains(strings.ToUpper(r.URL.RawPath), "%2F") // a slash that is part of a name: no name has one
	if escaped || r.Method != http.MethodPost || len(parts) != 4 || parts[0] != "" || parts[1] != "webhook" || parts[2] == "" || parts[3] == "" {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parts[2], Name: parts[3]}, true
}

// receive reads a request and answers it, unless too many are on their way.
func (h *Handler) receive(policy types.NamespacedName, r *http.Request) answer {
	body, unread := h.read(r.Body)
	if unread == ReasonBusy || !h.slots.take() {
		h.refuse(ReasonBusy)
		return unavailable("busy: try again")
	}
	defer h.slots.leave()
	return h.answer(policy, r, body, unread)
}

// answer authenticates a request, and takes what it brings.
func (h *Handler) answer(policy types.NamespacedName, r *http.Request, body []byte, unread Reason) answer {
	ctx, cancel := context.WithTimeout(r.Context(), takeTime)
	defer cancel()
	credentials, err := h.credentials(ctx, policy)
	if err != nil {
		h.refuse(ReasonTrouble)
		return unavailable(noAnswer)
	}
	proof, reason := authenticate(r.Header, body, credentials, h.dummy, h.Clock.Now())
	if unread != "" {
		reason = unread
	}
	if reason != "" {
		h.refuse(reason)
		return refusal()
	}
	return h.take(ctx, policy, r.Header, body, proof)
}

// read returns a body, or as much of it as is looked at and why it is none. What is large has to find room.
func (h *Handler) read(from io.Reader) ([]byte, Reason) {
	if !h.reading.take() {
		return nil, ReasonBusy
	}
	defer h.reading.leave()
	body, err := io.ReadAll(io.LimitReader(from, smallBody+1))
	if len(body) > smallBody {
		if !h.large.take() {
			return nil, ReasonBusy
		}
		defer h.large.leave()
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(from, maxBody-smallBody))
		body = append(body, rest...)
	}
	switch {
	case len(body) > maxBody:
		return body, ReasonSize
	case err != nil:
		return body, ReasonUnread
	default:
		return body, ""
	}
}

// credentials returns those of a policy, which are empty where it takes no signals.
func (h *Handler) credentials(ctx context.Context, policy types.NamespacedName) (Credentials, error) {
	if len(validation.IsDNS1123Label(policy.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(policy.Name)) > 0 {
		return Credentials{}, nil
	}
	credentials, err := h.Keys.Keys(ctx, policy)
	if errors.Is(err, ErrUnknown) {
		return Credentials{}, nil
	}
	return credentials, err
}

// take takes what an authenticated request brings, unless somebody recorded it.
func (h *Handler) take(ctx context.Context, policy types.NamespacedName, header http.Header, body []byte, p proof) answer {
	key := policy.String() + " " + p.key
	switch reason := h.replays.begin(key); reason {
	case ReasonBusy:
		h.refuse(reason, "policy", policy)
		return unavailable("this very request is being taken: try again")
	case ReasonReplay:
		h.refuse(reason, "policy", policy)
		return refusal()
	}
	defer h.replays.end(key)
	if wait := h.rates.wait(policy, h.Clock.Now()); wait > 0 {
		h.refuse(ReasonRate, "policy", policy)
		return tooMany(wait)
	}
	return h.keep(ctx, policy, key, header, body, p)
}

// keep decodes a signal and hands it to the Store.
func (h *Handler) keep(ctx context.Context, policy types.NamespacedName, key string, header http.Header, body []byte, p proof) answer {
	signal, err := decode(header, body, p)
	if err == nil {
		err = signal.check()
	}
	if err != nil {
		h.refuse(ReasonInvalid, "policy", policy)
		return answer{status: http.StatusBadRequest, Error: err.Error()}
	}
	if signal.namespace != "" && signal.namespace != policy.Namespace {
		h.Metrics.received(signal.form, Filtered)
		return accepted(Filtered)
	}
	signal.At = p.at
	about := subject(policy, signal.Signal)
	if h.replays.overtaken(about, p.at) {
		h.Metrics.received(signal.form, Late)
		return accepted(Late)
	}
	result, err := h.Store.Take(ctx, policy, signal.Signal)
	if err != nil {
		h.trouble(policy, err)
		return unavailable(noAnswer)
	}
	if result != Late && result != Full { // which change nothing of what was said last
		h.replays.note(key, about, p.at)
	}
	h.Metrics.received(signal.form, result)
	return accepted(result)
}

// subject names what a signal says something of. No part holds a NUL.
func subject(policy types.NamespacedName, s Signal) string {
	return strings.Join([]string{policy.String(), s.Kind, s.Name, s.Container, s.ID}, "\x00")
}

// refuse counts a request that is not taken. What comes from somebody who is not authenticated stays out of the log.
func (h *Handler) refuse(reason Reason, details ...any) {
	h.Metrics.refused(reason)
	h.Log.V(1).Info("Refused a signal", append([]any{"reason", string(reason)}, details...)...)
}

// trouble tells of an API server that did not take a signal. The error itself may repeat what the signal said.
func (h *Handler) trouble(policy types.NamespacedName, err error) {
	h.Metrics.refused(ReasonTrouble)
	h.Log.Info("Cannot keep a signal now; the sender is told to try again", "policy", policy, "because", cmp.Or(string(apierrors.ReasonForError(err)), "no answer"))
}
