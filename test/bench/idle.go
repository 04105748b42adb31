package main

import (
	"context"
	"fmt"
	"time"
)

// The manager's requests in calm: whether anything changed, how many messages there are, and, rarely, all definitions.
const (
	conditionalRequest = "GET /definitions/{vhost} (not_modified)"
	countRequest       = "GET /queues/{vhost}"
)

// measureIdle watches the manager do nothing, once what came before has calmed down.
func measureIdle(ctx context.Context, w *world) ([]row, error) {
	calm, err := w.untilCalm(ctx)
	if err != nil {
		return nil, err
	}
	r, err := w.measure(ctx, "idle", func(ctx context.Context) (outcome, error) { return outcome{}, pause(ctx, w.given.idle) })
	r.note = idleNote(r, w.given.interval)
	if !calm {
		r.note += "; not calm before"
	}
	return rowsUnless(err, r)
}

// untilCalm waits until the broker has answered that nothing changed. The manager trusts that answer again once it has read the vhost
// twice without news. It is false if that takes more than five intervals.
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

// idleNote says what the manager takes in calm, by kind of request.
func idleNote(r row, interval time.Duration) string {
	intervals := r.took.Seconds() / interval.Seconds()
	conditional, counts := r.http[conditionalRequest], r.http[countRequest]
	return fmt.Sprintf("manager %.1f%% of a core; per interval of %s, %.1f conditional requests, %.1f message counts, %.1f others",
		100*r.cpu.manager.Seconds()/r.took.Seconds(), interval,
		conditional/intervals, counts/intervals, (r.http.total()-conditional-counts)/intervals)
}
