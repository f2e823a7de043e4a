// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// folderRetry is how soon a folder without a usable certificate is looked at again.
const folderRetry = 2 * time.Second

// Folder serves with a certificate and a key of a folder, and with what they are replaced by.
type Folder struct {
	Path string
	// CertFile and KeyFile are their names; empty is tls.crt and tls.key.
	CertFile, KeyFile string
	Certificate       *Certificate
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (*Folder) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (f *Folder) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, f.follow, folderRetry)
	return nil
}

// follow uses the certificate until ctx ends, or until the folder cannot be read.
func (f *Folder) follow(ctx context.Context) {
	cert, key := cmp.Or(f.CertFile, certFile), cmp.Or(f.KeyFile, keyFile)
	watcher, err := certwatcher.New(filepath.Join(f.Path, cert), filepath.Join(f.Path, key))
	if err == nil {
		watcher.RegisterCallback(func(c tls.Certificate) { f.Certificate.use(&c) })
		err = watcher.Start(ctx)
	}
	if err != nil {
		f.Certificate.fail(fmt.Errorf("the folder %s must hold %s and %s, in PEM and of one key: %w", f.Path, cert, key, err))
	}
}
