// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	// lookAgain is how often a pass decides anew because Fleet Management turned out to hold something else.
	lookAgain = 3
	// refusedPipelineFor is how long what Fleet Management refused is not sent again.
	refusedPipelineFor = 30 * time.Minute
	// maxSourceNamespace is how many characters of it the status takes.
	maxSourceNamespace = 512
	// asideFor is how soon a Pipeline that gave up its name for another looks again, should nobody wake it.
	asideFor = 30 * time.Second
)

// othersDid are the reasons of writes that became necessary by what somebody else did.
var othersDid = []string{
	fleetmanagementv1alpha1.EventDriftCorrected, fleetmanagementv1alpha1.EventRecreated, fleetmanagementv1alpha1.EventRebound,
}

// refusedWrite is a write that Fleet Management refused for good.
type refusedWrite struct {
	hash  string
	until time.Time
	err   error
}

// errRestless is what a pass ends with when Fleet Management holds something else at each look.
var errRestless = &fault.Fault{
	Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonSyncFailed,
	Err: errors.New("somebody else changes the pipeline at the same time: it is looked at again"),
}

// run decides and acts, and decides once more where the inventory turns out to be behind.
func (s *pipelinePass) run(ctx context.Context) (lifecycle.Outcome, error) {
	err := error(errRestless)
	for range lookAgain {
		d := pipelines.Decide(s.input(ctx, s.p))
		if news, lookErr := s.confirm(ctx, d); lookErr != nil {
			return lifecycle.Outcome{}, lookErr
		} else if news {
			continue
		}
		if err := s.mayTakeOver(ctx, d); err != nil {
			return lifecycle.Outcome{}, err
		}
		switch d.Action {
		case pipelines.Keep, pipelines.Leave, pipelines.Refuse:
			return s.stay(ctx, d)
		}
		var written fleetclient.Pipeline
		if written, err = s.write(ctx, d); err == nil {
			return s.wrote(ctx, d, written)
		}
		if stale, lookErr := s.behind(ctx, d, err); lookErr != nil {
			return lifecycle.Outcome{}, lookErr
		} else if !stale {
			break
		}
	}
	if f := fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed); f.Kind == fault.Terminal {
		return s.refuse(f.Reason, err), nil
	}
	return lifecycle.Outcome{}, err
}

// refuse concludes a pass whose write Fleet Management refused for good. Its words may repeat the contents: they stand in the condition,
// beside the spec, and not in an event, which more people and programs read.
func (s *pipelinePass) refuse(reason string, err error) lifecycle.Outcome {
	last := meta.FindStatusCondition(s.p.Status.Conditions, fleetmanagementv1alpha1.ConditionSynced)
	if last == nil || last.Reason != reason {
		s.say(corev1.EventTypeWarning, reason, "Fleet Management refuses the pipeline: the condition "+fleetmanagementv1alpha1.ConditionSynced+" says why.")
	}
	return s.conclude(lifecycle.Outcome{Reason: reason, Message: err.Error(), Status: metav1.ConditionFalse, PollAfter: refusedPipelineFor, Silent: true})
}

func (s *PipelineSyncer) input(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) pipelines.Input {
	return pipelines.Input{
		Want: pipelines.Desired(p, s.name(p)), Owner: s.owner(p), Generation: p.Generation, Status: p.Status,
		Discovered: p.Annotations[fleetmanagementv1alpha1.AnnotationPipelineID],
		Adoption:   cmp.Or(p.Spec.AdoptionPolicy, fleetmanagementv1alpha1.AdoptIfUnmanaged),
		Drift:      cmp.Or(p.Spec.DriftPolicy, s.DriftPolicy, fleetmanagementv1alpha1.DriftCorrect),
		Poll:       s.DriftInterval, Now: s.Clock.Now(), Live: s.Inventory, Stamped: s.stampedBy(p),
		HolderOf: func(live fleetclient.Pipeline) (pipelines.Holder, bool) { return s.holderOf(ctx, live, p.Status.Stack) },
	}
}

