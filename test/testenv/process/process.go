// Package process runs the manager and other programs as processes, for test suites and programs. It does not use Ginkgo; package
// testenv wraps it for specs.
package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/warren-mq/warren/test/deadline"
)

// Process is a started program.
type Process struct {
	Command *exec.Cmd
	// Ended is closed when the process has ended.
	Ended chan struct{}

	err error // result of the process; valid after Ended
}

// Manager returns the command that runs a manager's binary for the API server of a kubeconfig file.
func Manager(binary, kubeConfig string, flags ...string) *exec.Cmd {
	command := exec.Command(binary, append([]string{"--health-probe-bind-address=0"}, flags...)...)
	// `make test` sets GOGC, but the manager must use as much memory as in a cluster.
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeConfig, "GOGC=")
	return command
}

// Start starts a command. The caller must stop it.
func Start(command *exec.Cmd) (*Process, error) {
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	p := &Process{Command: command, Ended: make(chan struct{})}
	go func() {
		defer close(p.Ended)
		p.err = command.Wait()
	}()
	return p, nil
}

// StartLogged starts a command whose output goes to a new file. Ctrl-C does not reach the process, so the caller must stop it.
func StartLogged(command *exec.Cmd, path string) (*Process, error) {
	log, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own file descriptor
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return Start(command)
}

// Stop sends SIGTERM, as the kubelet does, and returns the result of the process. It returns nil for a process that ended before.
func (p *Process) Stop() error {
	if p.HasEnded() {
		return nil
	}
	if err := p.Command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.Command.Path, err)
	}
	return p.Wait()
}

// Wait returns the result of a process after a signal. It kills a process that takes too long.
func (p *Process) Wait() error {
	limit := deadline.For(20 * time.Second)
	select {
	case <-p.Ended:
		return p.err
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("%s did not exit within %s after the signal", p.Command.Path, limit), p.Command.Process.Kill())
	}
}

// HasEnded reports whether the process has ended.
func (p *Process) HasEnded() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Err returns the result of the process. It is valid after Ended.
func (p *Process) Err() error { return p.err }

// FreeAddress returns a loopback address with a free port. Linux has many loopback addresses, and clients connect from one of
// them, so no other test and no client takes the port before the caller listens. Other systems have one loopback address.
func FreeAddress() (string, error) {
	ip := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
