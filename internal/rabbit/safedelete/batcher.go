package safedelete

import (
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
)

const (
	// gathering is how long the first group of a batch waits for others; and as long again for each batch that is under way, for
	// then more come.
	gathering = 50 * time.Millisecond
	// batchLimit is how many batches are under way at a time: those that have fences up, and as many that ask their callers.
	batchLimit = 2 * fenceLimit
	// queueLimit is how many queues a batch has at most. A policy that matches 100 queues takes a fifth of a second to write, on an idle
	// broker.
	queueLimit = 160
	// slowLimit is how often a group may be in a batch that was too slow before its caller is told.
	slowLimit = 3
)

// batcher gathers the groups that wait, and has them deleted in batches. Groups of a kind go together, in the order in which they
// came, as many as one fence and the time that there is allow.
type batcher struct {
	run func(groups []*group) // which wait again, or have their results, when it returns

	mu      sync.Mutex
	waiting []*group
	running int // batches
	most    int // queues of a batch; fewer where batches take too long
	timer   *time.Timer
}

func newBatcher(run func([]*group)) *batcher { return &batcher{run: run, most: queueLimit} }

// wait has a group deleted, and returns what came of it.
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
	return <-g.done // when what its batch put up is down
}

// again has groups wait once more, before the others.
func (b *batcher) again(groups []*group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.Concat(groups, b.waiting)
	b.start()
}

// withdraw takes back a group that is in no batch yet.
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

// count is how many groups wait.
func (b *batcher) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// start begins as many batches as may be under way. The lock is held.
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

// next takes the groups of the next batch, unless more of the kind may come within a time.
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

// fits says whether these queues may be in one batch.
func (b *batcher) fits(k kind, queues []string) bool {
	most := b.most
	if k.hurry > 0 {
		most = int(time.Duration(most) * k.hurry / budget)
	}
	return len(queues) <= most && len(fence.Patterns(queues)) == 1
}

// adapt makes batches smaller where one of this size was too slow, and larger again where not.
func (b *batcher) adapt(queues int, tooSlow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case tooSlow:
		b.most = max(min(b.most, queues)/2, 1)
	case queues*2 > b.most:
		b.most = min(b.most+b.most/4+1, queueLimit)
	}
}
