package main

import (
	"context"
	"fmt"
	"time"
)

// row is the cost of one phase.
type row struct {
	count         int
	layout, phase string
	took          time.Duration
	bare          time.Duration // time of the broker without a manager; 0 if there is no comparison
	bareAPI       time.Duration // time of the API server without a manager; 0 if there is no comparison
	http, amqp    counts        // requests of the manager to the broker
	writes        counts        // writing requests of the manager to the API server
	cpu           cpu
	peak          int64 // memory of the manager in bytes; 0 without one
	note          string
}

// String is printed while the next phase runs.
func (r row) String() string {
	text := fmt.Sprintf("%d %s, %s: %.2f s", r.count, r.layout, r.phase, r.took.Seconds())
	if r.note != "" {
		text += "; " + r.note
	}
	return text
}

// writesEach returns the writes to the API server per ConsumerQueue.
func (r row) writesEach() string {
	writes, events := r.writes.withoutEvents()
	return fmt.Sprintf("%.1f API writes and %.1f Events each", writes.total()/float64(r.count), events.total()/float64(r.count))
}

// outcome is the result of a step of the benchmark.
type outcome struct {
	// own are the benchmark's own writes at the API server. All others are the manager's.
	own  counts
	note string
	// end is when the step reached its goal; zero if that was when it returned.
	end moment
}

// counters are the total numbers of requests.
type counters struct{ http, amqp, writes counts }

func (w *world) counters(ctx context.Context) (counters, error) {
	found := counters{http: counts{}, amqp: counts{}}
	var err error
	if found.writes, err = w.server.writes(ctx); err != nil || !w.manager.runs() {
		return found, err
	}
	samples, err := w.manager.scrape(ctx, requestsMetric)
	found.http, found.amqp = brokerRequests(samples, "management"), brokerRequests(samples, "amqp")
	return found, err
}

// now returns the current time and counters.
func (w *world) now() (moment, error) {
	if !w.manager.runs() {
		return now(0, w.brokerPID)
	}
	return now(w.manager.pid, w.brokerPID)
}

// measure runs a step and measures its cost. It reads metrics before and after, because that takes time, too.
func (w *world) measure(ctx context.Context, phase string, step func(context.Context) (outcome, error)) (row, error) {
	r := row{count: w.count, layout: w.layout.name, phase: phase}
	before, err := w.counters(ctx)
	if err != nil {
		return r, err
	}
	if w.manager.runs() {
		if err := resetPeak(w.manager.pid); err != nil {
			return r, err
		}
	}
	stopProfiling := w.profile(ctx, phase)
	defer stopProfiling()
	began, err := w.now()
	if err != nil {
		return r, err
	}
	result, err := step(ctx)
	if err != nil {
		return r, err
	}
	if result.end.at.IsZero() {
		if result.end, err = w.now(); err != nil {
			return r, err
		}
	}
	if w.manager.runs() {
		if r.peak, err = peakMemory(w.manager.pid); err != nil {
			return r, err
		}
	}
	after, err := w.counters(ctx)
	r.took, r.cpu, r.note = result.end.at.Sub(began.at), result.end.cpu.since(began.cpu), result.note
	r.http, r.amqp = after.http.since(before.http), after.amqp.since(before.amqp)
	r.writes = after.writes.since(before.writes).since(result.own)
	return r, err
}
