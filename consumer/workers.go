package consumer

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"
)

// workerSet are the workers that hold a slot, those of lost sessions included.
type workerSet struct {
	mu      sync.Mutex
	workers map[*worker]bool
}

func (c *workerSet) add(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers == nil {
		c.workers = map[*worker]bool{}
	}
	c.workers[w] = true
}

func (c *workerSet) remove(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.workers, w)
}

// of returns the workers of a session; of all sessions if it is nil.
func (c *workerSet) of(s *session) (found []*worker) {
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
func (c *workerSet) count() (active, stuck int) {
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
	ticker := time.NewTicker(stuckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.reportStuck()
	}
}

// reportStuck logs the handlers that are stuck since the last call, with their stacks, and tells the observers.
func (c *Consumer) reportStuck() {
	stacks := sync.OnceValue(allStacks) // stops the process for a moment
	for _, w := range c.workers.of(nil) {
		h := w.current.Load()
		if h == nil || time.Since(h.deadline) <= abandonWait || !h.stuck.CompareAndSwap(false, true) {
			continue
		}
		given, took := w.session.settings, time.Since(h.deadline)+w.session.settings.timeout
		c.log.log(given.logger, slog.LevelWarn, "A handler goes on although its context has ended; it keeps its slot", func() []any {
			return append(attributes(h.delivery),
				"took", took.Round(time.Second), "cause", context.Cause(h), "stack", stackOf(w.goroutine, stacks()))
		})
		for _, observer := range given.observers {
			if observer.Stuck != nil {
				c.reporter.report(func() { observer.Stuck(StuckHandler{Delivery: h.delivery, Took: took}) })
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

// maxStackBytes is how many bytes of all stacks are searched for those of stuck handlers.
const maxStackBytes = 4 << 20

func allStacks() string {
	text := make([]byte, maxStackBytes)
	return string(text[:runtime.Stack(text, true)])
}

// stackOf finds the stack of a goroutine; empty if it is not there.
func stackOf(goroutine, stacks string) string {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.HasPrefix(stack, goroutine) {
			return stack
		}
	}
	return ""
}
