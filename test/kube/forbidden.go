// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// TB is the part of testing.TB and of Ginkgo's GinkgoT that FailOnForbidden needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// FailOnForbidden returns a logger that passes everything on to next and, at the end of t, fails it for each line that says
// "forbidden": a right that the manager lacks, which most clients of Kubernetes retry in silence. client-go reports failed watches
// through klog, so give the logger to klog.SetLogger as well as to the manager.
func FailOnForbidden(t TB, next logr.Logger) logr.Logger {
	t.Helper()
	logger, log := WatchForbidden(next)
	t.Cleanup(func() {
		t.Helper()
		for _, line := range log.Lines() {
			t.Errorf("the manager lacks a right: %s", line)
		}
	})
	return logger
}

// WatchForbidden is FailOnForbidden for callers that decide themselves when to look.
func WatchForbidden(next logr.Logger) (logr.Logger, *ForbiddenLog) {
	log := &ForbiddenLog{}
	return logr.New(&forbiddenSink{next: next.GetSink(), log: log}), log
}

// ForbiddenLog holds the log lines that say "forbidden".
type ForbiddenLog struct {
	mu    sync.Mutex
	lines []string
}

// Lines returns them in the order of their arrival.
func (l *ForbiddenLog) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func (l *ForbiddenLog) look(line string) {
	if !strings.Contains(strings.ToLower(line), "forbidden") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// forbiddenSink sees every level, also those that next leaves out.
type forbiddenSink struct {
	next   logr.LogSink // nil for logr.Discard
	log    *ForbiddenLog
	values []any
}

func (s *forbiddenSink) Init(info logr.RuntimeInfo) {
	if s.next != nil {
		info.CallDepth++
		s.next.Init(info)
	}
}

func (*forbiddenSink) Enabled(int) bool { return true }

func (s *forbiddenSink) Info(level int, message string, values ...any) {
	s.log.look(s.line(nil, message, values))
	if s.next != nil && s.next.Enabled(level) {
		s.next.Info(level, message, values...)
	}
}

func (s *forbiddenSink) Error(err error, message string, values ...any) {
	s.log.look(s.line(err, message, values))
	if s.next != nil {
		s.next.Error(err, message, values...)
	}
}

func (s *forbiddenSink) WithValues(values ...any) logr.LogSink {
	derived := &forbiddenSink{log: s.log, values: append(s.values[:len(s.values):len(s.values)], values...)}
	if s.next != nil {
		derived.next = s.next.WithValues(values...)
	}
	return derived
}

func (s *forbiddenSink) WithName(name string) logr.LogSink {
	derived := &forbiddenSink{log: s.log, values: s.values}
	if s.next != nil {
		derived.next = s.next.WithName(name)
	}
	return derived
}

func (s *forbiddenSink) line(err error, message string, values []any) string {
	parts := []any{message}
	if err != nil {
		parts = append(parts, err)
	}
	return strings.TrimSuffix(fmt.Sprintln(append(append(parts, s.values...), values...)...), "\n")
}
