// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/crdgate"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// +kubebuilder:rbac:groups=aquasecurity.github.io,resources=vulnerabilityreports;configauditreports;rbacassessmentreports;exposedsecretreports,verbs=get;list;watch
// +kubebuilder:rbac:groups=openreports.io,resources=reports,verbs=get;list;watch
// +kubebuilder:rbac:groups=wgpolicyk8s.io,resources=policyreports,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=vulnerabilityreports.aquasecurity.github.io;configauditreports.aquasecurity.github.io;rbacassessmentreports.aquasecurity.github.io;exposedsecretreports.aquasecurity.github.io;reports.openreports.io;policyreports.wgpolicyk8s.io,verbs=get;list;watch
// +kubebuilder:rbac:groups=candor.dev,resources=findings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=candor.dev,resources=signalpolicies,verbs=get;list;watch

const (
	// terminatingRecheck is how soon a workload that is being deleted is looked for again.
	terminatingRecheck = 15 * time.Second
	// staleRecheck is how soon, at the earliest, the workload of a stale Finding is looked for again.
	staleRecheck = 5 * time.Minute
	// ownerRetry is the first of ownerRetries doubling waits for the ReplicaSet or Job of a report.
	ownerRetry   = 200 * time.Millisecond
	ownerRetries = 6
)

// ReportReconciler turns what all reports say of one identity into the spec of one Finding. It never reads a status.
type ReportReconciler struct {
	Client    client.Client
	Live      client.Reader
	Providers *Providers
	Clock     clock.PassiveClock
	// Grace is how long missing evidence changes nothing.
	Grace   time.Duration
	Metrics *Metrics
	// Mutes are the Suppressions.
	Mutes *Mutes
	// FirstLook is told of each identity that was looked at; nil when nobody asks.
	FirstLook *FirstLook

	mu sync.Mutex
	// missing is since when each identity has been without evidence. It starts anew with the process, since nothing that
	// happened before it was seen.
	missing map[signals.Identity]time.Time
	// retries counts the waits for the ReplicaSet or Job of a report.
	retries map[signals.Identity]int
	// pods are those of which reports speak in place of their workloads.
	pods podOwners
	// queue is set when started is closed.
	queue   identityQueue
	started chan struct{}
}

// Reconcile makes one Finding say what the reports of its identity say. It is one and the same for a report that came, went
// or changed, a rollout, a changed policy, and a restart.
func (r *ReportReconciler) Reconcile(ctx context.Context, id signals.Identity) (ctrl.Result, error) {
	if id.Provider == signals.Posted {
		return r.review(ctx, id)
	}
	wait, err := r.redirect(ctx, id)
	if err != nil {
		return ctrl.Result{}, err
	}
	pass, err := r.gather(ctx, id)
	if err != nil || pass == nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	if err := r.conclude(ctx, pass); err != nil {
		return ctrl.Result{}, err
	}
	if pass.told {
		r.FirstLook.saw(id)
	}
	return ctrl.Result{RequeueAfter: earliest(wait, pass.again)}, nil
}

// conclude writes what there is to say: what was observed, or at least what of it is muted.
func (r *ReportReconciler) conclude(ctx context.Context, p *pass) error {
	if !p.told {
		return r.keep(ctx, p)
	}
	if observed, evidence, speaks := verify.Decide(p.look); speaks {
		return r.write(ctx, p, observed, evidence)
	}
	if p.look.Report != nil {
		r.Metrics.ingested(p.id.Provider, resultFiltered)
	}
	return r.keep(ctx, p)
}

// pass is what one look at an identity gathered.
type pass struct {
	id      signals.Identity
	class   signals.Class
	look    verify.Look
	finding *candorv1alpha1.Finding
	// told is whether anybody can tell what the reports say now.
	told bool
	// again is when to look again even if nothing happens.
	again time.Duration
}

// gather does all the reading. It returns nil when there is nothing to decide.
func (r *ReportReconciler) gather(ctx context.Context, id signals.Identity) (*pass, error) {
	class, ok := r.Providers.Classes.ByProvider(id.Provider)
	if !ok {
		return nil, nil
	}
	p := &pass{id: id, class: class, told: true, look: verify.Look{Grace: r.Grace}}
	var err error
	if p.finding, err = r.finding(ctx, id); err != nil {
		return nil, err
	}
	if p.look.Known = p.finding != nil; p.look.Known {
		p.look.Current = p.finding.Spec.Observed
	}
	if err := r.readAsk(ctx, p); err != nil {
		return nil, err
	}
	if !p.look.Asked {
		r.found(id)
		return p, nil
	}
	if p.told, err = r.readReport(ctx, p); err != nil || !p.told {
		return p, err
	}
	return p, r.readAbsence(ctx, p)
}

// readAsk finds out what the policies of the namespace ask for.
func (r *ReportReconciler) readAsk(ctx context.Context, p *pass) error {
	var policies candorv1alpha1.SignalPolicyList
	if err := r.Client.List(ctx, &policies, client.InNamespace(p.id.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the policies of %s: %w", p.id.Namespace, err)
	}
	p.look.Ask, p.look.Asked = policy.For(policies.Items, p.id.Provider)
	p.look.Ask.OnlyFixable = p.look.Ask.OnlyFixable && !p.class.NoFix
	return nil
}

func (r *ReportReconciler) finding(ctx context.Context, id signals.Identity) (*candorv1alpha1.Finding, error) {
	var finding candorv1alpha1.Finding
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.FindingName()}, &finding)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the Finding of %s: %w", id, err)
	}
	return &finding, nil
}

