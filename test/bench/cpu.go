// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/<pid>/stat, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// processor is a process and the processor time, user and system, that it has had.
type processor struct {
	name string
	used time.Duration
}

// processors returns this process and its children, by process id; nothing where there is no /proc.
func processors() map[string]processor {
	found, self := map[string]processor{}, strconv.Itoa(os.Getpid())
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		pid := filepath.Base(filepath.Dir(file))
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		// The name stands in brackets and may hold anything; fields are counted behind it.
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[end+1:]))
		if len(fields) < 13 || (pid != self && fields[1] != self) {
			continue
		}
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		found[pid] = processor{name: string(stat[open+1 : end]), used: time.Duration(user+system) * clockTick}
	}
	return found
}

// spent says what each process has used since before, such as "kube-apiserver 4.2 s, manager 2.0 s".
func spent(before, after map[string]processor) string {
	used := map[string]time.Duration{}
	for pid, p := range after {
		used[p.name] += p.used - before[pid].used
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		parts = append(parts, fmt.Sprintf("%s %.1f s", name, used[name].Seconds()))
	}
	return strings.Join(parts, ", ")
}
