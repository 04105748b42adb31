package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// manager is a process of the manager.
type manager struct {
	pid     int
	metrics string // the address of its metrics
	log     string // a file
	ended   chan struct{}
	err     error // how it ended; to be read after ended
}

// startManager starts a binary, with further arguments. Profiles are served at the given address.
func startManager(binary, folder, kubeConfig, profiles string, more ...string) (*manager, error) {
	m := &manager{log: filepath.Join(folder, "manager.log"), ended: make(chan struct{})}
	var err error
	if m.metrics, err = freeAddress(); err != nil {
		return nil, err
	}
	command := exec.Command(binary, "--health-probe-bind-address", "0", "--metrics-secure=false", "--metrics-bind-address", m.metrics,
		"--pprof-bind-address", profiles)
	command.Args = append(command.Args, more...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeConfig)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	output, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the log of the manager: %w", err)
	}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	m.pid = command.Process.Pid
	go func() {
		defer close(m.ended)
		m.err = command.Wait()
		_ = output.Close()
	}()
	return m, nil
}

// stop asks the manager to end, as the kubelet does. It does nothing for a manager that has ended.
func (m *manager) stop() error {
	if !m.runs() {
		return nil
	}
	if err := m.signal(syscall.SIGTERM); err != nil {
		return err
	}
	return m.await()
}

// signal sends a signal to the manager, and does not wait.
func (m *manager) signal(signal syscall.Signal) error {
	if err := syscall.Kill(m.pid, signal); err != nil {
		return fmt.Errorf("send signal %q to the manager: %w", signal, err)
	}
	return nil
}

// await returns how a manager ended that was asked to.
func (m *manager) await() error {
	select {
	case <-m.ended:
		return m.err
	case <-time.After(time.Minute):
		return errors.Join(errors.New("the manager did not end within a minute"), syscall.Kill(m.pid, syscall.SIGKILL))
	}
}

// runs is false for a manager that is nil.
func (m *manager) runs() bool {
	if m == nil {
		return false
	}
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// untilServing waits until the manager serves its metrics.
func (m *manager) untilServing(ctx context.Context) error {
	for m.runs() {
		if _, err := m.scrape(ctx); err == nil {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the manager ended by itself: %w", m.err)
}

// lastWords are the end of the manager's log.
func (m *manager) lastWords() string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "The manager's last words:\n" + strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// scrape reads some of the manager's metrics.
func (m *manager) scrape(ctx context.Context, names ...string) ([]sample, error) {
	text, err := get(ctx, "http://"+m.metrics+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the manager: %w", err)
	}
	return parseMetrics(text, names...)
}

func get(ctx context.Context, uri string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity") // the manager is not to spend time on compression
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", uri, response.Status)
	}
	return io.ReadAll(response.Body)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
