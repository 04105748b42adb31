package brokers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeletionTasks deletes queues that are provably empty. That takes longer than a reconciliation should, so each attempt runs in
// the background and enqueues its ConsumerQueue when it ends. The attempts of many ConsumerQueues run at the same time.
type DeletionTasks struct {
	// lifetime ends when the manager stops. Running attempts then roll back.
	lifetime context.Context // of the component, not of a call
	// over is called when an attempt has ended.
	over func(client.ObjectKey)

	mu sync.Mutex
	of map[client.ObjectKey]*tasksOfOne
}

// emptyDeleter is the part of Changer that deletes empty queues.
type emptyDeleter interface {
	DeleteEmpty(ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error) error
}

type tasksOfOne struct {
	// attempts maps the joined names of queues to their attempt.
	attempts map[string]*task
	// deleted maps each deleted queue to the time of its deletion.
	deleted map[string]time.Time
}

// task is an attempt that runs, or the last attempt.
type task struct {
	cancel    context.CancelFunc
	ended     time.Time // zero while it runs
	hasResult bool      // there is a result of this attempt or of the previous one
	err       error
}

// Group is a list of queues that are deleted together, in this order.
type Group struct {
	Queues []string
	// StillDeletable is called right before the queues are fenced. It returns an error if the queues must be retained.
	StillDeletable func(context.Context) error
}

// NewDeletionTasks returns an empty DeletionTasks. Attempts end with lifetime, and over is called at the end of each attempt.
func NewDeletionTasks(lifetime context.Context, over func(client.ObjectKey)) *DeletionTasks {
	return &DeletionTasks{lifetime: lifetime, over: over, of: map[client.ObjectKey]*tasksOfOne{}}
}

// Ensure deletes a group of queues if they are provably empty. It returns the result of the last attempt; known is false if there is
// none. It starts an attempt unless one runs or ended less than again ago.
func (t *DeletionTasks) Ensure(
	owner client.ObjectKey, connection emptyDeleter, cluster string, g Group, again time.Duration,
) (known bool, result error) {
	key := strings.Join(g.Queues, "\n")
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[owner]
	if own == nil {
		own = &tasksOfOne{attempts: map[string]*task{}, deleted: map[string]time.Time{}}
		t.of[owner] = own
	}
	last := own.attempts[key]
	if last != nil && (last.ended.IsZero() || time.Since(last.ended) < again) {
		return last.hasResult, last.err
	}
	ctx, cancel := context.WithCancel(t.lifetime)
	next := &task{cancel: cancel}
	if last != nil {
		next.hasResult, next.err = last.hasResult, last.err
	}
	own.attempts[key] = next
	go func() {
		defer cancel()
		err := connection.DeleteEmpty(ctx, cluster, g.Queues, g.StillDeletable)
		t.mu.Lock()
		next.ended, next.hasResult, next.err = time.Now(), true, err
		if err == nil {
			for _, queue := range g.Queues {
				own.deleted[queue] = next.ended
			}
		}
		t.mu.Unlock()
		t.over(owner)
	}()
	return next.hasResult, next.err
}

// WholeGroup returns the group of a running attempt, if the given queues are the part of the group that still exists. The attempt has
// already deleted the other queues of the group, and must not be interrupted. Without such an attempt, WholeGroup returns the given queues.
func (t *DeletionTasks) WholeGroup(owner client.ObjectKey, queues []string, exists func(queue string) bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.running(owner) {
		together := strings.Split(key, "\n")
		left := slices.DeleteFunc(slices.Clone(together), func(queue string) bool { return !exists(queue) })
		if slices.Equal(left, queues) {
			return together
		}
	}
	return queues
}

// running returns the attempts of a ConsumerQueue that have not ended, by group. The lock is held.
func (t *DeletionTasks) running(owner client.ObjectKey) map[string]*task {
	own := t.of[owner]
	if own == nil {
		return nil
	}
	running := maps.Clone(own.attempts)
	maps.DeleteFunc(running, func(_ string, one *task) bool { return !one.ended.IsZero() })
	return running
}

// AreRunning reports whether an attempt of a ConsumerQueue runs.
func (t *DeletionTasks) AreRunning(owner client.ObjectKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running(owner)) > 0
}

// Interrupt cancels the running attempts of a ConsumerQueue, and reports whether there are any. Unlike Cancel, it keeps each attempt
// until its rollback has ended.
func (t *DeletionTasks) Interrupt(owner client.ObjectKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	running := t.running(owner)
	for _, one := range running {
		one.cancel()
	}
	return len(running) > 0
}

// CancelExcept cancels the attempts of a ConsumerQueue for all other groups, and forgets their results.
func (t *DeletionTasks) CancelExcept(owner client.ObjectKey, groups ...[]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[owner]
	if own == nil {
		return
	}
	for key, one := range own.attempts {
		if !slices.ContainsFunc(groups, func(queues []string) bool { return strings.Join(queues, "\n") == key }) {
			one.cancel()
			delete(own.attempts, key)
		}
	}
}

// Cancel cancels all attempts of a ConsumerQueue, and forgets their results.
func (t *DeletionTasks) Cancel(owner client.ObjectKey) {
	t.CancelExcept(owner)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, owner)
}

// Reappeared returns a queue that was deleted for a ConsumerQueue and exists, and how long ago it was deleted; empty if there is
// none.
func (t *DeletionTasks) Reappeared(owner client.ObjectKey, exists func(queue string) bool) (queue string, since time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[owner]
	if own == nil {
		return "", 0
	}
	for name, when := range own.deleted {
		if exists(name) && (queue == "" || name < queue) {
			queue, since = name, time.Since(when)
		}
	}
	return queue, since
}
