// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// syncEvery is the schedule of syncs, and pastDue longer than it can get.
const (
	syncEvery = 10 * time.Minute
	pastDue   = syncEvery + syncEvery/10 + time.Second
)

// cmdb is a server that knows things about hosts, and counts who asks.
type cmdb struct {
	*httptest.Server

	mu       sync.Mutex
	status   int
	body     string
	version  string
	requests []*http.Request
}

func newCMDB() *cmdb {
	c := &cmdb{status: http.StatusOK, body: "[]"}
	c.Server = httptest.NewTLSServer(c)
	DeferCleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *cmdb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	if c.version != "" {
		w.Header().Set("ETag", c.version)
		if r.Header.Get("If-None-Match") == c.version {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(c.status)
	_, _ = w.Write([]byte(c.body))
}

// answers says what the next questions get.
func (c *cmdb) answers(status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.body = status, body
}

// fetches is how often it was asked.
func (c *cmdb) fetches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.requests)
}

// bearer is what the last question was signed with.
func (c *cmdb) bearer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.requests) == 0 {
		return ""
	}
	return c.requests[len(c.requests)-1].Header.Get("Authorization")
}

func (c *cmdb) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}))
}

// hosts are the records of n collectors.
func hosts(n int, owner string) string {
	all := make([]map[string]any, 0, n)
	for i := range n {
		all = append(all, map[string]any{"host": edge(i), "owner": owner})
	}
	text, err := json.Marshal(all)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func edge(i int) string { return fmt.Sprintf("edge-%04d", i) }

// syncWorld is a world whose manager looks after Collectors, and fetches what a server knows of them.
type syncWorld struct {
	*collectorWorld
	*cmdb
}

func newSyncWorld(ctx context.Context) *syncWorld {
	GinkgoHelper()
	w := &syncWorld{newCollectorWorld(ctx), newCMDB()}
	w.enableOnly("collector", "policy", "external-sync")
	w.options.Fleet.Sources.AllowCIDRs = "127.0.0.0/8"
	return w
}

// sync is one that gives each collector the owner of its host as its team.
func (w *syncWorld) sync(name string, change ...func(*fleetmanagementv1alpha1.ExternalAttributeSync)) *fleetmanagementv1alpha1.ExternalAttributeSync {
	o := &fleetmanagementv1alpha1.ExternalAttributeSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: fleetmanagementv1alpha1.ExternalAttributeSyncSpec{
			Source: fleetmanagementv1alpha1.ExternalSource{
				Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: w.URL + "/hosts", CABundle: w.ca()},
			},
			Schedule: syncEvery.String(), Selector: fleetmanagementv1alpha1.PolicySelector{Matchers: []string{"env!=prod"}},
			Mapping: fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "host", AttributeFields: map[string]string{"team": "owner"}},
		},
	}
	for _, f := range change {
		f(o)
	}
	return o
}

// signed has a sync use a Secret of its namespace.
func signed(secret string) func(*fleetmanagementv1alpha1.ExternalAttributeSync) {
	return func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
		o.Spec.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: secret}
	}
}

// fleetOf makes n collectors and their Collectors.
func (w *syncWorld) fleetOf(ctx context.Context, n int) {
	GinkgoHelper()
	for i := range n {
		w.registers(edge(i), nil, nil)
		w.create(ctx, w.collector(fmt.Sprintf("c-%d", i), edge(i)))
	}
}

// given is how many collectors have a team in Fleet Management.
func (w *syncWorld) given() (n int) {
	for _, c := range w.fleet.Collectors() {
		if _, has := c.GetRemoteAttributes()["team"]; has {
			n++
		}
	}
	return n
}

// well is how many Collectors are synced.
func (w *syncWorld) well(ctx context.Context) func() int {
	return func() (n int) {
		var list fleetmanagementv1alpha1.CollectorList
		Expect(cluster.Client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		for i := range list.Items {
			if verdictOf(list.Items[i].Status.Conditions, fleetmanagementv1alpha1.ConditionSynced) == synced {
				n++
			}
		}
		return n
	}
}

func (w *syncWorld) readSync(ctx context.Context, name string) *fleetmanagementv1alpha1.ExternalAttributeSync {
	GinkgoHelper()
	o := &fleetmanagementv1alpha1.ExternalAttributeSync{}
	Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, o)).To(Succeed())
	return o
}

// syncSays returns a function that reads Ready of a sync, and how many collectors it gives something.
func (w *syncWorld) syncSays(ctx context.Context, name string) func() string {
	return func() string {
		o := w.readSync(ctx, name)
		return fmt.Sprintf("%s %d", verdictOf(o.Status.Conditions, fleetmanagementv1alpha1.ConditionReady), o.Status.RecordsApplied)
	}
}

func (w *syncWorld) message(ctx context.Context, name string) string {
	return messageOf(w.readSync(ctx, name).Status.Conditions, fleetmanagementv1alpha1.ConditionReady)
}

// approve sets the word that a sync tells, as a person would.
func (w *syncWorld) approve(ctx context.Context, name string) {
	GinkgoHelper()
	patch(ctx, w.sync(name), fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, fleetmanagementv1alpha1.AnnotationApproveRemoval, wordIn(w.message(ctx, name))))
}

// lookAtSync has a sync looked at, and waits for it.
func (w *syncWorld) lookAtSync(name string) {
	GinkgoHelper()
	w.lookAt("external-sync", w.sync(name))
}

// secret makes a Secret, and mayRead a Role that lets the manager get it.
func (w *syncWorld) secret(ctx context.Context, name, token string) *corev1.Secret {
	GinkgoHelper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: map[string]string{"bearer-token": token}}
	w.create(ctx, s)
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, s))).To(Succeed()) })
	return s
}

func (w *syncWorld) mayRead(ctx context.Context, name string) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "read-" + name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}},
	}
	w.create(ctx, role, binding)
	DeferCleanup(func(ctx SpecContext) {
		Expect(cluster.Client.Delete(ctx, binding)).To(Succeed())
		Expect(cluster.Client.Delete(ctx, role)).To(Succeed())
	})
}
