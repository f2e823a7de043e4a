// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package crdgate

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const definition = "vulnerabilityreports.aquasecurity.github.io"

var errAway = errors.New("the API server is away")

// world is a cluster of one definition, and a gate before it.
type world struct {
	*Gate
	mu sync.Mutex
	// uid is that of the definition, empty for none; away is what reading it answers instead.
	uid         types.UID
	established apiextensionsv1.ConditionStatus
	away        error
	// cannotMake and cannotActivate are what starting to watch answers.
	cannotMake, cannotActivate error
	states                     []State
	lives                      []*life
}

// life is one cache that the gate made.
type life struct {
	informertest.FakeInformers
	failed  func(error)
	synced  chan struct{}
	stopped chan struct{}
	ctx     context.Context
}

func (l *life) Start(ctx context.Context) error {
	<-ctx.Done()
	close(l.stopped)
	return nil
}

func (l *life) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-l.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{established: apiextensionsv1.ConditionTrue}
	w.Gate = &Gate{
		CRD: definition, Log: logr.Discard(), Live: w, ctx: t.Context(),
		NewCache: func(failed func(error)) (cache.Cache, error) {
			l := &life{failed: failed, synced: make(chan struct{}), stopped: make(chan struct{})}
			w.lives = append(w.lives, l)
			return l, w.cannotMake
		},
		Activate: func(ctx context.Context, c cache.Cache) error {
			c.(*life).ctx = ctx
			return w.cannotActivate
		},
		OnChange: func(_ context.Context, s State) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.states = append(w.states, s)
		},
	}
	t.Cleanup(w.deactivate)
	return w
}

// Get implements client.Reader.
func (w *world) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return w.away
	}
	if w.uid == "" || key.Name != definition {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name)
	}
	*o.(*apiextensionsv1.CustomResourceDefinition) = apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: definition, UID: w.uid},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}, {Type: apiextensionsv1.Established, Status: w.established},
		}},
	}
	return nil
}

// List implements client.Reader.
func (w *world) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("a gate lists nothing")
}

func (w *world) define(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uid = uid
}

func (w *world) phases() []Phase {
	w.mu.Lock()
	defer w.mu.Unlock()
	var phases []Phase
	for _, s := range w.states {
		phases = append(phases, s.Phase)
	}
	return phases
}

func (w *world) readable() bool {
	_, ok := w.Reader()
	return ok
}

// serve brings the gate to Serving.
func (w *world) serve(t *testing.T) *life {
	t.Helper()
	g := NewWithT(t)
	w.define("first")
	g.Expect(w.step(t.Context())).To(Succeed())
	l := w.lives[len(w.lives)-1]
	close(l.synced)
	g.Eventually(w.State).Should(Equal(State{Phase: Serving}))
	g.Eventually(w.phases).Should(ContainElement(Serving))
	return l
}

func TestAKindThatIsNotThereIsAbsent(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	g.Expect(w.State()).To(Equal(State{Phase: Unreachable}), "nobody has been asked yet")
	for range 3 {
		g.Expect(w.step(t.Context())).To(Succeed())
	}
	w.uid, w.established = "first", apiextensionsv1.ConditionFalse
	g.Expect(w.step(t.Context())).To(Succeed())
	g.Expect(w.State()).To(Equal(State{Phase: Absent}), "a definition that is not established serves nothing")
	g.Expect(w.phases()).To(Equal([]Phase{Absent}), "what stays the same is said once")
	g.Expect(w.lives).To(BeEmpty())
	g.Expect(w.readable()).To(BeFalse())
}

func TestAKindThatComesIsReadBeforeItIsServed(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	g.Expect(w.step(t.Context())).To(Succeed())
	w.define("first")
	g.Expect(w.step(t.Context())).To(Succeed())
	g.Expect(w.State()).To(Equal(State{Phase: Starting}))
	g.Expect(w.readable()).To(BeFalse(), "half a cache would look like reports that are gone")

	w.lives[0].failed(errAway)
	g.Expect(w.State()).To(Equal(State{Phase: Starting, Err: errAway}))

	close(w.lives[0].synced)
	g.Eventually(w.State).Should(Equal(State{Phase: Serving}))
	reader, ok := w.Reader()
	g.Expect(ok).To(BeTrue())
	g.Expect(reader).To(BeIdenticalTo(w.lives[0]))
	w.lives[0].failed(errAway)
	g.Expect(w.State()).To(Equal(State{Phase: Serving}), "a watch that breaks later heals by itself")
	for range 3 {
		g.Expect(w.step(t.Context())).To(Succeed())
	}
	g.Eventually(w.phases).Should(Equal([]Phase{Absent, Starting, Starting, Serving}))
	g.Expect(w.lives).To(HaveLen(1))
}

