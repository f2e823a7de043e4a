// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/source"
)

// maxAskedWait bounds how long a source can ask to be left alone, where its schedule's interval is shorter.
const maxAskedWait = time.Hour

// due reports whether records are to be asked for now. Neither a restart nor a change of anything but the spec makes them be.
func (p *syncPass) due() bool {
	switch m := p.memory; {
	case p.Spec.Suspend:
		return false
	case m.last.IsZero(), m.fingerprint != p.fingerprint:
		return true
	case p.fetchNow() != "" && p.fetchNow() != m.handled:
		return true
	case m.fetched == nil && m.failures == 0 && p.unheld():
		return true
	default:
		return !p.now.Before(p.next())
	}
}

// next is when records are due next.
func (p *syncPass) next() time.Time {
	switch m := p.memory; {
	case m.last.IsZero():
		return time.Time{}
	case m.failures > 0:
		return m.next
	default:
		return p.schedule.Next(m.last, string(p.UID))
	}
}

func (p *syncPass) fetchNow() string {
	return cut(p.Annotations[fleetmanagementv1alpha1.AnnotationFetchNow], maxHandled)
}

// unheld reports whether what another process fetched may now be given, which it held back, or had tried only. That process told of
// neither the spec as it is nor the word that is set.
func (p *syncPass) unheld() bool {
	if p.dryRun() != "" {
		return false
	}
	if v := p.verdict(); v != nil && (v.Reason == fleetmanagementv1alpha1.ReasonDryRun || v.Reason == fleetmanagementv1alpha1.ReasonValidationError) {
		return true
	}
	word, stalled := p.Annotations[fleetmanagementv1alpha1.AnnotationApproveRemoval], p.stalled()
	return stalled != nil && (stalled.ObservedGeneration != p.Generation || word != "" && !strings.Contains(stalled.Message, notThis(word)))
}

// fetch asks for records, and notes what came of it. While their target is to be left alone nothing is asked, and nothing noted.
func (s *ExternalSyncSyncer) fetch(ctx context.Context, p *syncPass) {
	m, kind, began := p.memory, string(p.Spec.Source.Kind), s.Clock.Now()
	known := ""
	if m.fetched != nil && m.fingerprint == p.fingerprint {
		known = m.version
	}
	result, err := s.ask(ctx, p, known)
	if ctx.Err() != nil || p.later > 0 {
		return
	}
	unchanged := err == nil && result.Unchanged && known != ""
	var projection *extsync.Projection
	if err == nil && !unchanged {
		projection, err = project(p, result)
	}
	if m.fingerprint != p.fingerprint {
		// The version speaks of records. What an earlier spec made of them is not what this one does.
		m.version = ""
	}
	p.looked, m.fingerprint, m.last, m.handled = true, p.fingerprint, p.now.Truncate(time.Second), p.fetchNow()
	s.Metrics.fetched(kind, unchanged, err, s.Clock.Since(began))
	if err != nil {
		f := fault.Of(err, fleetmanagementv1alpha1.ReasonSourceFailed)
		m.failures++
		m.reason, m.message, m.next = f.Reason, err.Error(), p.afterFailure(f)
		return
	}
	m.failures, m.reason, m.message, m.success = 0, "", "", m.last
	if !unchanged {
		m.fetched, m.version, m.applied = projection, result.Version, false
	}
}

// ask opens the source and reads it.
func (s *ExternalSyncSyncer) ask(ctx context.Context, p *syncPass, known string) (source.Result, error) {
	secret, err := s.secret(ctx, p.ExternalAttributeSync)
	if err != nil {
		return source.Result{}, err
	}
	opened, target, err := s.Sources.Open(p.Spec.Source, secret)
	if err != nil {
		return source.Result{}, err
	}
	defer func() {
		if err := opened.Close(); err != nil {
			logf.FromContext(ctx).V(1).Info("Cannot close a source", "error", err.Error())
		}
	}()
	if p.later = s.waits(p, target); p.later > 0 {
		return source.Result{}, nil
	}
	return opened.Fetch(ctx, known)
}

// waits is how long the target is to be left alone; zero lets the fetch begin.
func (s *ExternalSyncSyncer) waits(p *syncPass, target string) time.Duration {
	m := p.memory
	if m.begin.IsZero() || m.target != target {
		m.begin, m.target = s.targets.Reserve(target, p.now), target
	}
	if wait := m.begin.Sub(p.now); wait > 0 {
		return wait
	}
	m.begin = time.Time{}
	return 0
}

func project(p *syncPass, result source.Result) (*extsync.Projection, error) {
	projection := extsync.Project(result.Records, p.Spec.Mapping, p.Spec.OnDuplicate)
	if projection.TooMany {
		return nil, source.Failed("the records come to more than %d attributes: map fewer fields, or split the sync", extsync.MaxAttributes)
	}
	projection.Skipped = result.Skipped
	if projection.Duplicates > 0 && p.Spec.OnDuplicate == fleetmanagementv1alpha1.DuplicateFail {
		return nil, &fault.Fault{Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonDuplicateRecords, Err: fmt.Errorf(
			"%s a collector that an earlier one names, such as %q: make them unique, or set spec.onDuplicate to First or Last",
			recordsName(projection.Duplicates), projection.DuplicateIDs)}
	}
	return projection, nil
}

func recordsName(n int) string {
	if n == 1 {
		return "1 record names"
	}
	return count(n, "record") + " name"
}

// afterFailure is when records are asked for after the failure that was just noted.
func (p *syncPass) afterFailure(f *fault.Fault) time.Time {
	last, interval := p.memory.last, p.schedule.Interval(p.now)
	next := last.Add(extsync.Backoff(p.memory.failures, interval))
	if regular := p.schedule.Next(last, string(p.UID)); regular.Before(next) {
		next = regular
	}
	if f.Kind == fault.Wait {
		if asked := last.Add(min(f.After, max(interval, maxAskedWait))); asked.After(next) {
			next = asked
		}
	}
	return next.Truncate(time.Second)
}

// secret reads the Secret with the credentials; nil where the spec names none.
func (s *ExternalSyncSyncer) secret(ctx context.Context, o *fleetmanagementv1alpha1.ExternalAttributeSync) (map[string][]byte, error) {
	ref := o.Spec.Source.SecretRef
	if ref == nil {
		return nil, nil
	}
	unreadable := func(format string, a ...any) error {
		return &fault.Fault{Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonSecretUnreadable, Err: fmt.Errorf(format, a...)}
	}
	var secret corev1.Secret
	quiet := logr.NewContext(ctx, logr.Discard()) // the client logs what it reads where the log is very talkative
	err := s.Secrets.Get(quiet, client.ObjectKey{Namespace: o.Namespace, Name: ref.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, unreadable("the Secret %s of spec.source.secretRef does not exist in namespace %s: create it", ref.Name, o.Namespace)
	case apierrors.IsForbidden(err):
		return nil, unreadable("the Secret %s must not be read. If spec.source.secretRef names the right one: in namespace %s, create a Role that allows the verb get on the resource secrets "+
			"with the resourceName %s, and a RoleBinding of it to the service account that the following names: %w", ref.Name, o.Namespace, ref.Name, err)
	case err != nil:
		return nil, unreadable("reading the Secret %s: %w", ref.Name, err)
	case s.SecretSelector != nil && !s.SecretSelector.Matches(labels.Set(secret.Labels)):
		return nil, unreadable("the Secret %s lacks the labels that --external-source-secret-label-selector asks for: %s", ref.Name, s.SecretSelector)
	}
	return secret.Data, nil
}
