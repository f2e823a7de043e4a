// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package crdgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Phase is how far a gate is.
type Phase int

const (
	// Unreachable means that nobody could be asked yet whether the kind exists.
	Unreachable Phase = iota
	// Absent means that the cluster does not serve the kind.
	Absent
	// Starting means that the objects of the kind are being read for the first time.
	Starting
	// Serving means that Reader answers.
	Serving
)

// State is what a gate knows.
type State struct {
	Phase Phase
	// Err is the last error of a gate that is not getting through; nil while there is none. A Serving gate with an error
	// answers from what it had.
	Err error
}

// retryAfter is how long after an error the API server is asked again. Without errors, only an event makes it look.
const retryAfter = 5 * time.Second

// Gate watches one CustomResourceDefinition, and while it is established, the kind it brings.
type Gate struct {
	// CRD is the name of the CustomResourceDefinition, and Kind the kind that it brings.
	CRD  string
	Kind schema.GroupVersionKind
	// Metadata watches that one definition: rights on its name are enough.
	Metadata metadata.Interface
	// Live reads the definition itself, whose metadata do not say whether it is established.
	Live client.Reader
	// NewCache makes a cache for the kind alone, so that stopping it forgets everything. failed is told of each list or
	// watch that fails.
	NewCache func(failed func(error)) (cache.Cache, error)
	// Activate registers indexes and event handlers with a cache that is about to start. They end with ctx.
	Activate func(ctx context.Context, c cache.Cache) error
	// OnChange is called after each change of state.
	OnChange func(context.Context, State)
	// Log gets a line when the kind comes or goes.
	Log logr.Logger

	// ctx is that of Start, for calls that outlive an activation.
	ctx context.Context
	// poke makes Start look again.
	poke chan struct{}
	// telling keeps the calls of OnChange in the order of the states.
	telling sync.Mutex
	mu      sync.Mutex
	state   State
	active  *activation
}

// activation is one life of the kind.
type activation struct {
	definition types.UID
	cache      cache.Cache
	stop       context.CancelFunc
	done       chan struct{}
}

// State returns what the gate knows now.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// Reader returns the cache of the kind; false unless it holds every object.
func (g *Gate) Reader() (client.Reader, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active == nil || g.state.Phase != Serving {
		return nil, false
	}
	return g.active.cache, true
}

// Start runs the gate until ctx ends. It implements manager.Runnable.
func (g *Gate) Start(ctx context.Context) error {
	g.ctx, g.poke = ctx, make(chan struct{}, 1)
	go g.definitions().RunWithContext(ctx)
	defer g.deactivate()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.poke:
		case <-timer.C:
		}
		if err := g.step(ctx); err != nil && ctx.Err() == nil {
			g.Log.Error(err, "Cannot watch reports; asking again", "crd", g.CRD, "after", retryAfter.String())
			timer.Reset(retryAfter)
		}
	}
}

// look makes Start look again soon.
func (g *Gate) look(any) {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// definitions watches the one definition.
func (g *Gate) definitions() toolscache.SharedIndexInformer {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, g.CRD).String()
	}
	resource := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	informer := metadatainformer.NewFilteredMetadataInformer(g.Metadata, resource, metav1.NamespaceAll, 0, toolscache.Indexers{}, only).Informer()
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: g.look, UpdateFunc: func(_, now any) { g.look(now) }, DeleteFunc: g.look,
	})
	if err != nil {
		g.Log.Error(err, "Cannot watch the definition", "crd", g.CRD)
	}
	return informer
}

// step compares the cluster with what is active, and starts or stops.
func (g *Gate) step(ctx context.Context) error {
	definition, err := g.established(ctx)
	if err != nil {
		if g.active == nil {
			g.become(nil, State{Phase: Unreachable, Err: err})
		}
		return err
	}
	if g.active != nil && g.active.definition != definition {
		g.deactivate()
		g.Log.Info("The reports are gone with their definition; their Findings stay", "crd", g.CRD)
	}
	state := g.State()
	switch {
	case definition == "":
		g.become(nil, State{Phase: Absent})
		return nil
	case g.active == nil:
		return g.activate(ctx, definition)
	case state.Phase != Serving || state.Err == nil:
		return nil
	default:
		return g.probe(ctx)
	}
}

// probe finds out whether a watch that was refused would get through by now: the watch itself tells of failures only.
func (g *Gate) probe(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(g.Kind.GroupVersion().WithKind(g.Kind.Kind + "List"))
	if err := g.Live.List(ctx, list, client.Limit(1)); err != nil {
		return fmt.Errorf("listing %s: %w", g.Kind.Kind, err)
	}
	g.become(g.active, State{Phase: Serving})
	return nil
}

// established returns the identity of the definition, empty when it does not exist or is not served yet. One that is
// being deleted still counts: its objects end before it does, and their end is worth hearing.
func (g *Gate) established(ctx context.Context) (types.UID, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := g.Live.Get(ctx, client.ObjectKey{Name: g.CRD}, &crd); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading the definition %s: %w", g.CRD, err)
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return crd.UID, nil
		}
	}
	return "", nil
}

func (g *Gate) activate(parent context.Context, definition types.UID) error {
	ctx, stop := context.WithCancel(parent)
	life := &activation{definition: definition, stop: stop, done: make(chan struct{})}
	c, err := g.NewCache(func(err error) { g.failed(life, err) })
	if err == nil {
		err = g.Activate(ctx, c)
	}
	if err != nil {
		stop()
		g.become(nil, State{Phase: Unreachable, Err: err})
		return fmt.Errorf("starting to watch what %s defines: %w", g.CRD, err)
	}
	life.cache = c
	g.mu.Lock()
	g.active = life
	g.mu.Unlock()
	g.become(life, State{Phase: Starting})
	go g.run(ctx, life)
	go func() {
		if c.WaitForCacheSync(ctx) && g.become(life, State{Phase: Serving}) {
			g.Log.Info("Watching reports", "crd", g.CRD)
		}
	}()
	return nil
}

func (g *Gate) run(ctx context.Context, life *activation) {
	defer close(life.done)
	if err := life.cache.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		g.Log.Error(err, "The watch of the reports ended", "crd", g.CRD)
	}
}

// failed notes why the first read does not get through, and later what no waiting mends: a missing right, or a kind that is
// not served any more. Other errors heal by themselves.
func (g *Gate) failed(life *activation, err error) {
	switch phase := g.State().Phase; {
	case phase == Starting:
		g.become(life, State{Phase: Starting, Err: err})
	case phase == Serving && Refused(err) && g.become(life, State{Phase: Serving, Err: err}):
		g.look(nil)
	}
}

// Refused reports whether an error is one that no waiting mends.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

func (g *Gate) deactivate() {
	g.mu.Lock()
	life := g.active
	g.active = nil
	g.mu.Unlock()
	if life == nil {
		return
	}
	life.stop()
	<-life.done
}

// become changes the state on behalf of a life of the kind, nil for none, and reports whether it did. A life that has
// ended changes nothing.
func (g *Gate) become(life *activation, state State) bool {
	g.telling.Lock()
	defer g.telling.Unlock()
	g.mu.Lock()
	same := g.state.Phase == state.Phase && fmt.Sprint(g.state.Err) == fmt.Sprint(state.Err)
	if g.active != life || same {
		g.mu.Unlock()
		return false
	}
	g.state = state
	g.mu.Unlock()
	g.OnChange(g.ctx, state)
	return true
}
