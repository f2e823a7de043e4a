// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Candor at work on an API server of its own, as make demo runs it:
//
//	KUBEBUILDER_ASSETS=$(go run -C test/controlplane .) go run ./test/demo
//
// Reports of a scanner arrive, are made anew, roll out, get fixed and worse; then a model explains them, inside a budget. After
// each step it says what that cost, as it counted it. With -controlplane-only it serves an API server with the CRDs and nothing else, for make run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/kube"
)

type options struct {
	controlplaneOnly bool
	once             bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flags := flag.NewFlagSet("demo", flag.ExitOnError) // the default one has flags of packages that are imported
	flags.BoolVar(&o.controlplaneOnly, "controlplane-only", false, "Serve an API server with the CRDs of Candor and Trivy Operator, without the manager, until Ctrl-C.")
	flags.BoolVar(&o.once, "once", false, "End by itself instead of waiting for Ctrl-C. Without a terminal the walk does so anyway.")
	_ = flags.Parse(os.Args[1:]) // ends the process where there is a mistake
	_, err := run(ctx, o, newScreen(os.Stdout))
	if interrupted := ctx.Err() != nil; interrupted && (err == nil || errors.Is(err, context.Canceled)) {
		fmt.Println("\nStopped. Nothing of it is left.")
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// run returns what each step cost, and leaves neither processes nor files behind.
func run(ctx context.Context, o options, screen *screen) (results []result, err error) {
	home, err := os.MkdirTemp("", "candor-demo-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder: %w; set TMPDIR to a folder that can be written", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	screen.say("Starting etcd and kube-apiserver …")
	cluster, err := startCluster(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if o.controlplaneOnly {
		return nil, serve(ctx, cluster, home, o.once, screen)
	}
	d, err := newDemo(ctx, cluster, home, screen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if results, err = d.walk(ctx); err != nil {
		return results, d.manager.explain(err)
	}
	if o.once || !isTerminal(os.Stdin) {
		return results, nil
	}
	return results, d.lookAround(ctx)
}

// startCluster starts an API server that knows the kinds of Candor and of Trivy Operator, and grants the manager's rights.
func startCluster(ctx context.Context) (*kube.Cluster, error) {
	if os.Getenv(assetsVariable) == "" {
		return nil, fmt.Errorf("%s is not set: run make demo or make controlplane, which build etcd and kube-apiserver once and find them", assetsVariable)
	}
	cluster, err := kube.Start(kube.Options{Scheme: app.NewScheme()})
	if err != nil {
		return nil, err
	}
	if err := cluster.InstallTrivyCRDs(ctx); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	if err := cluster.InstallManagerRBAC(ctx); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return cluster, nil
}

// isTerminal reports whether a person may be there. The null device is a character device as well.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

func newScreen(out *os.File) *screen { return &screen{out: out, color: isTerminal(out)} }

// assetsVariable names the folder of etcd and kube-apiserver.
const assetsVariable = "KUBEBUILDER_ASSETS"

// titleWidth is where the numbers begin.
const titleWidth = 58

// screen writes for a person, in colors where they show.
type screen struct {
	out   io.Writer
	color bool
}

func (s *screen) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// title starts a part of the output.
func (s *screen) title(format string, args ...any) {
	s.say("\n%s %s", s.paint("1;36", "▸"), s.paint("1", fmt.Sprintf(format, args...)))
}

// command shows what a person would have typed to see what follows.
func (s *screen) command(text string) { s.say("\n%s", s.paint("2", "$ "+text)) }

func (s *screen) aside(format string, args ...any) {
	s.say("  %s", s.paint("2", fmt.Sprintf(format, args...)))
}

func (s *screen) paint(code, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// begin says what is being done, until its result takes the place.
func (s *screen) begin(title string) {
	if s.color {
		fmt.Fprintf(s.out, "\n▸ %s …", title)
	}
}

func (s *screen) end(r result) {
	if s.color {
		fmt.Fprint(s.out, "\r\x1b[K")
	} else {
		s.say("")
	}
	s.say("%s %s %s", s.paint("1;36", "▸"), s.paint("1", fmt.Sprintf("%-*s", titleWidth, r.title)), r.line())
	if len(r.writes) > 0 {
		s.aside("%s", r.written())
	}
}
