package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// phaseCreate is what all later phases need.
const phaseCreate = "create"

// phases are what is measured, in this order.
var phases = []struct {
	name    string
	measure func(context.Context, *world) ([]row, error)
}{
	{"bare", measureBare},
	{phaseCreate, one(phaseCreate, (*world).create, func(w *world) time.Duration { return w.declaring })},
	{"idle", measureIdle},
	{"edit", one("edit", (*world).edit, nil)},
	{"heal", measureHeal},
	{"restart", measureRestart},
	{"delete", one("delete", (*world).remove, func(w *world) time.Duration { return w.deleting })},
}

func phaseNames() []string {
	names := make([]string, 0, len(phases))
	for _, p := range phases {
		names = append(names, p.name)
	}
	return names
}

// one measures a phase of one step. bare is what the broker takes by itself for a phase that concerns all ConsumerQueues; nil for others.
func one(
	name string, step func(*world, context.Context) (outcome, error), bare func(*world) time.Duration,
) func(context.Context, *world) ([]row, error) {
	return func(ctx context.Context, w *world) ([]row, error) {
		r, err := w.measure(ctx, name, func(ctx context.Context) (outcome, error) { return step(w, ctx) })
		if bare != nil {
			r.bare, r.note = bare(w), r.writesEach()
		}
		return rowsUnless(err, r)
	}
}

func rowsUnless(err error, r row) ([]row, error) {
	if err != nil {
		return nil, err
	}
	return []row{r}, nil
}

// create makes all ConsumerQueues as fast as the API server takes them, and waits until all are Ready.
func (w *world) create(ctx context.Context) (outcome, error) {
	result := outcome{own: tally{"POST consumerqueues": float64(w.count)}}
	if err := forEach(w.count, func(number int) error { return w.server.Create(ctx, w.layout.consumerQueue(number)) }); err != nil {
		return result, err
	}
	return result, w.untilAllReady(ctx)
}

func (w *world) untilAllReady(ctx context.Context) error {
	return w.until(ctx, "all ConsumerQueues are Ready", w.count, func() int {
		return w.resources.count(func(_ string, s state) bool { return s.ready })
	})
}

// measureIdle watches the manager do nothing, once what came before has calmed down.
func measureIdle(ctx context.Context, w *world) ([]row, error) {
	if err := pause(ctx, w.given.interval); err != nil {
		return nil, err
	}
	r, err := w.measure(ctx, "idle", func(ctx context.Context) (outcome, error) { return outcome{}, pause(ctx, w.given.idle) })
	intervals := w.given.idle.Seconds() / w.given.interval.Seconds()
	r.note = fmt.Sprintf("manager %.1f%% of a core; %.1f HTTP requests per interval of %s",
		100*r.cpu.manager.Seconds()/w.given.idle.Seconds(), r.http.total()/intervals, w.given.interval)
	return rowsUnless(err, r)
}

func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

// edit gives some ConsumerQueues one more delay tier, and waits until they are Ready with it.
func (w *world) edit(ctx context.Context) (outcome, error) {
	count := min(w.given.edits, w.count)
	const oneMore = `{"spec":{"retry":{"delayTiers":[{"delay":"30s"},{"delay":"5m"}]}}}`
	patched, generations := make([]time.Time, count), make([]int64, count)
	err := forEach(count, func(number int) error {
		cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(number)}}
		patched[number] = time.Now()
		err := w.server.Patch(ctx, cq, client.RawPatch(types.MergePatchType, []byte(oneMore)))
		generations[number] = cq.Generation
		return err
	})
	result := outcome{own: tally{"PATCH consumerqueues": float64(count)}}
	if err != nil {
		return result, err
	}
	isCurrent := func(number int) (state, bool) {
		s := w.resources.of(nameOf(number))
		return s, s.ready && s.generation >= generations[number]
	}
	err = w.until(ctx, "the edited ConsumerQueues are Ready", count, func() int {
		current := 0
		for number := range count {
			if _, is := isCurrent(number); is {
				current++
			}
		}
		return current
	})
	if err != nil {
		return result, err
	}
	var times []time.Duration
	for number := range count {
		s, _ := isCurrent(number)
		times = append(times, s.since.Sub(patched[number]))
	}
	result.note = fmt.Sprintf("%d at once, each Ready after %s", count, spread(times))
	return result, nil
}

// quiet is for how long the manager must not have reconciled anything, so that nothing more is to be expected.
const quiet = 2 * time.Second

// measureRestart stops the manager, starts another, and takes the time until that has found each ConsumerQueue in sync.
func measureRestart(ctx context.Context, w *world) ([]row, error) {
	if err := w.manager.stop(); err != nil {
		return nil, err
	}
	r, err := w.measure(ctx, "restart", func(ctx context.Context) (outcome, error) {
		if err := w.startManager(); err != nil {
			return outcome{}, err
		}
		return w.untilKnown(ctx)
	})
	return rowsUnless(err, r)
}

// untilKnown waits until the manager has found all ConsumerQueues in sync, and has not reconciled any for a while. The outcome ends
// with the last reconciliation.
func (w *world) untilKnown(ctx context.Context) (outcome, error) {
	last, seen, reconciled := moment{}, 0.0, 0.0
	for deadline := time.Now().Add(timeLimit); time.Now().Before(deadline); {
		if !w.manager.runs() {
			return outcome{}, fmt.Errorf("the manager ended by itself: %w", w.manager.err)
		}
		current, err := w.now()
		if err != nil {
			return outcome{}, err
		}
		samples, err := w.manager.scrape(ctx, reconciledMetric)
		all, inSync := reconciliations(samples)
		switch { // an error: it does not listen yet
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

// remove deletes all ConsumerQueues and waits until they are gone, and with them what is at the broker.
func (w *world) remove(ctx context.Context) (outcome, error) {
	result := outcome{own: tally{"DELETE consumerqueues": float64(w.count)}}
	err := forEach(w.count, func(number int) error {
		return w.server.Delete(ctx, &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(number)}})
	})
	if err != nil {
		return result, err
	}
	err = w.until(ctx, "all ConsumerQueues are gone", w.count, func() int {
		return w.count - w.resources.count(func(string, state) bool { return true })
	})
	return result, err
}