// stampedBy returns the pipelines that carry the stamp of an object.
func (s *PipelineSyncer) stampedBy(p *fleetmanagementv1alpha1.Pipeline) []fleetclient.Pipeline {
	owner := s.owner(p)
	return slices.DeleteFunc(s.Inventory.OwnedBy(string(owner.UID)), func(live fleetclient.Pipeline) bool { return !owner.Owns(live) })
}

// stay concludes a pass that has nothing to write.
func (s *pipelinePass) stay(ctx context.Context, d pipelines.Decision) (lifecycle.Outcome, error) {
	s.p.Status.Drift = d.Drift
	switch d.Action {
	case pipelines.Refuse:
		lifecycle.RemoveCondition(s.p, fleetmanagementv1alpha1.ConditionDrifted)
		return s.conclude(lifecycle.Outcome{Reason: d.Reason, Message: d.Message, Status: metav1.ConditionFalse}), nil
	case pipelines.Leave:
		return s.left(d), nil
	}
	lifecycle.RemoveCondition(s.p, fleetmanagementv1alpha1.ConditionDrifted)
	s.record(*d.Live)
	if err := s.removeStrays(ctx, d.Strays); err != nil {
		return lifecycle.Outcome{}, err
	}
	return s.synced(*d.Live), nil
}

// left concludes a pass that leaves a drift: what differs is marked, and what is gone or undone again and again is not ready.
func (s *pipelinePass) left(d pipelines.Decision) lifecycle.Outcome {
	outcome := lifecycle.Outcome{Reason: d.Reason, Message: d.Message, Status: metav1.ConditionFalse, PollAfter: d.After}
	if d.Reason == fleetmanagementv1alpha1.ReasonRemoteModified {
		s.record(*d.Live)
		outcome = lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonSynced, Message: driftedMessage(d.Live.ID)}
	}
	if len(d.Fields) == 0 {
		lifecycle.RemoveCondition(s.p, fleetmanagementv1alpha1.ConditionDrifted)
		return s.conclude(outcome)
	}
	if lifecycle.SetCondition(s.p, s.Clock.Now(), metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: d.Reason, Message: d.Message,
	}) {
		s.say(corev1.EventTypeWarning, d.Reason, d.Message)
		action := driftWarned
		if d.Reason == fleetmanagementv1alpha1.ReasonContended {
			action = driftContended
		}
		s.then = append(s.then, func() { s.Metrics.drifted(action, d.Fields) })
	}
	return s.conclude(outcome)
}

// wrote concludes a pass that wrote.
func (s *pipelinePass) wrote(ctx context.Context, d pipelines.Decision, written fleetclient.Pipeline) (lifecycle.Outcome, error) {
	s.p.Status.Drift = d.Drift
	lifecycle.RemoveCondition(s.p, fleetmanagementv1alpha1.ConditionDrifted)
	if d.Live != nil && d.Live.Name != written.Name {
		s.wakeNamed(ctx, d.Live.Name)
	}
	if d.Action == pipelines.StepAside {
		s.p.Status.ID, s.p.Status.SyncedName = written.ID, written.Name
		return lifecycle.Outcome{}, &fault.Fault{Kind: fault.Wait, Reason: d.Reason, After: asideFor, Err: errors.New(d.Message)}
	}
	s.record(written)
	kind := corev1.EventTypeNormal
	if slices.Contains(othersDid, d.Reason) {
		kind = corev1.EventTypeWarning
	}
	s.say(kind, d.Reason, d.Message)
	s.then = append(s.then, func() { s.Metrics.drifted(driftCorrected, d.Fields) })
	s.p.Status.Adopted = d.Adopted
	if d.Reason == fleetmanagementv1alpha1.EventRenamed {
		s.then = append(s.then, s.Metrics.renames.Inc)
	}
	if err := s.removeStrays(ctx, d.Strays); err != nil {
		return lifecycle.Outcome{}, err
	}
	return s.synced(written), nil
}

