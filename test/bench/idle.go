package main

import (
	"context"
	"fmt"
	"time"
)

// The requests of an idle manager, which asks whether the definitions have changed, and for message counts.
const (
	conditionalRequest = "GET /definitions/{vhost} (not_modified)"
	countRequest       = "GET /queues/{vhost}"
)

// measureIdle measures an idle manager, after the effects of the phases before have ended.
func measureIdle(ctx context.Context, w *world) ([]row, error) {
	calm, err := w.untilCalm(ctx)
	if err != nil {
		return nil, err
	}
	r, err := w.measure(ctx, "idle", func(ctx context.Context) (outcome, error) { return outcome{}, pause(ctx, w.given.idle) })
	r.note = idleNote(r, w.given.interval)
	if !calm {
		r.note += "; the manager was still busy before"
	}
	return rowsUnless(err, r)
}

// untilCalm waits until the broker has answered that nothing changed. The manager trusts this answer again after it has read the
// vhost twice without a change. It returns false after five intervals.
func (w *world) untilCalm(ctx context.Context) (bool, error) {
	before, err := w.counters(ctx)
	if err != nil {
		return false, err
	}
	for deadline := time.Now().Add(5 * w.given.interval); time.Now().Before(deadline); {
		if err := pause(ctx, w.given.interval/10); err != nil {
			return false, err
		}
		now, err := w.counters(ctx)
		if err != nil {
			return false, err
		}
		if now.http[conditionalRequest] > before.http[conditionalRequest] {
			return true, nil
		}
	}
	return false, nil
}

// idleNote describes the requests of an idle manager by kind.
func idleNote(r row, interval time.Duration) string {
	intervals := r.took.Seconds() / interval.Seconds()
	conditional, counts := r.http[conditionalRequest], r.http[countRequest]
	return fmt.Sprintf("manager %.1f%% of a core; per interval of %s, %.1f conditional requests, %.1f message counts, %.1f others",
		100*r.cpu.manager.Seconds()/r.took.Seconds(), interval,
		conditional/intervals, counts/intervals, (r.http.total()-conditional-counts)/intervals)
}
