// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
)

func TestForbiddenLogHoldsTheLinesThatSayForbidden(t *testing.T) {
	for name, test := range map[string]struct {
		log  func(logr.Logger)
		want []string
	}{
		"an error that says so": {
			func(l logr.Logger) { l.Error(errors.New("findings is forbidden"), "list failed", "kind", "Finding") },
			[]string{"list failed findings is forbidden kind Finding"},
		},
		"a message that says so, at a level that is not printed": {
			func(l logr.Logger) { l.V(5).Info("Forbidden by RBAC") },
			[]string{"Forbidden by RBAC"},
		},
		"a value of the logger that says so": {
			func(l logr.Logger) { l.WithName("watch").WithValues("reason", "Forbidden").Info("stopped") },
			[]string{"stopped reason Forbidden"},
		},
		"every other line is left alone": {
			func(l logr.Logger) { l.Error(nil, "conflict"); l.Info("started") },
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			logger, log := WatchForbidden(logr.Discard())
			test.log(logger)
			g.Expect(log.Lines()).To(HaveExactElements(test.want))
		})
	}
}

func TestForbiddenLogPassesEverythingOnThatNextWants(t *testing.T) {
	g := NewWithT(t)
	var passed []string
	next := funcr.New(func(prefix, args string) { passed = append(passed, prefix+" "+args) }, funcr.Options{})
	logger, _ := WatchForbidden(next)
	logger.WithName("manager").WithValues("a", 1).Info("started")
	logger.V(1).Info("detail")
	logger.Error(errors.New("bad"), "failed")
	g.Expect(passed).To(HaveExactElements(
		`manager "level"=0 "msg"="started" "a"=1`,
		` "msg"="failed" "error"="bad"`,
	))
}

func TestFailOnForbiddenFailsAtTheEnd(t *testing.T) {
	g := NewWithT(t)
	fake := &fakeTB{}
	logger := FailOnForbidden(fake, logr.Discard())
	logger.Error(errors.New("secrets is forbidden"), "get failed")
	g.Expect(fake.errors).To(BeEmpty())
	fake.cleanup()
	g.Expect(fake.errors).To(ConsistOf("the manager lacks a right: get failed secrets is forbidden"))
}

type fakeTB struct {
	cleanup func()
	errors  []string
}

func (*fakeTB) Helper()             {}
func (f *fakeTB) Cleanup(do func()) { f.cleanup = do }
func (f *fakeTB) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