func (s *pipelinePass) synced(live fleetclient.Pipeline) lifecycle.Outcome {
	message := standsMessage(live.ID)
	if cmp.Or(s.p.Spec.DriftPolicy, s.DriftPolicy) == fleetmanagementv1alpha1.DriftIgnore {
		message = "Pipeline " + live.ID + " was synced. What others change there is ignored, as the drift policy says."
	}
	if _, marked := pipelines.StampOf(live); !marked {
		message += " It carries no stamp of its owner, so that it is known by its ID."
	}
	return s.conclude(lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonSynced, Message: message})
}

// record notes in the status which pipeline the object stands for.
func (s *pipelinePass) record(live fleetclient.Pipeline) {
	s.p.Status.SyncedHash = pipelines.Hash(s.want())
	// A pass before this one may have adopted it and stored no status.
	s.p.Status.Adopted = s.p.Status.Adopted || pipelines.IsAdopted(live)
	observe(&s.p.Status, live)
}

func observe(status *fleetmanagementv1alpha1.PipelineStatus, live fleetclient.Pipeline) {
	status.ID, status.SyncedName = live.ID, live.Name
	status.CreatedAt, status.UpdatedAt = stored(live.CreatedAt), stored(live.UpdatedAt)
	status.Source = nil
	if live.Source != nil {
		status.Source = &fleetmanagementv1alpha1.PipelineSource{Type: live.Source.Type, Namespace: live.Source.Namespace}
		if names := []rune(live.Source.Namespace); len(names) > maxSourceNamespace {
			status.Source.Namespace = string(names[:maxSourceNamespace])
		}
	}
}

// stored returns a time as the API server gives it back; nil for none.
func stored(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// write makes the one write of a pass. What was refused for good is not sent again before its time.
func (s *pipelinePass) write(ctx context.Context, d pipelines.Decision) (fleetclient.Pipeline, error) {
	hash := pipelines.Hash(d.Write)
	if err := s.refusedBefore(hash); err != nil {
		return fleetclient.Pipeline{}, err
	}
	var written fleetclient.Pipeline
	err := s.checkFirst(ctx, d, hash)
	if err == nil {
		written, err = s.send(ctx, d)
	}
	s.noteRefusal(hash, err)
	if err != nil {
		return fleetclient.Pipeline{}, err
	}
	s.Inventory.Put(written)
	return written, nil
}

func (s *pipelinePass) send(ctx context.Context, d pipelines.Decision) (fleetclient.Pipeline, error) {
	if d.Action == pipelines.Create {
		return s.API.CreatePipeline(ctx, d.Write)
	}
	written, err := s.API.UpdatePipeline(ctx, d.Write)
	if err != nil && d.Live.Name != d.Write.Name && fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed).Kind == fault.Terminal {
		return s.replace(ctx, d)
	}
	return written, err
}

// replace renames where Fleet Management does not: the new pipeline stands before the old one goes.
func (s *pipelinePass) replace(ctx context.Context, d pipelines.Decision) (fleetclient.Pipeline, error) {
	written, err := s.API.CreatePipeline(ctx, d.Write)
	if err != nil {
		return fleetclient.Pipeline{}, err
	}
	s.Inventory.Put(written)
	observe(&s.p.Status, written)
	return written, s.removeStrays(ctx, []string{d.Live.ID})
}

// behind takes in that the inventory did not know what stands in Fleet Management, and reports whether it knows more now.
func (s *pipelinePass) behind(ctx context.Context, d pipelines.Decision, err error) (bool, error) {
	if errors.Is(err, fleetclient.ErrExists) {
		err := s.lookUp(ctx, d.Write.Name)
		return err == nil, err
	}
	if d.Action != pipelines.Create && fault.IgnoreNotFound(err) == nil {
		s.Inventory.Drop(d.Write.ID)
		return true, nil
	}
	return false, nil
}

