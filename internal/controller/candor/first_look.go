// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/crdgate"
	"github.com/candor-dev/candor/internal/signals"
)

// FirstLook knows which of the stored Findings the report controller of this process has brought into the form of this version.
// A nil one knows nothing and costs nothing.
type FirstLook struct {
	Reader    client.Reader
	Providers *Providers

	mu sync.Mutex
	// seen is nil once nobody asks any more.
	seen map[signals.Identity]struct{}
}

// NewFirstLook returns one that has seen nothing.
func NewFirstLook(reader client.Reader, providers *Providers) *FirstLook {
	return &FirstLook{Reader: reader, Providers: providers, seen: map[signals.Identity]struct{}{}}
}

// End forgets everything.
func (l *FirstLook) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = nil
}

func (l *FirstLook) saw(id signals.Identity) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen != nil {
		l.seen[id] = struct{}{}
	}
}

// Left returns how many stored Findings are still to be looked at. Those whose reports cannot be read are not among them: nobody
// rewrites them, and a version that may mend it must not be held up.
func (l *FirstLook) Left(ctx context.Context) (int, error) {
	var list candorv1alpha1.FindingList
	if err := l.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing Findings: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := 0
	for i := range list.Items {
		id := signals.IdentityOf(&list.Items[i])
		if _, seen := l.seen[id]; !seen && l.readable(id) && id.FindingName() == list.Items[i].Name {
			left++
		}
	}
	return left, nil
}

// readable reports whether the reports of an identity are read, or will be in a moment: what an API server under load answers
// does not count.
func (l *FirstLook) readable(id signals.Identity) bool {
	state, known := l.Providers.State(id.Provider)
	return known && (!crdgate.Refused(state.Err) || state.Phase == crdgate.Serving)
}
