// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"errors"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/candor-dev/candor/internal/fault"
)

func TestListsThatFailAreToldOnceForEachReason(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	ctx := logf.IntoContext(t.Context(), funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{}))
	refused := &fault.Fault{Kind: fault.Wait, Reason: "AuthFailed", Err: errors.New("refused")}
	var told teller
	for _, err := range []error{nil, errors.New("away"), errors.New("away still"), refused, refused, nil, nil} {
		told.tell(ctx, "pipelines", err)
	}
	g.Expect(lines).To(HaveExactElements(
		And(HavePrefix("fleet "), ContainSubstring(`"reason"="SyncFailed"`), ContainSubstring("away")),
		ContainSubstring(`"reason"="AuthFailed"`),
		ContainSubstring("Fleet Management answers again"),
	))
}
