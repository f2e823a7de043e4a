// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	// maxCreates is how many objects one pass tries to create, and maxRefusals how many of them may be refused before it gives up.
	maxCreates  = 500
	maxRefusals = 20
	// refusedObjectFor is how long an object that the API server refused is not sent again.
	refusedObjectFor = 30 * time.Minute
	// namespaceRecheck is how soon a target namespace that is not there is tried again.
	namespaceRecheck = time.Minute
	// changedRecheck is how soon an object that changed before it could be deleted is looked at again.
	changedRecheck = time.Second
	// namedInEvents is how many names an event tells.
	namedInEvents = 5
)

// applied is what became of a plan.
type applied struct {
	created int
	// more says that the next pass has more to do.
	more bool
	err  error
}

// apply carries out a plan, first what only marks, and tells what it did.
func (p *mirrorPass[D, T]) apply(ctx context.Context, plan mirror.Plan) applied {
	err := p.mark(ctx, plan)
	if deleteErr := p.delete(ctx, plan.Delete); err == nil {
		err = deleteErr
	}
	var done applied
	if p.creates(plan) {
		done = p.create(ctx, plan.Create)
	}
	done.err = cmp.Or(done.err, err)
	return done
}

// mark changes annotations of existing objects, and nothing else of them.
func (p *mirrorPass[D, T]) mark(ctx context.Context, plan mirror.Plan) error {
	words := p.kind.words()
	var errs error
	annotate := func(change, name string, annotations map[string]any) bool {
		err := p.annotate(ctx, name, annotations)
		if err == nil {
			p.Found.Changed(words.kind, change)
		}
		errs = cmp.Or(errs, err)
		return err == nil
	}
	var rebound []string
	for _, r := range plan.Rebind {
		if annotate(mirror.ChangeRebound, r.Name, map[string]any{words.marks.id: r.To, words.marks.stale: nil}) {
			rebound = append(rebound, fmt.Sprintf("%s (now %s)", r.Name, r.To))
		}
	}
	for _, name := range plan.Unstale {
		annotate(mirror.ChangeUnstale, name, map[string]any{words.marks.stale: nil})
	}
	for _, name := range plan.Stale {
		annotate(mirror.ChangeStale, name, map[string]any{words.marks.stale: enabledValue})
	}
	p.say(words.rebound, rebound, words.thing+" was deleted and created again under its name", words.thing+"s were deleted and created again under their names")
	if errs != nil {
		return &fault.Fault{
			Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonStaleProcessingFailed, Err: fmt.Errorf("marking %ss of %s: %w", words.object, p.spec.namespace, errs),
		}
	}
	return nil
}

// annotate changes annotations of an object; nil removes one. An object that is gone, or another one by now, is fine.
func (p *mirrorPass[D, T]) annotate(ctx context.Context, name string, annotations map[string]any) error {
	// Marshalling strings and nils cannot fail.
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.refs[name].GetUID(), "annotations": annotations}})
	err := p.Client.Patch(ctx, p.named(p.kind.empty(), name), client.RawPatch("application/merge-patch+json", body))
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

func (p *mirrorPass[D, T]) named(o client.Object, name string) client.Object {
	o.SetNamespace(p.spec.namespace)
	o.SetName(name)
	return o
}

// delete deletes objects, unless somebody changed them since they were read.
func (p *mirrorPass[D, T]) delete(ctx context.Context, names []string) error {
	words := p.kind.words()
	var deleted []string
	var errs error
	for _, name := range names {
		ref := p.refs[name]
		uid, version := ref.GetUID(), ref.GetResourceVersion()
		err := p.Client.Delete(ctx, p.named(p.kind.empty(), name), client.Preconditions{UID: &uid, ResourceVersion: &version})
		switch {
		case err == nil:
			deleted = append(deleted, name)
			p.Found.Changed(words.kind, mirror.ChangeDeleted)
		case apierrors.IsConflict(err): // it is read anew: somebody may have edited it
			p.queue.addAfter(client.ObjectKeyFromObject(p.d), changedRecheck)
		default:
			errs = cmp.Or(errs, client.IgnoreNotFound(err))
		}
	}
	p.say(words.deleted, deleted, words.object+" was deleted, since its "+words.thing+" is gone", words.object+"s were deleted, since their "+words.thing+"s are gone")
	if errs != nil {
		return &fault.Fault{
			Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonStaleProcessingFailed, Err: fmt.Errorf("deleting %ss of %s: %w", words.object, p.spec.namespace, errs),
		}
	}
	return nil
}

