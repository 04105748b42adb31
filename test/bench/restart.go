package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// quiet is for how long the manager must not have reconciled anything before a phase ends.
const quiet = 2 * time.Second

// measureRestart stops the manager, starts another one, and measures the time until that has found each ConsumerQueue in sync.
func measureRestart(ctx context.Context, w *world) ([]row, error) {
	if err := w.manager.Stop(); err != nil {
		return nil, err
	}
	r, err := w.measure(ctx, "restart", func(ctx context.Context) (outcome, error) {
		if err := w.startManager(); err != nil {
			return outcome{}, err
		}
		return w.untilKnown(ctx)
	})
	if err != nil {
		return nil, err
	}
	err = w.noteHeap(ctx, &r)
	return []row{r}, err
}

// untilKnown waits until the manager has found all ConsumerQueues in sync and has not reconciled any for a while. The measured
// time ends with the last reconciliation.
func (w *world) untilKnown(ctx context.Context) (outcome, error) {
	last, seen, reconciled := moment{}, 0.0, 0.0
	for deadline := time.Now().Add(timeLimit); time.Now().Before(deadline); {
		if !w.manager.runs() {
			return outcome{}, fmt.Errorf("the manager ended by itself: %w", w.manager.Err())
		}
		current, err := w.now()
		if err != nil {
			return outcome{}, err
		}
		samples, err := w.manager.scrape(ctx, reconciledMetric)
		all, inSync := reconciliations(samples)
		switch { // an error means that the manager does not listen yet
		case err == nil && all != seen:
			seen, reconciled, last = all, inSync, current
		case err == nil && reconciled >= float64(w.count) && current.at.Sub(last.at) > quiet:
			return outcome{end: last, note: fmt.Sprintf("%.1f reconciliations each", all/float64(w.count))}, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return outcome{}, err
		}
	}
	return outcome{}, fmt.Errorf("waiting until the manager has found all ConsumerQueues in sync (%.0f of %d)", reconciled, w.count)
}

// leaderFlags are the flags of the manifests, with a namespace, because the managers do not run in pods.
var leaderFlags = []string{"--leader-elect", "--leader-election-namespace", namespace}

// measureTakeover stops a leader while another manager stands by, and measures the time until the other manager has found each
// ConsumerQueue in sync. It stops the leader once gracefully, so that the leader releases its lease, and once by a kill, so that the lease
// expires.
func measureTakeover(ctx context.Context, w *world) ([]row, error) {
	if err := w.manager.Stop(); err != nil {
		return nil, err
	}
	if err := w.startManager(leaderFlags...); err != nil {
		return nil, err
	}
	if _, err := w.untilKnown(ctx); err != nil {
		return nil, err
	}
	var rows []row
	for _, end := range []struct {
		phase  string
		signal syscall.Signal
	}{{"takeover, SIGTERM", syscall.SIGTERM}, {"takeover, SIGKILL", syscall.SIGKILL}} {
		r, err := w.takeOver(ctx, end.phase, end.signal)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", end.phase, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// standbyTime is how long a manager stands by to fill its caches.
const standbyTime = 5 * time.Second

// takeOver starts a standby manager and stops the leader with a signal.
func (w *world) takeOver(ctx context.Context, phase string, signal syscall.Signal) (row, error) {
	w.leader, w.profiles = w.manager, "" // both serve profiles
	if err := w.startManager(leaderFlags...); err != nil {
		return row{}, err
	}
	if err := w.manager.untilServing(ctx); err != nil {
		return row{}, err
	}
	if err := pause(ctx, standbyTime); err != nil {
		return row{}, err
	}
	r, err := w.measure(ctx, phase, func(ctx context.Context) (outcome, error) {
		if err := w.leader.Command.Process.Signal(signal); err != nil {
			return outcome{}, err
		}
		return w.untilKnown(ctx)
	})
	if ended := w.leader.Wait(); signal == syscall.SIGTERM { // after SIGKILL it returns an error
		err = errors.Join(err, ended)
	}
	w.leader = nil
	return r, err
}