// confirm asks Fleet Management itself before a decision that must not rest on a list: it may be some minutes old, or behind from
// the start. It reports whether there is news.
func (s *pipelinePass) confirm(ctx context.Context, d pipelines.Decision) (bool, error) {
	id := s.doubtful(d)
	if id == "" {
		return false, nil
	}
	before, listed := s.Inventory.Get(id)
	if err := s.refresh(ctx, id); err != nil {
		return false, err
	}
	after, exists := s.Inventory.Get(id)
	return exists != listed || !reflect.DeepEqual(before, after), nil
}

// mayTakeOver returns a fault where a decision takes over a pipeline that the rules of the namespace do not allow. One that carries a
// stamp has the object's own, or that of its former life.
func (s *pipelinePass) mayTakeOver(ctx context.Context, d pipelines.Decision) error {
	if d.Reason != fleetmanagementv1alpha1.EventAdopted && d.Reason != fleetmanagementv1alpha1.EventRebound {
		return nil
	}
	if _, isStamped := pipelines.StampOf(*d.Live); isStamped {
		return nil
	}
	return s.Tenancy.checkTakeover(ctx, s.p.Namespace, *d.Live)
}

// doubtful returns the ID of the pipeline that a decision could be wrong about: one that is to be taken over, that is missing, or that
// is older in the list than at the last write.
func (s *pipelinePass) doubtful(d pipelines.Decision) string {
	known := s.p.Status
	switch d.Reason {
	case fleetmanagementv1alpha1.EventAdopted, fleetmanagementv1alpha1.EventRebound:
		return d.Live.ID
	case fleetmanagementv1alpha1.EventRecreated:
		return known.ID
	case fleetmanagementv1alpha1.ReasonRemoteDeleted:
		if c := meta.FindStatusCondition(known.Conditions, fleetmanagementv1alpha1.ConditionSynced); c == nil || c.Reason != d.Reason {
			return known.ID
		}
	case fleetmanagementv1alpha1.EventDriftCorrected, fleetmanagementv1alpha1.ReasonRemoteModified:
		if known.UpdatedAt != nil && d.Live.ID == known.ID && d.Live.UpdatedAt.Before(known.UpdatedAt.Time) {
			return known.ID
		}
	}
	return ""
}

// refresh takes the pipeline of an ID into the inventory as it is now.
func (s *PipelineSyncer) refresh(ctx context.Context, id string) error {
	live, err := s.API.GetPipeline(ctx, id)
	switch {
	case err == nil:
		s.Inventory.Put(live)
	case fault.IgnoreNotFound(err) == nil:
		s.Inventory.Drop(id)
	default:
		return err
	}
	return nil
}

// lookUp takes the pipeline of a name into the inventory, where there is one.
func (s *PipelineSyncer) lookUp(ctx context.Context, name string) error {
	id, err := s.API.PipelineID(ctx, name)
	if err != nil {
		return fault.IgnoreNotFound(err)
	}
	return s.refresh(ctx, id)
}

// removeStrays deletes pipelines that carry the object's stamp and that it does not stand for.
func (s *PipelineSyncer) removeStrays(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := fault.IgnoreNotFound(s.API.DeletePipeline(ctx, id)); err != nil {
			return err
		}
		s.Inventory.Drop(id)
	}
	return nil
}

func (s *pipelinePass) refusedBefore(hash string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.refused[s.p.UID]
	if !known || last.hash != hash || !s.Clock.Now().Before(last.until) {
		return nil
	}
	return last.err
}

func (s *pipelinePass) noteRefusal(hash string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed).Kind == fault.Terminal {
		s.refused[s.p.UID] = refusedWrite{hash: hash, until: s.Clock.Now().Add(refusedPipelineFor), err: err}
		return
	}
	delete(s.refused, s.p.UID)
}
