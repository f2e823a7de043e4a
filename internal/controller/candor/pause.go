// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/candor-dev/candor/internal/signals/llm"
)

// The waits after errors that concern every call: the first one, doubled with each further error up to the last one.
var pauses = map[llm.Class]struct{ first, last time.Duration }{
	llm.RateLimited:    {20 * time.Second, 10 * time.Minute},
	llm.Unavailable:    {15 * time.Second, 10 * time.Minute},
	llm.Unreachable:    {15 * time.Second, 10 * time.Minute},
	llm.AuthFailed:     {time.Minute, 30 * time.Minute},
	llm.ModelNotFound:  {time.Minute, 30 * time.Minute},
	llm.QuotaExhausted: {time.Hour, time.Hour},
}

// Pause keeps calls from a server that asked to wait, refuses the key, or does not answer. It ends by itself after a while, for
// one call at first, and at once when the model, its address or its key changes.
type Pause struct {
	mu       sync.Mutex
	of       [sha256.Size]byte
	until    time.Time
	failures int
	last     *llm.Error
}

// Until returns until when the model, as identify tells it, must not be asked, zero when it may, and whether only one call may run.
func (p *Pause) Until(of [sha256.Size]byte, now time.Time) (until time.Time, probe bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of != p.of {
		p.of, p.until, p.failures, p.last = of, time.Time{}, 0, nil
	}
	if now.Before(p.until) {
		return p.until, true
	}
	return time.Time{}, p.failures > 0
}

// Last returns what the pause is about; nil when there is none.
func (p *Pause) Last() *llm.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Heard takes in how a call of a model, as identify tells it, ended; nil is a success, and so is an error that concerns one
// call alone: the server answers. What came of a former model or key says nothing, and a call that was begun before the pause
// does not end it.
func (p *Pause) Heard(of [sha256.Size]byte, err *llm.Error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of != p.of {
		return
	}
	if err == nil || !err.OfBackend() {
		if !now.Before(p.until) && (err == nil || err.Class != llm.Timeout) {
			p.until, p.failures, p.last = time.Time{}, 0, nil
		}
		return
	}
	p.last = err
	if !now.Before(p.until) {
		p.failures++
	}
	wait := pauses[err.Class]
	backoff := wait.first << min(max(p.failures-1, 0), 10)
	p.until = latest(p.until, now.Add(max(min(backoff, wait.last), err.After)))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// identify hashes what a pause is about, so that the key is kept nowhere.
func identify(model *Model, key string) [sha256.Size]byte {
	return sha256.Sum256([]byte(string(model.Provider) + "\x00" + model.Address + "\x00" + model.Settings.Model + "\x00" + key))
}
