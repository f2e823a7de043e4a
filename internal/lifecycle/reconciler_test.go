// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/candor-dev/candor/internal/fault"
)

var (
	resource = schema.GroupResource{Group: "example.com", Resource: "things"}
	conflict = apierrors.NewConflict(resource, "one", errors.New("changed"))
	notFound = apierrors.NewNotFound(resource, "one")
	outage   = apierrors.NewServiceUnavailable("the API server is away")
	errPlain = errors.New("it broke")
)

func TestASuccessIsStoredAnnouncedAndSettled(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	works := syncer{func(o *thing) (Outcome, error) {
		o.Status.Seen = "what Sync saw"
		return Outcome{Reason: "Active", Message: "It works.", PollAfter: time.Hour, Then: func() { b.did = append(b.did, "then") }}, nil
	}}
	result, err := b.pass(works)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: time.Hour}))
	g.Expect(b.did).To(Equal([]string{"status", "event Normal Active", "then"}), "what is said aloud is stored")
	g.Expect(b.notes).To(Equal([]string{"It works."}))
	g.Expect(b.read().Status).To(BeComparableTo(thingStatus{
		ObservedGeneration: 3, Seen: "what Sync saw", Conditions: ready(metav1.ConditionTrue, "Active", "It works.", start),
	}))

	result, err = b.pass(syncer{func(*thing) (Outcome, error) { t.Error("a settled object was synced"); return Outcome{}, nil }})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{}))
	g.Expect(b.did).To(BeEmpty())
}

func TestASecondPassWritesNothingWhenNothingChanged(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	works := always(concludes(Outcome{Reason: "Active", Message: "It works.", PollAfter: time.Hour}))
	_, err := b.pass(works)
	g.Expect(err).NotTo(HaveOccurred())
	for range 5 {
		b.now = b.now.Add(time.Hour)
		result, err := b.pass(works)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: time.Hour}), "a poll goes on")
		g.Expect(b.did).To(BeEmpty())
	}
}

func TestOnlyATransitionIsAnEvent(t *testing.T) {
	later := start.Add(time.Minute)
	active := Outcome{Reason: "Active", Message: "It works."}
	for name, test := range map[string]struct {
		next   Outcome
		did    []string
		stored []metav1.Condition
	}{
		"another message is stored and not announced": {
			Outcome{Reason: "Active", Message: "It works well."}, []string{"status"}, ready(metav1.ConditionTrue, "Active", "It works well.", start),
		},
		"another reason is announced and no transition of the condition": {
			Outcome{Reason: "Better", Message: "It works."}, []string{"status", "event Normal Better"}, ready(metav1.ConditionTrue, "Better", "It works.", start),
		},
		"another status is a transition and a warning": {
			Outcome{Reason: "Bad", Message: "It does not.", Status: metav1.ConditionFalse},
			[]string{"status", "event Warning Bad"},
			ready(metav1.ConditionFalse, "Bad", "It does not.", later),
		},
		"what nobody can tell is a warning": {
			Outcome{Reason: "Unclear", Status: metav1.ConditionUnknown},
			[]string{"status", "event Warning Unclear"},
			ready(metav1.ConditionUnknown, "Unclear", "", later),
		},
		"a silent transition is stored only": {
			Outcome{Reason: "Bad", Status: metav1.ConditionFalse, Silent: true}, []string{"status"}, ready(metav1.ConditionFalse, "Bad", "", later),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, one())
			_, err := b.pass(always(concludes(active)))
			g.Expect(err).NotTo(HaveOccurred())
			b.now = later
			result, err := b.pass(always(concludes(test.next)))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result).To(Equal(ctrl.Result{}))
			g.Expect(b.did).To(Equal(test.did))
			g.Expect(b.read().Status).To(BeComparableTo(thingStatus{ObservedGeneration: 3, Conditions: test.stored}))
		})
	}
}

func TestAFaultSaysWhatHappensNext(t *testing.T) {
	of := func(kind fault.Kind) error {
		return fmt.Errorf("asking: %w", &fault.Fault{Kind: kind, Reason: "Refused", After: 7 * time.Second, Err: errPlain})
	}
	for name, test := range map[string]struct {
		err      error
		result   ctrl.Result
		retried  bool
		observed int64
		reason   string
	}{
		"an error without a kind is tried again":                    {err: errPlain, retried: true, reason: "Failed"},
		"a Retry is tried again":                                    {err: of(fault.Retry), retried: true, reason: "Refused"},
		"a NotFound in the middle of the work is tried again":       {err: of(fault.NotFound), retried: true, reason: "Refused"},
		"a Wait is tried again when it says":                        {err: of(fault.Wait), result: ctrl.Result{RequeueAfter: 7 * time.Second}, reason: "Refused"},
		"a Terminal is left alone for half an hour and is observed": {err: of(fault.Terminal), result: ctrl.Result{RequeueAfter: 30 * time.Minute}, observed: 3, reason: "Refused"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, one())
			result, err := b.pass(always(fails(test.err)))
			if test.retried {
				g.Expect(err).To(MatchError(errPlain))
			} else {
				g.Expect(err).NotTo(HaveOccurred(), "an error would discard the timer")
			}
			g.Expect(result).To(Equal(test.result))
			g.Expect(b.did).To(Equal([]string{"status", "event Warning " + test.reason}))
			g.Expect(b.notes).To(Equal([]string{test.err.Error()}))
			g.Expect(b.read().Status).To(BeComparableTo(thingStatus{
				ObservedGeneration: test.observed, Conditions: ready(metav1.ConditionFalse, test.reason, test.err.Error(), start),
			}))

			b.now = start.Add(time.Hour)
			_, _ = b.pass(always(fails(test.err)))
			g.Expect(b.did).To(BeEmpty(), "the same fault again is no news")
		})
	}
}

