// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/candor-dev/candor/internal/sparse"
)

const (
	listHead = `{"kind":"ThingList","apiVersion":"x.y/v1","metadata":{"resourceVersion":"7","continue":"%s"},"items":[%s]}`
	expired  = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`
)

var thingKind = schema.GroupVersionKind{Group: "x.y", Version: "v1", Kind: "Thing"}

func thing(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"managedFields":[{"manager":"m"}]},"spec":{"kept":"k","prose":"long"}}`, name)
}

// sourceOf returns a source of the answers that a handler gives.
func sourceOf(t *testing.T, handler http.HandlerFunc, transform func(any) (any, error)) *Source {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	if transform == nil {
		transform = func(object any) (any, error) { return object, nil }
	}
	s, err := New(&rest.Config{Host: server.URL}, server.Client(), thingKind.GroupVersion().WithResource("things"),
		Unstructured(thingKind, []string{"spec.kept"}), transform)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

// answers returns a handler that gives one answer after another and notes the requests.
func answers(requests *[]string, bodies ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r.URL.String())
		body := bodies[len(*requests)-1]
		w.Header().Set("Content-Type", "application/json")
		if body == expired {
			w.WriteHeader(http.StatusGone)
		}
		_, _ = w.Write([]byte(body))
	}
}

func names(g Gomega, list runtime.Object) []string {
	items, err := meta.ExtractList(list)
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, item := range items {
		found = append(found, item.(*unstructured.Unstructured).GetName())
	}
	return found
}

func TestAListIsReadPageByPageAndCutDown(t *testing.T) {
	g, requests := NewWithT(t), []string{}
	s := sourceOf(t, answers(&requests, fmt.Sprintf(listHead, "next", thing("a")+","+thing("b")), fmt.Sprintf(listHead, "", thing("c"))), nil)
	list, err := s.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests).To(Equal([]string{"/apis/x.y/v1/things?limit=500", "/apis/x.y/v1/things?continue=next&limit=500"}))
	g.Expect(names(g, list)).To(Equal([]string{"a", "b", "c"}))
	accessor, err := meta.ListAccessor(list)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(accessor.GetResourceVersion()).To(Equal("7"))
	items, err := meta.ExtractList(list)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(items[0].(*unstructured.Unstructured).Object).To(Equal(map[string]any{
		"apiVersion": "x.y/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"kept": "k"},
	}))
}

func TestAListWhosePagesExpireIsReadWhole(t *testing.T) {
	g, requests := NewWithT(t), []string{}
	s := sourceOf(t, answers(&requests, fmt.Sprintf(listHead, "next", thing("a")), expired, fmt.Sprintf(listHead, "", thing("a")+","+thing("b"))), nil)
	list, err := s.ListWithContext(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests).To(HaveLen(3))
	g.Expect(requests[2]).NotTo(ContainSubstring("continue"))
	g.Expect(names(g, list)).To(Equal([]string{"a", "b"}))
}

