// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/lifecycle"
)

// namespaceFile holds the namespace of a pod that has a ServiceAccount.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace returns the namespace that the manager runs in; empty outside a cluster, unless an option says it.
func (o *Options) podNamespace() string {
	if o.PodNamespace != "" {
		return o.PodNamespace
	}
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// tell records an event on the manager's own pod: somebody who sees that it is not ready looks there.
func (b *building) tell(kind, reason, message string) {
	namespace := b.options.podNamespace()
	if b.options.PodName == "" || namespace == "" {
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: b.options.PodName, UID: types.UID(b.options.PodUID)}}
	lifecycle.Announce(b.mgr.GetEventRecorder("candor"), pod, kind, reason, message)
}

// uncached returns a client that reads from the API server, so that it needs no right to list or watch.
func (b *building) uncached() (client.Client, error) {
	c, err := client.New(b.mgr.GetConfig(), client.Options{HTTPClient: b.mgr.GetHTTPClient(), Scheme: b.mgr.GetScheme(), Mapper: b.mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("creating an uncached client: %w", err)
	}
	return c, nil
}
