package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// removals deletes queues that are provably empty, which takes longer than a reconciliation should: each attempt goes on
// by itself, and has its ConsumerQueue reconciled when it is over. Those of many ConsumerQueues wait at the same time.
type removals struct {
	// lifetime ends when the manager does; attempts are rolled back then.
	lifetime context.Context // the life of the component, not of a call
	// over is called when an attempt has ended.
	over func(client.ObjectKey)

	mu sync.Mutex
	of map[client.ObjectKey]*removalsOfOne
}

// emptyDeleter is what a rabbit.Connection can do about queues that are empty.
type emptyDeleter interface {
	DeleteEmpty(ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error) error
}

// removalsOfOne are those of one ConsumerQueue.
type removalsOfOne struct {
	// attempts are found by the names of the queues that are deleted together, as one text.
	attempts map[string]*removal
	// deleted says when queues were deleted.
	deleted map[string]time.Time
}

// removal is one that runs, or the last one.
type removal struct {
	cancel context.CancelFunc
	ended  time.Time // zero while it runs
	known  bool      // there is a result, of this attempt or of the one before
	err    error
}

// group are queues that are deleted together, in this order.
type group struct {
	queues []string
	// stillWanted is asked right before the queues are fenced off.
	stillWanted func(context.Context) error
}

func newRemovals(lifetime context.Context, over func(client.ObjectKey)) *removals {
	return &removals{lifetime: lifetime, over: over, of: map[client.ObjectKey]*removalsOfOne{}}
}

// attempt has a group of queues deleted if they are provably empty. It returns the result of the last attempt, and whether
// there is one; it begins another one if that ended longer ago than again.
func (r *removals) attempt(
	owner client.ObjectKey, connection emptyDeleter, cluster string, g group, again time.Duration,
) (known bool, result error) {
	key := strings.Join(g.queues, "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[owner]
	if own == nil {
		own = &removalsOfOne{attempts: map[string]*removal{}, deleted: map[string]time.Time{}}
		r.of[owner] = own
	}
	last := own.attempts[key]
	if last != nil && (last.ended.IsZero() || time.Since(last.ended) < again) {
		return last.known, last.err
	}
	ctx, cancel := context.WithCancel(r.lifetime)
	next := &removal{cancel: cancel}
	if last != nil {
		next.known, next.err = last.known, last.err
	}
	own.attempts[key] = next
	go func() {
		defer cancel()
		err := connection.DeleteEmpty(ctx, cluster, g.queues, g.stillWanted)
		r.mu.Lock()
		next.ended, next.known, next.err = time.Now(), true, err
		if err == nil {
			for _, queue := range g.queues {
				own.deleted[queue] = next.ended
			}
		}
		r.mu.Unlock()
		r.over(owner)
	}()
	return next.known, next.err
}

// underWay returns the group of queues that an attempt of a ConsumerQueue is deleting, if the given queues are those of the
// group that still exist: it has deleted the others already and must not be interrupted halfway. Otherwise it returns the
// given queues.
func (r *removals) underWay(owner client.ObjectKey, queues []string, exists func(queue string) bool) []string {
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

// only ends the attempts of a ConsumerQueue for other groups of queues than these, and forgets their results.
func (r *removals) only(owner client.ObjectKey, groups ...[]string) {
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

// forget ends all attempts of a ConsumerQueue, and forgets everything of it.
func (r *removals) forget(owner client.ObjectKey) {
	r.only(owner)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, owner)
}

// Len is how many ConsumerQueues have tasks, or results of tasks.
func (r *removals) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}

// back is a queue that was deleted for a ConsumerQueue and exists, and for how long it has been deleted; empty if there is
// none.
func (r *removals) back(owner client.ObjectKey, exists func(queue string) bool) (queue string, since time.Duration) {
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