func TestAKindThatGoesStopsItsWatch(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	first := w.serve(t)
	w.define("")
	g.Expect(w.step(t.Context())).To(Succeed())
	g.Expect(first.stopped).To(BeClosed())
	g.Expect(first.ctx.Err()).To(MatchError(context.Canceled), "what Activate started ends")
	g.Expect(w.State()).To(Equal(State{Phase: Absent}))
	g.Expect(w.readable()).To(BeFalse())

	first.failed(errAway)
	g.Expect(w.State()).To(Equal(State{Phase: Absent}), "a life that has ended changes nothing")

	second := w.serve(t)
	g.Expect(second).NotTo(BeIdenticalTo(first))
	g.Expect(w.phases()).To(Equal([]Phase{Starting, Serving, Absent, Starting, Serving}))
}

func TestADefinitionThatIsReplacedStartsAnew(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	first := w.serve(t)
	w.define("second")
	g.Expect(w.step(t.Context())).To(Succeed())
	g.Expect(first.stopped).To(BeClosed())
	g.Expect(w.lives).To(HaveLen(2))
	first.failed(errAway)
	g.Expect(w.State()).To(Equal(State{Phase: Starting}), "a life that has ended says nothing about the next")
	close(w.lives[1].synced)
	g.Eventually(w.State).Should(Equal(State{Phase: Serving}))
}

func TestAnOutageIsNoAbsence(t *testing.T) {
	t.Run("before anything is known", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		w.away = errAway
		for range 3 {
			g.Expect(w.step(t.Context())).To(MatchError("reading the definition " + definition + ": " + errAway.Error()))
		}
		g.Expect(w.State().Phase).To(Equal(Unreachable))
		g.Expect(w.State().Err).To(MatchError(errAway))
		g.Expect(w.phases()).To(Equal([]Phase{Unreachable}), "the same error is said once")
		w.away = nil
		w.serve(t)
	})
	t.Run("while reports are being served", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		l := w.serve(t)
		w.away = errAway
		g.Expect(w.step(t.Context())).To(MatchError(errAway))
		g.Expect(w.State()).To(Equal(State{Phase: Serving}))
		g.Expect(w.readable()).To(BeTrue())
		g.Expect(l.stopped).NotTo(BeClosed())
	})
}

func TestAWatchThatCannotStartIsTriedAgain(t *testing.T) {
	for name, change := range map[string]func(*world, error){
		"when the cache cannot be made":      func(w *world, err error) { w.cannotMake = err },
		"when handlers cannot be registered": func(w *world, err error) { w.cannotActivate = err },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t)
			w.define("first")
			change(w, errAway)
			g.Expect(w.step(t.Context())).To(MatchError("starting to watch what " + definition + " defines: " + errAway.Error()))
			g.Expect(w.State()).To(Equal(State{Phase: Unreachable, Err: errAway}))
			g.Expect(w.readable()).To(BeFalse())
			change(w, nil)
			w.serve(t)
		})
	}
}

func TestAGateLooksWhenTheDefinitionChangesAndEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	scheme := metadatafake.NewTestScheme()
	g.Expect(metav1.AddMetaToScheme(scheme)).To(Succeed())
	metadata := metadatafake.NewSimpleMetadataClient(scheme)
	w.Metadata = metadata
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	g.Eventually(w.phases).Should(Equal([]Phase{Absent}))

	w.define("first")
	crds := metadata.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).(metadatafake.MetadataClient)
	_, err := crds.CreateFake(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: definition, UID: "first"},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(w.phases).Should(Equal([]Phase{Absent, Starting}))

	w.define("")
	g.Expect(crds.Delete(ctx, definition, metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(w.phases).Should(Equal([]Phase{Absent, Starting, Absent}))
	g.Expect(w.lives[0].stopped).To(BeClosed())

	w.serve(t)
	cancel()
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(w.lives[1].stopped).To(BeClosed(), "nothing outlives the gate")
}
