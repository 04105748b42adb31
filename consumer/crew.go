package consumer

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"
)

// crew are the workers that hold a slot, those of lost sessions included.
type crew struct {
	mu      sync.Mutex
	workers map[*worker]bool
}

func (c *crew) add(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers == nil {
		c.workers = map[*worker]bool{}
	}
	c.workers[w] = true
}

func (c *crew) remove(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.workers, w)
}

// of returns the workers of a session; of all sessions if it is nil.
func (c *crew) of(s *session) (found []*worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.workers {
		if s == nil || w.session == s {
			found = append(found, w)
		}
	}
	return found
}

// count returns how many handlers run, and how many of them are stuck.
func (c *crew) count() (active, stuck int) {
	for _, w := range c.of(nil) {
		if h := w.current.Load(); h != nil {
			active++
			if h.stuck.Load() {
				stuck++
			}
		}
	}
	return active, stuck
}

// stuckInterval is how often handlers are checked.
const stuckInterval = time.Second

// watchHandlers reports each handler that goes on although its context has ended.
func (c *Consumer) watchHandlers(ctx context.Context) {
	look := time.NewTicker(stuckInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		for _, w := range c.crew.of(nil) {
			h := w.current.Load()
			if h != nil && time.Since(h.deadline) > grace && h.stuck.CompareAndSwap(false, true) {
				c.reportStuck(h, w)
			}
		}
	}
}

// goroutineName returns what runtime.Stack calls this goroutine.
func goroutineName() string {
	text := make([]byte, 64)
	name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), "[")
	return name
}

// stackLimit is how many bytes of all stacks are searched for the one of a stuck handler.
const stackLimit = 4 << 20

// stackOf returns the stack of a goroutine; empty if it is not among the first stacks.
func stackOf(goroutine string) string {
	text := make([]byte, stackLimit)
	for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
		if strings.HasPrefix(stack, goroutine) {
			return stack
		}
	}
	return ""
}
