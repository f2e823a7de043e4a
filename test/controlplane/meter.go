// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const barWidth = 24

// meter shows a build to a person: one line redrawn on a terminal, a line for every ten percent in a log. The redrawn line is kept
// apart from the title and short, since a line that wraps cannot be redrawn.
type meter struct {
	out      io.Writer
	terminal bool
	title    string
	shown    string // what the redrawn line says now
	step     int    // the last ten percent that a plain line told
}

func newMeter(out io.Writer, terminal bool, title string) *meter {
	return &meter{out: out, terminal: terminal, title: title}
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (m *meter) start() {
	fmt.Fprintf(m.out, "▸ %s: building once, about 5 minutes on two cores …\n", m.title)
	m.show("Go modules", 0)
}

func (m *meter) waiting() {
	fmt.Fprintf(m.out, "▸ %s: another run is building, waiting for it …\n", m.title)
}

func (m *meter) show(what string, percent int) {
	if !m.terminal {
		if step := percent / 10; step > m.step {
			m.step = step
			fmt.Fprintf(m.out, "  %s %d %%\n", what, percent)
		}
		return
	}
	filled := percent * barWidth / 100
	bar := strings.Repeat("=", filled) + ">" + strings.Repeat(" ", barWidth-filled)
	if line := fmt.Sprintf("  [%s] %s %d %%", bar, what, percent); line != m.shown {
		m.shown = line
		fmt.Fprintf(m.out, "\r%s\x1b[K", line)
	}
}

// end leaves the redrawn line, so that what follows starts on a line of its own.
func (m *meter) end() {
	if m.terminal && m.shown != "" {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.shown = ""
	}
}

func (m *meter) built(took time.Duration, dir string) {
	m.end()
	fmt.Fprintf(m.out, "  built in %s; kept in %s\n", took.Round(time.Second), dir)
}