// create creates objects. One that the API server does not take is no reason to leave out the others, and is left alone for a while.
func (p *mirrorPass[D, T]) create(ctx context.Context, creations []mirror.Creation) (done applied) {
	words := p.kind.words()
	now, refusals := p.Clock.Now(), 0
	var created []string
	for tried := 0; len(creations) > 0 && done.err == nil && refusals < maxRefusals; creations = creations[1:] {
		c := creations[0]
		t, exists := p.kind.get(c.ID)
		if _, refused := p.memory.refused[c.ID]; refused || !exists {
			continue
		}
		if tried == maxCreates {
			done.more = true
			break
		}
		tried++
		switch err := p.createOne(ctx, t, c); {
		case err == nil:
			created = append(created, c.Name)
			p.Found.Changed(words.kind, mirror.ChangeCreated)
		case apierrors.IsAlreadyExists(err): // by an earlier pass, or somebody else: the next list of objects tells
		case isRefusal(err):
			refusals++
			p.memory.refused[c.ID] = refusedObject{now.Add(refusedObjectFor), err}
		default:
			done.err = p.cannotCreate(c, err)
		}
	}
	done.created = len(created)
	p.say(words.created, created, words.object+" was created", words.object+"s were created")
	return done
}

func (p *mirrorPass[D, T]) createOne(ctx context.Context, t T, c mirror.Creation) error {
	marks := p.kind.words().marks
	o := p.named(p.kind.build(p.d, t), c.Name)
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[marks.id], annotations[marks.discoveredBy] = c.ID, p.d.GetNamespace()+"/"+p.d.GetName()
	o.SetAnnotations(annotations)
	o.SetLabels(map[string]string{marks.labelName: mirror.LabelValue(p.d.GetName()), marks.labelNamespace: p.d.GetNamespace()})
	return p.Client.Create(ctx, o)
}

// isRefusal tells an object that the API server, or admission, does not take from a failure that concerns all.
func isRefusal(err error) bool {
	return !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) &&
		(apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err))
}

func (p *mirrorPass[D, T]) cannotCreate(c mirror.Creation, err error) error {
	f := &fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonUpsertFailed}
	switch {
	case apierrors.IsNotFound(err):
		return p.noNamespace()
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		f.Kind, f.After = fault.Wait, namespaceRecheck
		f.Err = fmt.Errorf("the namespace %q is being deleted: nothing can be created there", p.spec.namespace)
	default:
		f.Err = fmt.Errorf("creating the %s %s/%s: %w", p.kind.words().object, p.spec.namespace, c.Name, err)
	}
	return f
}

func (p *mirrorPass[D, T]) noNamespace() error {
	return &fault.Fault{
		Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonUpsertFailed, After: namespaceRecheck, Err: fmt.Errorf(
			"the namespace %q does not exist: create it, or delete this discovery and create one with another spec.targetNamespace", p.spec.namespace),
	}
}

// creates reports whether a plan has objects to create that were not refused of late.
func (p *mirrorPass[D, T]) creates(plan mirror.Plan) bool {
	now := p.Clock.Now()
	maps.DeleteFunc(p.memory.refused, func(_ string, r refusedObject) bool { return !now.Before(r.until) })
	return slices.ContainsFunc(plan.Create, func(c mirror.Creation) bool {
		_, refused := p.memory.refused[c.ID]
		return !refused
	})
}

// refusals says what the API server does not take of a plan; nil for nothing.
func (p *mirrorPass[D, T]) refusals(plan mirror.Plan) error {
	var refused []string
	for _, c := range plan.Create {
		if _, is := p.memory.refused[c.ID]; is {
			refused = append(refused, c.ID)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	words := p.kind.words()
	return &fault.Fault{
		Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonUpsertFailed, After: p.spec.poll,
		Err: fmt.Errorf("%s cannot be created; that of %s %s: %w", count(len(refused), words.object), words.thing, refused[0], p.memory.refused[refused[0]].err),
	}
}

// say tells what was done to objects, by their names; nothing for none.
func (p *mirrorPass[D, T]) say(reason string, names []string, one, several string) {
	if len(names) == 0 {
		return
	}
	what := several
	if len(names) == 1 {
		what = one
	}
	lifecycle.Announce(p.Recorder, p.d, corev1.EventTypeNormal, reason, fmt.Sprintf("%d %s, in %s: %s.", len(names), what, p.spec.namespace, firstOf(names, namedInEvents)))
}