func TestAListThatCannotBeReadIsAnError(t *testing.T) {
	whole := fmt.Sprintf(listHead, "", thing("a"))
	for name, test := range map[string]struct{ body, want string }{
		"cut off":                 {whole[:len(whole)-20], "reading a list of things"},
		"an item is no object":    {fmt.Sprintf(listHead, "", `"a"`), "string instead of an object"},
		"no list at all":          {`{"kind":"Status","metadata":{}}`, "it has no items"},
		"the items are no list":   {`{"items":{}}`, "reading a list of things"},
		"a transform that cannot": {whole, "cannot"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := []string{}
			s := sourceOf(t, answers(&requests, test.body), func(object any) (any, error) {
				if strings.Contains(test.want, "cannot") {
					return nil, fmt.Errorf("cannot")
				}
				return object, nil
			})
			_, err := s.ListWithContext(t.Context(), metav1.ListOptions{})
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestARefusalKeepsItsReason(t *testing.T) {
	g := NewWithT(t)
	s := sourceOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`))
	}, nil)
	_, err := s.ListWithContext(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	_, err = s.WatchWithContext(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
}

func TestAWatchCutsDownWhatItBrings(t *testing.T) {
	g, requests := NewWithT(t), []string{}
	s := sourceOf(t, answers(&requests, strings.Join([]string{
		`{"type":"ADDED","object":` + thing("a") + `}`,
		`{"object":` + thing("b") + `,"type":"DELETED"}`,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`,
		`{"type":"ERROR","object":` + expired + `}`,
	}, "\n")), nil)
	w, err := s.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	var got []watch.Event
	for e := range w.ResultChan() {
		got = append(got, e)
	}
	g.Expect(requests).To(Equal([]string{"/apis/x.y/v1/things?allowWatchBookmarks=true&resourceVersion=7&watch=true"}))
	g.Expect(got).To(HaveLen(4))
	g.Expect(got[0].Type).To(Equal(watch.Added))
	g.Expect(got[0].Object.(*unstructured.Unstructured).Object).To(HaveKeyWithValue("spec", map[string]any{"kept": "k"}))
	g.Expect(got[1].Type).To(Equal(watch.Deleted))
	g.Expect(got[1].Object.(*unstructured.Unstructured).GetName()).To(Equal("b"))
	g.Expect(got[2].Type).To(Equal(watch.Bookmark))
	g.Expect(got[2].Object.(*unstructured.Unstructured).GetResourceVersion()).To(Equal("9"))
	g.Expect(got[3].Type).To(Equal(watch.Error))
	g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(got[3].Object))).To(BeTrue())
}

func TestAnEventThatCannotBeReadEndsTheWatchWithAnError(t *testing.T) {
	for name, body := range map[string]string{
		"no object":       `{"type":"ADDED"}`,
		"an unknown type": `{"type":"MOVED","object":{}}`,
		"no JSON":         `{"type":"ADDED","object":{"metadata":]}`,
		"a text":          `{"type":"ADDED","object":"text"}`,
	} {
		t.Run(name, func(t *testing.T) {
			g, requests := NewWithT(t), []string{}
			w, err := sourceOf(t, answers(&requests, body), nil).WatchWithContext(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			defer w.Stop()
			event := <-w.ResultChan()
			g.Expect(event.Type).To(Equal(watch.Error))
			g.Expect(apierrors.FromObject(event.Object)).To(MatchError(ContainSubstring("unable to decode an event")))
			g.Eventually(w.ResultChan()).Should(BeClosed())
		})
	}
}

func TestAfterACutConnectionTheWatchGoesOnAndNothingIsListedAnew(t *testing.T) {
	for name, rest := range map[string]string{
		"between two events": "", "within an event": `{"type":"MODIFIED","object":{"metadata":{"na`, "before the type": `{`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var lists, watches atomic.Int32
			s := sourceOf(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if !r.URL.Query().Has("watch") {
					lists.Add(1)
					_, _ = fmt.Fprintf(w, listHead, "", thing("a"))
					return
				}
				event := fmt.Sprintf(`{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"%d"}}}`, 8+watches.Add(1))
				_, _ = w.Write([]byte(event + "\n" + rest))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}, nil)
			informer := s.Informer(nil, &unstructured.Unstructured{}, 0, nil)
			go informer.RunWithContext(t.Context())
			g.Eventually(watches.Load, "10s").Should(BeNumerically(">=", 3))
			g.Expect(lists.Load()).To(BeEquivalentTo(1))
		})
	}
}

func TestATypedObjectIsWhatKubernetesDecodes(t *testing.T) {
	const text = `{"apiVersion":"candor.dev/v1alpha1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",
		"creationTimestamp":"2026-01-02T03:04:05Z","generation":2,"labels":{"a":"b"},"finalizers":["f"],"deletionGracePeriodSeconds":3,
		"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"y","controller":true}],
		"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}]},
		"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1500m"}}}],"unknown":{"a":[1]}},
		"status":{"startTime":null,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	g := NewWithT(t)
	var want corev1.Pod
	g.Expect(json.Unmarshal([]byte(text), &want)).To(Succeed())
	want.ManagedFields = nil
	got, err := Typed[corev1.Pod]()(sparse.NewDecoder(strings.NewReader(text)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(&want))

	_, err = Typed[corev1.Pod]()(sparse.NewDecoder(strings.NewReader(`{"metadata":{"name":7}}`)))
	g.Expect(err).To(MatchError(ContainSubstring("/metadata/name")))
}
