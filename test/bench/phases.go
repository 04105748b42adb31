package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const (
	// phaseCreate is needed by all later phases.
	phaseCreate  = "create"
	phaseBareAPI = "bare API"
)

// phases are the phases in order.
var phases = []struct {
	name    string
	measure func(context.Context, *world) ([]row, error)
}{
	{"bare", measureBothBare},
	{phaseCreate, measureCreate},
	{"idle", measureIdle},
	{"edit", measureEdit},
	{"heal", measureHeal},
	{"restart", measureRestart},
	{"takeover", measureTakeover},
	{"tiers", measureTiers},
	{"delete", measureDelete},
}

func phaseNames() []string {
	names := make([]string, 0, len(phases))
	for _, p := range phases {
		names = append(names, p.name)
	}
	return names
}

func measureBothBare(ctx context.Context, w *world) ([]row, error) {
	rows, err := measureBare(ctx, w)
	if err != nil {
		return rows, err
	}
	writes, err := measureBareAPI(ctx, w)
	return append(rows, writes...), err
}

func measureCreate(ctx context.Context, w *world) ([]row, error) {
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	r, err := w.measure(ctx, phaseCreate, w.create)
	if err != nil {
		return nil, err
	}
	r.bare, r.bareAPI, r.note = w.declaring, w.writing, r.writesEach()
	err = w.noteHeap(ctx, &r)
	return []row{r}, err
}

func measureEdit(ctx context.Context, w *world) ([]row, error) {
	r, err := w.measure(ctx, "edit", w.edit)
	return rowsUnless(err, r)
}

func measureDelete(ctx context.Context, w *world) ([]row, error) {
	r, err := w.measure(ctx, "delete", w.remove)
	if err != nil {
		return nil, err
	}
	left := len(w.vhost.Definitions().Queues) // without exclusive queues, such as the manager's event queue
	r.bare, r.note = w.deleting, fmt.Sprintf("%s; %d queues left at the broker", r.writesEach(), left)
	err = w.noteHeap(ctx, &r)
	return []row{r}, err
}

func rowsUnless(err error, r row) ([]row, error) {
	if err != nil {
		return nil, err
	}
	return []row{r}, nil
}

// create creates all ConsumerQueues as fast as the API server accepts them, and waits until all are Ready.
func (w *world) create(ctx context.Context) (outcome, error) {
	result := outcome{own: counts{"POST consumerqueues": float64(w.count)}}
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

func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

// patches records when each ConsumerQueue was changed, and the generation that resulted.
type patches struct {
	at          []time.Time
	generations []int64
}

// writes returns the number of writes for the patches.
func (p patches) writes() counts { return counts{"PATCH consumerqueues": float64(len(p.at))} }

// patchTiers changes the delay tiers of some ConsumerQueues.
func (w *world) patchTiers(ctx context.Context, count int, delays ...v1alpha1.Duration) (patches, error) {
	made := patches{make([]time.Time, count), make([]int64, count)}
	spec, err := json.Marshal(map[string]any{"spec": map[string]any{"retry": map[string]any{"delayTiers": tiers(delays...)}}})
	if err != nil {
		return made, err
	}
	return made, forEach(count, func(number int) error {
		cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(number)}}
		made.at[number] = time.Now()
		err := w.server.Patch(ctx, cq, client.RawPatch(types.MergePatchType, spec))
		made.generations[number] = cq.Generation
		return err
	})
}

// edit adds a delay tier to some ConsumerQueues and waits until they are Ready.
func (w *world) edit(ctx context.Context) (outcome, error) {
	count := min(w.given.edits, w.count)
	made, err := w.patchTiers(ctx, count, "30s", "5m")
	result := outcome{own: made.writes()}
	if err != nil {
		return result, err
	}
	isCurrent := func(number int) (state, bool) {
		s := w.resources.of(nameOf(number))
		return s, s.ready && s.generation >= made.generations[number]
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
		times = append(times, s.since.Sub(made.at[number]))
	}
	result.note = fmt.Sprintf("%d at once, each Ready after %s", count, spread(times))
	return result, nil
}

// remove deletes all ConsumerQueues and waits until they and their objects at the broker are gone.
func (w *world) remove(ctx context.Context) (outcome, error) {
	result := outcome{own: counts{"DELETE consumerqueues": float64(w.count)}}
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
