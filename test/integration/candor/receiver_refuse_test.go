// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var _ = Describe("Whoever has no key to the receiver of signals", func() {
	It("one-answer: learns nothing, whatever is wrong", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.lacksRights = true // on the Secret of one policy
		w.apply(ctx, builder.Policy(w.namespace, "deaf", []string{"trivy"}),
			builder.Policy(w.namespace, "broken", []string{"webhook"}, receiving, func(p *candorv1alpha1.SignalPolicy) { p.Spec.WebhookReceiver.SecretRef.Name = "nowhere" }))
		w.takes(ctx)
		Expect(w.signal(disk())).To(Equal("202 created"))
		now, body := w.clock.Now(), bodyOf(disk().with("severity", "CRITICAL"))
		replay := bodyOf(disk().with("id", "other"))
		Expect(w.post(w.namespace, "default", replay, signedAt(replay, doorKey, now)).String()).To(Equal("202 created"))
		end := bodyOf(disk().with("id", "other").with("status", "resolved"))
		Expect(w.post(w.namespace, "default", end, signedAt(end, doorKey, now)).String()).To(Equal("202 resolved"))
		w.settle(ctx)
		before := w.stored()

		huge := bytes.Repeat([]byte("x"), 2<<20)
		refused := map[string]answered{
			"nothing at all":            w.post(w.namespace, "default", nil),
			"no signature":              w.post(w.namespace, "default", body),
			"a wrong signature":         w.post(w.namespace, "default", body, signedAt(body, "another key than the one", now)),
			"a signature of no form":    w.post(w.namespace, "default", body, func(r *http.Request) { r.Header.Set("X-Candor-Signature", "md5=1") }),
			"a wrong token":             w.post(w.namespace, "default", body, presenting("another token than the one")),
			"a clock that is slow":      w.post(w.namespace, "default", body, signedAt(body, doorKey, now.Add(-6*time.Minute))),
			"a clock that is fast":      w.post(w.namespace, "default", body, signedAt(body, doorKey, now.Add(6*time.Minute))),
			"a replay":                  w.post(w.namespace, "default", replay, signedAt(replay, doorKey, now)),
			"2 MiB":                     w.post(w.namespace, "default", huge, signedAt(huge, doorKey, now)),
			"an unknown policy":         w.post(w.namespace, "nobody", body, signedAt(body, doorKey, now)),
			"an unknown namespace":      w.post("nowhere", "default", body, signedAt(body, doorKey, now)),
			"no name of a policy":       w.post(w.namespace, "No.Name_", body, signedAt(body, doorKey, now)),
			"a policy without receiver": w.post(w.namespace, "deaf", body, signedAt(body, doorKey, now)),
			"a Secret that is missing":  w.post(w.namespace, "broken", body, signedAt(body, doorKey, now)),
		}
		for _, got := range refused {
			got.header.Del("Date")
		}
		for name, got := range refused {
			Expect(got.status).To(Equal(http.StatusUnauthorized), name)
			Expect(got).To(Equal(refused["nothing at all"]), name)
			Expect(got.body).NotTo(ContainSubstring(w.namespace))
		}
		w.settle(ctx)
		Expect(w.stored()).To(Equal(before))
		Expect(w.metric("candor_signals_refused_total")()).To(BeNumerically(">=", len(refused)))
	})

	It("webhook-replay: changes nothing by what somebody recorded, on this replica, on another one, and after a restart", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.replicated()
		w.takes(ctx)
		second := w.alsoTakes(ctx)
		f := w.posted(ctx, disk())
		w.clock.Step(time.Second)
		recorded := bodyOf(disk())
		sign := signedAt(recorded, doorKey, w.clock.Now())
		replay := func(to *world) string { return to.post(w.namespace, "default", recorded, sign).String() }
		Expect(replay(w)).To(Equal("202 created"))
		Expect(replay(w)).To(Equal("202 unchanged"), "a sender that got no answer tries again")
		Expect(w.signal(disk().with("status", "resolved"))).To(Equal("202 resolved"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
		w.settle(ctx)
		before := w.stored()
		Expect(replay(w)).To(HavePrefix("401 "))
		Expect(replay(second)).To(Equal("202 late"))
		second.stop()
		w.stop()
		w.takes(ctx)
		Expect(replay(w)).To(Equal("202 late"))
		w.clock.Step(6 * time.Minute)
		Expect(replay(w)).To(HavePrefix("401 "))
		w.settle(ctx)
		Expect(outcome(f)()).To(Equal(candorv1alpha1.OutcomeResolved))
		Expect(w.stored()).To(Equal(before))
	})
})
