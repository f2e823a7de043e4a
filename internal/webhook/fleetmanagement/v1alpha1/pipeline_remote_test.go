// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
)

// checker is a Fleet Management that always says the same.
type checker struct {
	says error
	// hangs says that it answers when the caller gives up.
	hangs bool
	// asked counts the questions.
	asked int
}

func (c *checker) Check(ctx context.Context, _ *fleetmanagementv1alpha1.Pipeline) error {
	c.asked++
	if c.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.says
}

const valid = "loki.echo \"a\" { }"

var refusal = &fault.Fault{
	Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonValidationError,
	Err: &client.Error{Procedure: "UpsertPipeline", Status: 400, Code: "invalid_argument", Message: "no such component"},
}

func TestFleetManagementIsAskedAboutAPipeline(t *testing.T) {
	const (
		refused = "spec.contents: correct what Fleet Management refuses: no such component"
		unasked = "spec.contents: Fleet Management could not be asked about it: "
	)
	waits := func(reason string) error {
		return &fault.Fault{Kind: fault.Wait, Reason: reason, After: time.Minute, Err: errors.New(reason)}
	}
	for name, test := range map[string]struct {
		says    error
		enforce bool
		// warns is the one warning, empty for none; fails is the error, empty for none.
		warns, fails string
	}{
		"what it takes passes":                      {},
		"what it takes passes where it is enforced": {enforce: true},
		"what it refuses is a warning":              {says: refusal, warns: refused},
		"what it refuses is an error where it is enforced": {
			says: refusal, enforce: true,
			fails: `Pipeline.fleetmanagement.grafana.com "logs" is invalid: spec.contents: Invalid value: correct what Fleet Management refuses: no such component`,
		},
		"a refusal without words tells what is known": {
			says: &fault.Fault{Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonValidationError, Err: errors.New("413")}, warns: "spec.contents: correct what Fleet Management refuses: 413",
		},
		"a limit blocks nobody":                 {says: waits("RateLimited"), enforce: true, warns: unasked + "RateLimited"},
		"credentials that lack block nobody":    {says: waits("NoCredentials"), enforce: true, warns: unasked + "NoCredentials"},
		"an outage blocks nobody":               {says: &fault.Fault{Kind: fault.Retry, Reason: "SyncFailed", Err: errors.New("503")}, enforce: true, warns: unasked + "503"},
		"an end for another reason blocks none": {says: &fault.Fault{Kind: fault.Terminal, Reason: "Other", Err: errors.New("odd")}, enforce: true, warns: unasked + "odd"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			fleet := &checker{says: test.says}
			warnings, err := pipelineValidator(Options{Checker: fleet, Enforce: test.enforce}).ValidateCreate(t.Context(), pipeline(valid))
			g.Expect(fleet.asked).To(Equal(1))
			if test.warns == "" {
				g.Expect(warnings).To(BeEmpty())
			} else {
				g.Expect(warnings).To(ConsistOf(test.warns))
			}
			if test.fails == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(test.fails))
			g.Expect(apierrors.IsInvalid(err)).To(BeTrue())
		})
	}
}

func TestAnAnswerThatDoesNotComeIsWaitedForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		began := time.Now()
		warnings, err := pipelineValidator(Options{Checker: &checker{hangs: true}, Enforce: true}).ValidateCreate(t.Context(), pipeline(valid))
		g.Expect(time.Since(began)).To(Equal(2 * time.Second))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(ConsistOf("spec.contents: Fleet Management could not be asked about it: context deadline exceeded"))
	})
}

func TestFleetManagementIsAskedOnlyWhereItsAnswerMatters(t *testing.T) {
	changed := func(change func(*fleetmanagementv1alpha1.Pipeline)) *fleetmanagementv1alpha1.Pipeline {
		p := pipeline(valid)
		change(p)
		return p
	}
	mirror := func(p *fleetmanagementv1alpha1.Pipeline) {
		p.Annotations = map[string]string{fleetmanagementv1alpha1.AnnotationImportMode: fleetmanagementv1alpha1.ImportModeReadOnly}
	}
	for name, test := range map[string]struct {
		// old is nil for a new object.
		old, now *fleetmanagementv1alpha1.Pipeline
		names    Names
		want     int
	}{
		"a new object":          {now: pipeline(valid), want: 1},
		"a new object, paused":  {now: changed(func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Paused = true }), want: 1},
		"other contents":        {old: pipeline(valid), now: pipeline("logging { }"), want: 1},
		"other matchers":        {old: pipeline(valid), now: changed(func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Matchers = []string{"os=linux"} }), want: 1},
		"another name":          {old: pipeline(valid), now: changed(func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Name = "other" }), want: 1},
		"an annotation":         {old: pipeline(valid), now: changed(func(p *fleetmanagementv1alpha1.Pipeline) { p.Annotations = map[string]string{"a": "b"} })},
		"a pause":               {old: pipeline(valid), now: changed(func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Paused = true })},
		"white space at an end": {old: pipeline(valid), now: pipeline(valid + "  \n\n")},
		"a new mirror":          {now: changed(mirror)},
		"what breaks a rule":    {now: pipeline("{{{")},
		"a name that is taken":  {now: pipeline(valid), names: names{by: "team-b/logs"}},
		"an object on its way out": {old: pipeline(valid), now: changed(func(p *fleetmanagementv1alpha1.Pipeline) {
			p.Spec.Contents, p.DeletionTimestamp = "logging { }", &metav1.Time{}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := &checker{}
			v := pipelineValidator(Options{Checker: fleet, Enforce: true, Names: test.names})
			if test.old == nil {
				_, _ = v.ValidateCreate(t.Context(), test.now)
			} else {
				_, _ = v.ValidateUpdate(t.Context(), test.old, test.now)
			}
			NewWithT(t).Expect(fleet.asked).To(Equal(test.want))
		})
	}
}
