// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// process is Candor as a process of its own, so that its memory is its own.
type process struct {
	command *exec.Cmd
	metrics string
	peak    *int
}

// build compiles Candor, and lets it be nobody but its ServiceAccount.
func (b *bench) build(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.binary(), "./cmd")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building Candor: %w: %s", err, out)
	}
	return b.writeKubeconfig(ctx, b.kubeconfig())
}

func (b *bench) binary() string     { return filepath.Join(b.folder, "manager") }
func (b *bench) kubeconfig() string { return filepath.Join(b.folder, "kubeconfig") }

// startManager runs Candor as its ServiceAccount, with more arguments than it always has.
func (b *bench) startManager(ctx context.Context, arguments ...string) (*process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, b.binary(), append([]string{
		"--kubeconfig=" + b.kubeconfig(), "--metrics-bind-address=" + address, "--metrics-secure=false",
		"--health-probe-bind-address=0", "--pprof-bind-address=" + b.size.pprof,
	}, arguments...)...)
	log, err := os.Create(filepath.Join(b.folder, "manager.log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), "GOGC=30", "GOMEMLIMIT=410MiB") // as in config/manager
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting Candor: %w", err)
	}
	return &process{command: command, metrics: "http://" + address + "/metrics", peak: &b.peak}, nil
}

func (b *bench) writeKubeconfig(ctx context.Context, path string) error {
	manager, err := b.cluster.ManagerConfig(ctx)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{Server: manager.Host, CertificateAuthorityData: manager.CAData}
	config.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: manager.BearerToken}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	config.CurrentContext = "bench"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// await polls until the series that start with prefix add up to want.
func (p *process) await(ctx context.Context, prefix string, want float64) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if sum, err := p.metric(ctx, prefix); err == nil && sum >= want {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := p.command.Process.Signal(syscall.Signal(0)); err != nil {
			return errors.New("the manager ended; see its log")
		}
	}
}

// metric adds up the series that start with prefix.
func (p *process) metric(ctx context.Context, prefix string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.metrics, nil)
	if err != nil {
		return 0, fmt.Errorf("asking for metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking for metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	return addUp(bufio.NewScanner(response.Body), func(series string) bool { return strings.HasPrefix(series, prefix) })
}

// addUp adds up the series of a metrics page.
func addUp(lines *bufio.Scanner, wanted func(series string) bool) (float64, error) {
	lines.Buffer(nil, 16<<20)
	sum := 0.0
	for lines.Scan() {
		cut := strings.LastIndexByte(lines.Text(), ' ')
		if cut < 0 || !wanted(lines.Text()[:cut]) {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[cut+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading metrics: %w", err)
		}
		sum += value
	}
	return sum, lines.Err()
}

// peakMiB returns the most memory that the process has held, in MiB.
func (p *process) peakMiB() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, _ := strconv.Atoi(fields[1])
			return kib >> 10
		}
	}
	return 0
}

func (p *process) stop() error {
	*p.peak = max(*p.peak, p.peakMiB())
	if err := p.command.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stopping Candor: %w", err)
	}
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("stopping Candor: %w", err)
	}
	return nil
}
