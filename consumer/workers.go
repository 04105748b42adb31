package consumer

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// workerSet is the set of workers that have a slot, including those of lost sessions.
type workerSet struct {
	mu      sync.Mutex
	workers map[*worker]bool

	current atomic.Pointer[session] // nil while there is none
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

// of returns the workers of a session, or of all sessions if s is nil.
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

// unsettled returns the names of the unsettled deliveries whose handlers run.
func (c *workerSet) unsettled() []string {
	var names []string
	for _, w := range c.of(nil) {
		if h := w.current.Load(); h != nil && !h.settled.Load() {
			for _, d := range h.deliveries() {
				names = append(names, d.String())
			}
		}
	}
	slices.Sort(names)
	return names
}

// handlerCounts counts the handlers that run (active), their messages (inFlight), and the handlers that are stuck. overdue counts the
// stuck handlers whose deadline passed more than abandonWait ago.
type handlerCounts struct{ active, inFlight, stuck, overdue int }

func (c *workerSet) count() (counts handlerCounts) {
	for _, w := range c.of(nil) {
		h := w.current.Load()
		if h == nil {
			continue
		}
		counts.active++
		counts.inFlight += 1 + len(h.others)
		if h.stuck.Load() {
			counts.stuck++
			if time.Since(h.deadline) > abandonWait {
				counts.overdue++
			}
		}
	}
	return counts
}

// prefetched returns how many messages of the current session wait for their handler.
func (c *workerSet) prefetched() int {
	s := c.current.Load()
	if s == nil {
		return 0
	}
	count := len(s.inbox)
	for _, w := range c.of(s) {
		count += int(w.waiting.Load())
	}
	return count
}

// stuckInterval is how often watchHandlers looks for stuck handlers.
const stuckInterval = time.Second

// watchHandlers reports handlers that still run after their context ended, and settles their messages before the consumer timeout.
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
		for _, w := range c.workers.of(nil) {
			if h := w.current.Load(); h != nil && h.stuck.Load() {
				w.session.settleStuck(h)
			}
		}
	}
}

var errStuck = errors.New("the handler still runs")

// settleStuck settles the messages of a handler that ignores its timeout as timed out, shortly before the broker would take back all
// messages of the channel. The handler keeps its slot, and its result is ignored. It may still change its deliveries, so the messages are
// settled as they were delivered.
func (s *session) settleStuck(h *handlerContext) {
	due := !time.Now().Before(s.settings.returnDeadline(h.delivery)) && s.ctx.Err() == nil && errors.Is(context.Cause(h), ErrTimeout)
	if !due || !h.claim() {
		return
	}
	go func() { // it calls functions of the application
		outcome := s.settings.outcomeOf(h, errStuck)
		deliveries := h.deliveries()
		ends := make([]ending, len(deliveries))
		for i, d := range deliveries {
			ends[i] = ending{d.asDelivered(), outcome, errStuck}
		}
		s.settleEnded(h, ends)
	}()
}

// reportStuck logs the handlers that became stuck since the last call, with their stacks, and calls the observers.
func (c *Consumer) reportStuck() {
	stacks := sync.OnceValue(allStacks) // expensive: stops all goroutines
	for _, w := range c.workers.of(nil) {
		h := w.current.Load()
		if h == nil || h.Err() == nil || h.stuck.Load() {
			continue
		}
		if h.ended.IsZero() {
			h.ended = time.Now()
			if h.ended.After(h.deadline) {
				h.ended = h.deadline
			}
		}
		if time.Since(h.ended) <= abandonWait {
			continue
		}
		h.stuck.Store(true)
		given, took := w.session.settings, time.Since(h.deadline)+w.session.settings.timeout
		c.log.log(given.logger, slog.LevelWarn, "Handler still runs after its context ended; it keeps its slot", func() []any {
			return append(attributes(h.delivery),
				"took", took.Round(time.Second), "cause", context.Cause(h), "stack", stackOf(w.goroutine, stacks()))
		})
		for _, observer := range given.observers {
			if observer.Stuck != nil {
				c.report("Observer.Stuck", func() { observer.Stuck(StuckHandler{Delivery: h.delivery, Took: took}) })
			}
		}
	}
}

// goroutineName returns the name of this goroutine in runtime.Stack.
func goroutineName() string {
	text := make([]byte, 64)
	name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), "[")
	return name
}

// maxStackBytes limits the text of all stacks, in which the stacks of stuck handlers are searched.
const maxStackBytes = 4 << 20

func allStacks() string {
	text := make([]byte, maxStackBytes)
	return string(text[:runtime.Stack(text, true)])
}

// stackOf returns the stack of a goroutine, or "" if stacks does not contain it.
func stackOf(goroutine, stacks string) string {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.HasPrefix(stack, goroutine) {
			return stack
		}
	}
	return ""
}
