package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-mq/warren/test/testenv/process"
)

// manager is a process of the manager.
type manager struct {
	*process.Process

	pid     int
	metrics string // address of the metrics
	log     string // path of the log
}

// startManager starts the manager to measure, with additional arguments. It serves profiles at w.profiles.
func (w *world) startManager(more ...string) (err error) {
	if w.profiles == "" {
		if w.profiles, err = process.FreeAddress(); err != nil {
			return err
		}
	}
	m := &manager{log: filepath.Join(w.program.TempDir(), "manager.log")}
	if m.metrics, err = process.FreeAddress(); err != nil {
		return err
	}
	flags := append([]string{
		"--metrics-secure=false", "--metrics-bind-address=" + m.metrics, "--pprof-bind-address=" + w.profiles,
	}, more...)
	if m.Process, err = process.StartLogged(process.Manager(w.given.manager, w.server.KubeConfig, flags...), m.log); err != nil {
		return err
	}
	m.pid = m.Command.Process.Pid
	w.program.Cleanup(func() {
		if err := m.Stop(); err != nil {
			progress("%v", err)
		}
	})
	w.manager = m
	return nil
}

// runs reports whether the manager runs; false for nil.
func (m *manager) runs() bool { return m != nil && !m.HasEnded() }

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
	return fmt.Errorf("the manager ended by itself: %w", m.Err())
}

// logTail returns the end of the manager's log.
func (m *manager) logTail() string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "The end of the manager's log:\n" + strings.Join(lines[max(0, len(lines)-10):], "\n")
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
	request.Header.Set("Accept-Encoding", "identity") // the manager must not spend time on compression
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
