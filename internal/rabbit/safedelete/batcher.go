package safedelete

import (
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
)

const (
	// gathering is how long the first group of a batch waits for more groups. Each running batch adds the same time, because more
	// groups arrive while batches run.
	gathering = 50 * time.Millisecond
	// batchLimit is the maximum number of running batches: fenceLimit batches with fences up, and as many that ask their callers.
	batchLimit = 2 * fenceLimit
	// queueLimit is the maximum number of queues in a batch. An idle broker takes a fifth of a second to write a policy that
	// matches 100 queues.
	queueLimit = 160
	// slowLimit is how often a group is requeued because its batch was too slow. After that, its caller gets the error.
	slowLimit = 3
)

// batcher gathers waiting groups and deletes them in batches. A batch has groups of one kind, in the order in which they arrived,
// as many as fit into one fence and into the time limit.
type batcher struct {
	run func(groups []*group) // before it returns, each group is requeued or has its result

	mu        sync.Mutex
	waiting   []*group
	running   int // batches
	maxQueues int // of a batch; fewer if batches take too long
	timer     *time.Timer
}

func newBatcher(run func([]*group)) *batcher { return &batcher{run: run, maxQueues: queueLimit} }

// wait enqueues a group, and returns the result of its deletion.
func (b *batcher) wait(errs brokererr.Errors, g *group) error {
	g.since = time.Now()
	b.mu.Lock()
	b.waiting = append(b.waiting, g)
	b.start()
	b.mu.Unlock()
	select {
	case err := <-g.done:
		return err
	case <-g.ctx.Done():
	}
	if b.withdraw(g) {
		return errs.Unreachable(g.ctx.Err())
	}
	return <-g.done // after the batch has taken its fences down
}

// again requeues groups ahead of all waiting groups.
func (b *batcher) again(groups []*group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.Concat(groups, b.waiting)
	b.start()
}

// withdraw removes a waiting group. It returns false if the group is already in a batch.
func (b *batcher) withdraw(g *group) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, g)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

func (b *batcher) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// start starts as many batches as batchLimit allows. The lock is held.
func (b *batcher) start() {
	for b.running < batchLimit && len(b.waiting) > 0 {
		groups, left := b.next()
		if left > 0 {
			b.startIn(left)
			return
		}
		b.running++
		go func() {
			b.run(groups)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.running--
			b.start()
		}()
	}
}

func (b *batcher) startIn(wait time.Duration) {
	if b.timer != nil {
		b.timer.Stop()
	}
	b.timer = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.start()
	})
}

// next removes and returns the groups of the next batch. If it is too early for the batch, next returns the time left for more
// groups.
func (b *batcher) next() (groups []*group, left time.Duration) {
	var queues []string
	full := false
	first := b.waiting[0]
	for _, g := range b.waiting {
		if g.kind != first.kind {
			continue
		}
		with := slices.Concat(queues, g.queues)
		if full = len(groups) > 0 && !b.fits(first.kind, with); full {
			break
		}
		groups, queues = append(groups, g), with
	}
	if left := gathering*time.Duration(1+b.running) - time.Since(first.since); !full && left > 0 {
		return nil, left
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(g *group) bool { return slices.Contains(groups, g) })
	return groups, 0
}

// fits reports whether one batch may contain these queues.
func (b *batcher) fits(k kind, queues []string) bool {
	limit := b.maxQueues
	if k.hurry > 0 {
		limit = int(time.Duration(limit) * k.hurry / budget)
	}
	return len(queues) <= limit && len(fence.Patterns(queues)) == 1
}

// adapt reduces the size of batches if a batch with this many queues was too slow, and increases it otherwise.
func (b *batcher) adapt(queues int, tooSlow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case tooSlow:
		b.maxQueues = max(min(b.maxQueues, queues)/2, 1)
	case queues*2 > b.maxQueues:
		b.maxQueues = min(b.maxQueues+b.maxQueues/4+1, queueLimit)
	}
}
