// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/signals"
)

const podKind = "Pod"

// podOwners remembers who controls the pods that reports speak of. The controller of a pod does not change, so it is asked for
// once; pods are not watched, of which a cluster has far more than of anything else.
type podOwners struct {
	mu    sync.Mutex
	known map[types.NamespacedName]podOwner
	// asking makes one request of those for one pod: passes of many workloads look for the same pods at the same time.
	asking singleflight.Group
}

// podOwner is the controller of a pod. It has no kind where there is none.
type podOwner struct {
	kind, name string
	// gone means that there is no such pod.
	gone bool
}

func (p *podOwners) of(namespace, name string) (podOwner, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	owner, known := p.known[types.NamespacedName{Namespace: namespace, Name: name}]
	return owner, known
}

func (p *podOwners) remember(namespace, name string, owner podOwner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[types.NamespacedName]podOwner{}
	}
	p.known[types.NamespacedName{Namespace: namespace, Name: name}] = owner
}

// turn follows a report from what it spoke of before to what it speaks of now: pods that it does not name any more are
// forgotten, and those that were not there are asked for again.
func (p *podOwners) turn(before, after []signals.Subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	named := make(map[signals.Subject]bool, len(after))
	for _, subject := range after {
		named[subject] = true
	}
	for _, subjects := range [][]signals.Subject{before, after} {
		for _, subject := range subjects {
			pod := types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name}
			if subject.Kind == podKind && (!named[subject] || p.known[pod].gone) {
				delete(p.known, pod)
			}
		}
	}
}

// under returns the pods of a namespace that a controller is known to have.
func (p *podOwners) under(namespace, kind, name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pods []string
	for pod, owner := range p.known {
		if pod.Namespace == namespace && owner.kind == kind && owner.name == name {
			pods = append(pods, pod.Name)
		}
	}
	return pods
}

// forget drops everything.
func (p *podOwners) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.known)
}

// learn asks the API server who controls a pod, unless that is known. Mirrors of static pods belong to their node, which is
// nobody's workload.
func (o owners) learn(ctx context.Context, namespace, name string) (podOwner, error) {
	owner, err, _ := o.pods.asking.Do(objectKey(namespace, name), func() (any, error) {
		if owner, known := o.pods.of(namespace, name); known {
			return owner, nil
		}
		return o.ask(ctx, namespace, name)
	})
	if err != nil {
		return podOwner{}, err
	}
	return owner.(podOwner), nil
}

func (o owners) ask(ctx context.Context, namespace, name string) (podOwner, error) {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(podKind))
	err := o.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
	if client.IgnoreNotFound(err) != nil {
		return podOwner{}, fmt.Errorf("looking for the controller of pod %s/%s: %w", namespace, name, err)
	}
	owner := podOwner{gone: apierrors.IsNotFound(err)}
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil && controller.Kind != "Node" {
		owner.kind, owner.name = controller.Kind, controller.Name
	}
	o.pods.remember(namespace, name, owner)
	return owner, nil
}

// podsOf returns the pods of revisions of a workload of which reports speak.
func (o owners) podsOf(ctx context.Context, reader client.Reader, class signals.Class, namespace string, revisions []revision) ([]revision, error) {
	numbers := make(map[podOwner]int, len(revisions))
	for _, r := range revisions {
		numbers[podOwner{kind: r.kind, name: r.name}] = r.number
	}
	list := listOf(class)
	err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexResource: anyPod}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the reports of pods in %s: %w", namespace, err)
	}
	seen := map[string]bool{}
	var pods []revision
	for i := range list.Items {
		subjects, _ := class.Subjects(&list.Items[i])
		for _, subject := range subjects {
			if subject.Kind != podKind || seen[subject.Name] {
				continue
			}
			seen[subject.Name] = true
			owner, err := o.learn(ctx, namespace, subject.Name)
			if err != nil {
				return nil, err
			}
			if number, ours := numbers[owner]; ours {
				pods = append(pods, revision{kind: podKind, name: subject.Name, number: number})
			}
		}
	}
	return pods, nil
}