// readReport finds the report that speaks for the identity. It returns false while nobody can tell whether there is one.
func (r *ReportReconciler) readReport(ctx context.Context, p *pass) (bool, error) {
	reader, serving := r.Providers.Reader(p.id.Provider)
	if !serving {
		state, _ := r.Providers.State(p.id.Provider)
		return state.Phase == crdgate.Absent, nil
	}
	report, err := r.fold(ctx, reader, p)
	if p.look.Report = report; err == nil && p.look.NeedsShown() {
		p.look.Shown, err = r.shown(ctx, p)
	}
	return true, err
}

// shown reads the entries that the Finding shows, which the cache does not hold.
func (r *ReportReconciler) shown(ctx context.Context, p *pass) ([]candorv1alpha1.Entry, error) {
	var finding candorv1alpha1.Finding
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(p.finding), &finding)
	if err := client.IgnoreNotFound(err); err != nil {
		return nil, fmt.Errorf("reading the Finding of %s: %w", p.id, err)
	}
	if finding.Spec.Evidence == nil {
		return nil, nil
	}
	return finding.Spec.Evidence.Top, nil
}

// readAbsence finds out how long evidence has been missing and, when no report is left, whether the workload is.
func (r *ReportReconciler) readAbsence(ctx context.Context, p *pass) error {
	if !p.look.Awaiting() {
		r.found(p.id)
		return nil
	}
	p.look.MissingFor = r.missed(p.id)
	if p.again = r.Grace - p.look.MissingFor; p.again <= 0 {
		p.again = max(r.Grace, staleRecheck)
	}
	if p.look.Report != nil {
		return nil
	}
	there, err := r.owners().exists(ctx, p.id)
	p.look.OwnerGone = there == gone
	if there == terminating {
		p.again = earliest(p.again, terminatingRecheck)
	}
	return err
}

// missed returns how long the identity has been without evidence, counted from the first time that this process saw it so.
func (r *ReportReconciler) missed(id signals.Identity) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, known := r.missing[id]
	if !known {
		since = r.Clock.Now()
		r.missing[id] = since
	}
	return r.Clock.Since(since)
}

func (r *ReportReconciler) found(id signals.Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.missing, id)
}

// write makes the Finding say what was observed, with as few requests as that takes: none when it says so already.
func (r *ReportReconciler) write(ctx context.Context, p *pass, observed candorv1alpha1.Observation, evidence signals.Evidence) error {
	if p.finding == nil {
		return r.create(ctx, p, evidence)
	}
	after := p.finding.DeepCopy()
	after.Spec.Observed = observed
	if observed == candorv1alpha1.ObservedPresent {
		after.Spec = signals.Spec(p.class, p.id, *p.look.Report, evidence)
		leaveTop(p.finding, after.Spec.Evidence)
	}
	metav1.SetMetaDataLabel(&after.ObjectMeta, candorv1alpha1.LabelOutcome, verify.Label(observed))
	if err := r.mute(ctx, p, after, evidence); err != nil {
		return err
	}
	result, err := r.patch(ctx, p, after)
	if err == nil && result != "" {
		r.count(p, result)
	}
	return err
}

// patch writes what differs from the Finding that was read, and returns what came of it: nothing when the API server refused.
func (r *ReportReconciler) patch(ctx context.Context, p *pass, after *candorv1alpha1.Finding) (string, error) {
	if reflect.DeepEqual(p.finding.Spec, after.Spec) && p.finding.Labels[candorv1alpha1.LabelOutcome] == after.Labels[candorv1alpha1.LabelOutcome] {
		return resultUnchanged, nil
	}
	// Without a resourceVersion the patch never conflicts with the writer of the status.
	err := r.Client.Patch(ctx, after, client.MergeFrom(p.finding))
	if err := client.IgnoreNotFound(err); err != nil {
		return "", r.rejected(ctx, p.id, fmt.Errorf("writing the Finding of %s: %w", p.id, err))
	}
	return resultUpdated, nil
}

func (r *ReportReconciler) create(ctx context.Context, p *pass, evidence signals.Evidence) error {
	f := &candorv1alpha1.Finding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.id.Namespace, Name: p.id.FindingName(),
			Labels: map[string]string{candorv1alpha1.LabelOutcome: verify.Label(candorv1alpha1.ObservedPresent)},
		},
		Spec: signals.Spec(p.class, p.id, *p.look.Report, evidence),
	}
	if err := r.mute(ctx, p, f, evidence); err != nil {
		return err
	}
	err := r.Client.Create(ctx, f)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		return r.rejected(ctx, p.id, fmt.Errorf("creating the Finding of %s: %w", p.id, err))
	}
	r.count(p, resultCreated)
	return nil
}

// rejected keeps an object that the API server will never take from being sent again and again; the next change of a report
// or a policy tries anew.
func (r *ReportReconciler) rejected(ctx context.Context, id signals.Identity, err error) error {
	if !apierrors.IsInvalid(err) {
		return err
	}
	logf.FromContext(ctx).Error(err, "The API server refuses this Finding")
	r.Metrics.dropped(id.Provider, signals.DropRejected)
	return nil
}

func (r *ReportReconciler) count(p *pass, result string) {
	if p.look.Report != nil {
		r.Metrics.ingested(p.id.Provider, result)
	}
}

// earliest returns the shorter of two waits, where zero is none.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
