package brokers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeletionTasks deletes queues that are provably empty, which takes longer than a reconciliation should: each attempt goes on
// by itself, and has its ConsumerQueue reconciled when it is over. Those of many ConsumerQueues wait at the same time.
type DeletionTasks struct {
	// lifetime ends when the manager does; attempts are rolled back then.
	lifetime context.Context // the life of the component, not of a call
	// over is called when an attempt has ended.
	over func(client.ObjectKey)

	mu sync.Mutex
	of map[client.ObjectKey]*tasksOfOne
}

// emptyDeleter is what a rabbit.Connection can do about queues that are empty.
type emptyDeleter interface {
	DeleteEmpty(ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error) error
}

// tasksOfOne are those of one ConsumerQueue.
type tasksOfOne struct {
	// attempts are found by the names of the queues that are deleted together, as one text.
	attempts map[string]*task
	// deleted says when queues were deleted.
	deleted map[string]time.Time
}

// task is one that runs, or the last one.
type task struct {
	cancel    context.CancelFunc
	ended     time.Time // zero while it runs
	hasResult bool      // there is a result, of this attempt or of the one before
	err       error
}

// Group are queues that are deleted together, in this order.
type Group struct {
	Queues []string
	// StillWanted is asked right before the queues are fenced off.
	StillWanted func(context.Context) error
}

// NewDeletionTasks makes an empty set. Tasks end with lifetime; over is called when a task has ended.
func NewDeletionTasks(lifetime context.Context, over func(client.ObjectKey)) *DeletionTasks {
	return &DeletionTasks{lifetime: lifetime, over: over, of: map[client.ObjectKey]*tasksOfOne{}}
}

// Ensure has a group of queues deleted if they are provably empty. It returns the result of the last attempt, and whether
// there is one; it begins another one if that ended longer ago than again.
func (r *DeletionTasks) Ensure(
	owner client.ObjectKey, connection emptyDeleter, cluster string, g Group, again time.Duration,
) (known bool, result error) {
	key := strings.Join(g.Queues, "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[owner]
	if own == nil {
		own = &tasksOfOne{attempts: map[string]*task{}, deleted: map[string]time.Time{}}
		r.of[owner] = own
	}
	last := own.attempts[key]
	if last != nil && (last.ended.IsZero() || time.Since(last.ended) < again) {
		return last.hasResult, last.err
	}
	ctx, cancel := context.WithCancel(r.lifetime)
	next := &task{cancel: cancel}
	if last != nil {
		next.hasResult, next.err = last.hasResult, last.err
	}
	own.attempts[key] = next
	go func() {
		defer cancel()
		err := connection.DeleteEmpty(ctx, cluster, g.Queues, g.StillWanted)
		r.mu.Lock()
		next.ended, next.hasResult, next.err = time.Now(), true, err
		if err == nil {
			for _, queue := range g.Queues {
				own.deleted[queue] = next.ended
			}
		}
		r.mu.Unlock()
		r.over(owner)
	}()
	return next.hasResult, next.err
}

// Running returns the group of queues that an attempt of a ConsumerQueue is deleting, if the given queues are those of the
// group that still exist: it has deleted the others already and must not be interrupted halfway. Otherwise it returns the
// given queues.
func (r *DeletionTasks) Running(owner client.ObjectKey, queues []string, exists func(queue string) bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.of[owner]; own != nil {
		for key, one := range own.attempts {
			together := strings.Split(key, "\n")
			left := slices.DeleteFunc(slices.Clone(together), func(queue string) bool { return !exists(queue) })
			if one.ended.IsZero() && slices.Equal(left, queues) {
				return together
			}
		}
	}
	return queues
}

// AreRunning reports whether an attempt of a ConsumerQueue goes on.
func (r *DeletionTasks) AreRunning(owner client.ObjectKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[owner]
	if own == nil {
		return false
	}
	for _, one := range own.attempts {
		if one.ended.IsZero() {
			return true
		}
	}
	return false
}

// CancelExcept ends the attempts of a ConsumerQueue for other groups of queues than these, and forgets their results.
func (r *DeletionTasks) CancelExcept(owner client.ObjectKey, groups ...[]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[owner]
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

// Cancel ends all attempts of a ConsumerQueue, and forgets everything of it.
func (r *DeletionTasks) Cancel(owner client.ObjectKey) {
	r.CancelExcept(owner)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, owner)
}

// Len is how many ConsumerQueues have tasks, or results of tasks.
func (r *DeletionTasks) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}

// Reappeared is a queue that was deleted for a ConsumerQueue and exists, and for how long it has been deleted; empty if there is
// none.
func (r *DeletionTasks) Reappeared(owner client.ObjectKey, exists func(queue string) bool) (queue string, since time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[owner]
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
