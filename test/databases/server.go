// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package databases

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// server is a process with a folder and a port.
type server struct {
	folder string
	port   int
	// identity is who it runs as when that is not us: databases refuse to run as root.
	identity *syscall.Credential

	process *os.Process
	ended   chan struct{}
}

func newServer() (*server, error) {
	s := &server{}
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		s.identity = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.port = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, err
	}
	if s.folder, err = os.MkdirTemp("", "database"); err != nil {
		return nil, err
	}
	return s, s.own(s.folder)
}

// own gives a file to who the server runs as.
func (s *server) own(path string) error {
	if s.identity == nil {
		return nil
	}
	return os.Chown(path, int(s.identity.Uid), int(s.identity.Gid))
}

// write makes a file in the server's folder and returns its path.
func (s *server) write(name, content string) (string, error) {
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", err
	}
	return path, s.own(path)
}

func (s *server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = s.folder
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.folder, "TMPDIR=" + s.folder, "LC_ALL=C"}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.identity}
	return command
}

// prepare runs a program to its end.
func (s *server) prepare(ctx context.Context, program string, args ...string) error {
	if said, err := s.command(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, said)
	}
	return nil
}

// serve starts a program and returns when a line of what it says contains ready.
func (s *server) serve(ctx context.Context, ready, program string, args ...string) error {
	command := s.command(context.WithoutCancel(ctx), program, args...)
	endWithParent(command.SysProcAttr)
	says, err := command.StderrPipe()
	if err != nil {
		return err
	}
	started := make(chan error)
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		// The signal comes when the thread that started the program ends.
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_, _ = command.Process.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process = command.Process
	heard := make(chan error, 1)
	go func() { heard <- hear(says, ready) }()
	select {
	case err = <-heard:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	go func() { _, _ = io.Copy(io.Discard, says) }()
	return nil
}

// hear reads up to the line that contains ready.
func hear(says io.Reader, ready string) error {
	var lines []string
	for scanner := bufio.NewScanner(says); scanner.Scan(); {
		if strings.Contains(scanner.Text(), ready) {
			return nil
		}
		lines = append(lines, scanner.Text())
	}
	return errors.New("it ends before it is ready: " + strings.Join(lines, "\n"))
}

// stop ends the process and removes its folder.
func (s *server) stop() {
	if s.process != nil {
		_ = s.process.Signal(syscall.SIGQUIT)
		<-s.ended
	}
	_ = os.RemoveAll(s.folder)
}

// find returns the path of a program, which may stand in a folder that is not searched.
func find(program string, elsewhere ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, pattern := range elsewhere {
		if found, _ := filepath.Glob(filepath.Join(pattern, program)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s %w", program, errMissing)
}
