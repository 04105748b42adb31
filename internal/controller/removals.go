package controller

import (
	"context"
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
	of map[removalKey]*removal
}

// emptyDeleter is what a rabbit.Connection can do about queues that are empty.
type emptyDeleter interface {
	DeleteEmpty(ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error) error
}

// removalKey names the queues, as one text, that are deleted together for a ConsumerQueue.
type removalKey struct {
	owner  client.ObjectKey
	queues string
}

// removal is one that runs, or the last one.
type removal struct {
	cancel context.CancelFunc
	ended  time.Time // zero while it runs
	known  bool      // there is a result, of this attempt or of the one before
	err    error
}

func newRemovals(lifetime context.Context, over func(client.ObjectKey)) *removals {
	return &removals{lifetime: lifetime, over: over, of: map[removalKey]*removal{}}
}

// attempt has queues deleted together if they are provably empty, in the order given. It returns the result of the last
// attempt, and whether there is one; it begins another one if that ended longer ago than again.
func (r *removals) attempt(
	owner client.ObjectKey, connection emptyDeleter, cluster string, queues []string, again time.Duration,
) (known bool, result error) {
	key := removalKey{owner, strings.Join(queues, "\n")}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.of[key]
	if last != nil && (last.ended.IsZero() || time.Since(last.ended) < again) {
		return last.known, last.err
	}
	ctx, cancel := context.WithCancel(r.lifetime)
	next := &removal{cancel: cancel}
	if last != nil {
		next.known, next.err = last.known, last.err
	}
	r.of[key] = next
	go func() {
		defer cancel()
		err := connection.DeleteEmpty(ctx, cluster, queues, nil)
		r.mu.Lock()
		next.ended, next.known, next.err = time.Now(), true, err
		r.mu.Unlock()
		r.over(owner)
	}()
	return next.known, next.err
}

// only ends the attempts of a ConsumerQueue for other queues than these, and forgets their results.
func (r *removals) only(owner client.ObjectKey, groups ...[]string) {
	wanted := map[string]bool{}
	for _, queues := range groups {
		wanted[strings.Join(queues, "\n")] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, one := range r.of {
		if key.owner == owner && !wanted[key.queues] {
			one.cancel()
			delete(r.of, key)
		}
	}
}