func TestAStatusThatIsNotStoredIsNotAnnounced(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		result ctrl.Result
		err    error
	}{
		"a conflict is another pass":                     {conflict, ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil},
		"an object that is gone is no error":             {notFound, ctrl.Result{}, nil},
		"any other answer is tried again as an error is": {outage, ctrl.Result{}, outage},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, one())
			b.failStatus = test.answer
			result, err := b.pass(always(concludes(Outcome{Reason: "Active", Then: func() { t.Error("Then ran before the status was stored") }})))
			if test.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(test.err))
			}
			g.Expect(result).To(Equal(test.result))
			g.Expect(b.did).To(Equal([]string{"status"}))
			g.Expect(b.read().Status).To(BeComparableTo(thingStatus{}))

			b.failStatus = nil
			_, err = b.pass(always(concludes(Outcome{Reason: "Active"})))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.did).To(Equal([]string{"status", "event Normal Active"}), "the transition is announced once it is stored")
		})
	}
}

func TestAnObjectThatSyncDeletedGetsNoStatus(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	result, err := b.pass(always(concludes(Outcome{Reason: "Ended", Gone: true})))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{}))
	g.Expect(b.did).To(BeEmpty())

	_, err = b.pass(always(func(*thing) (Outcome, error) { return Outcome{Gone: true}, errPlain }))
	g.Expect(err).To(MatchError(errPlain))
	g.Expect(b.did).To(Equal([]string{"status", "event Warning Failed"}), "one that could not be deleted does")
}

func TestASettlerDecidesWhetherThereIsWork(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	idle := settler{syncer: syncer{func(*thing) (Outcome, error) { t.Error("a settled object was synced"); return Outcome{}, nil }}, again: time.Minute, settled: true}
	result, err := b.pass(idle)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
	g.Expect(b.did).To(BeEmpty())
}

func TestLongTextsAreCutAtARune(t *testing.T) {
	for name, test := range map[string]struct {
		text               string
		note, messageBytes int
	}{
		"a note of 1,024 bytes is whole":                      {strings.Repeat("x", 1024), 1024, 1024},
		"a note of 1,025 bytes is cut":                        {strings.Repeat("x", 1025), 1024, 1025},
		"a note of three-byte runes is cut between two":       {strings.Repeat("界", 400), 1023, 1200},
		"a note of four-byte runes is cut between two":        {"x" + strings.Repeat("😀", 300), 1021, 1201},
		"a message beyond what a condition takes is cut, too": {strings.Repeat("x", 40_000), 1024, 32768},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, one())
			_, err := b.pass(always(concludes(Outcome{Reason: "Active", Message: test.text})))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.notes).To(HaveLen(1))
			note, message := b.notes[0], b.read().Status.Conditions[0].Message
			g.Expect([]int{len(note), len(message)}).To(Equal([]int{test.note, test.messageBytes}))
			g.Expect(utf8.ValidString(note) && utf8.ValidString(message)).To(BeTrue())
			g.Expect(test.text).To(HavePrefix(note))
		})
	}
}

func TestANoteIsNoFormat(t *testing.T) {
	b := newBench(t, one())
	_, err := b.pass(always(concludes(Outcome{Reason: "Active", Message: "100 %d of %s"})))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(b.notes).To(Equal([]string{"100 %d of %s"}))
}

// contentThing is a kind whose spec the operator itself writes.
type contentThing struct{ *thing }

func (contentThing) ObservedGeneration() *int64 { return nil }

func TestAConditionOfContentKnowsNoGeneration(t *testing.T) {
	g := NewWithT(t)
	o := contentThing{one()}
	g.Expect(SetCondition(o, start, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Active"})).To(BeTrue())
	g.Expect(o.Status).To(BeComparableTo(thingStatus{Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Active", LastTransitionTime: metav1.NewTime(start),
	}}}))
	before := o.DeepCopyObject()
	o.Generation = 4
	g.Expect(SetCondition(o, start.Add(time.Hour), metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Active"})).To(BeFalse())
	g.Expect(o.Status).To(BeComparableTo(before.(*thing).Status), "a new generation with the same content writes nothing")

	RemoveCondition(o, "Ready")
	g.Expect(o.Status.Conditions).To(BeEmpty())
	RemoveCondition(o, "Ready")
}
