package consumer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// Health is the health of a consumer, as HealthHandler reports it.
type Health struct {
	// Queue is the main queue; empty until the contract was read.
	Queue string `json:"queue"`
	State State  `json:"state"`
	// Since is when the consumer entered State.
	Since time.Time `json:"since"`
	// Ready reports whether messages are delivered, or will be after a pause of Consumer.Pause or of the contract. It is false while the
	// breaker is open, and while at least as many handlers as the concurrency are stuck. It is also false while the broker refuses copies
	// of failed messages, or while a copy waits for the broker. A copy that waits because the broker blocks publishers does not count. In
	// StateDelivering, Ready is also false until the broker has answered whether it accepts copies, unless the broker blocks publishers.
	Ready bool `json:"ready"`
	// Live reports whether the consumer makes progress, even if it cannot reach the broker. It is false after the consumer has
	// ended, and if all its handlers still run 2 s after their timeout: then only a restart helps.
	Live bool `json:"live"`
	// Message describes the last error, copies that wait or would be refused, stuck handlers, or a pause; empty if there is none of these.
	Message string `json:"message,omitempty"`
	// Paused reports whether State is StatePaused, the limiter delays messages, or the broker blocks publishers, so that failed
	// messages wait in the consumer.
	Paused bool `json:"paused,omitempty"`
	// PausedUntil is when the pause that the contract asks for ends at the latest; nil if there is none.
	PausedUntil *time.Time `json:"pausedUntil,omitempty"`
	// Reconnects is how often the consumer lost its channel or could not open one.
	Reconnects int `json:"reconnects"`
	// Active is how many handlers run.
	Active int `json:"active"`
	// InFlight is how many messages these handlers have: with NewBatch, a handler has several.
	InFlight int `json:"inFlight"`
	// Prefetched is how many messages the consumer has received whose handler has not been called yet. They wait for a handler, for the
	// limiter or for the rest of their batch.
	Prefetched int `json:"prefetched"`
	// Stuck is how many handlers still run 2 s after their context ended.
	Stuck int `json:"stuck,omitempty"`
	// Unconfirmed is how many copies wait for the broker's confirm, for all consumers of the Conn.
	Unconfirmed int `json:"unconfirmed,omitempty"`
}

// livenessTimeout is for how long a live consumer may make no progress.
const livenessTimeout = 2 * time.Minute

type status struct {
	mu            sync.Mutex
	state         State
	since         time.Time
	lastProgress  time.Time
	err           error
	reconnects    int
	delivered     bool                // messages were delivered at least once
	lost          time.Time           // when the channel was lost; zero while there is one and before the first one
	attempts      int                 // to connect since lost
	pausedUntil   time.Time           // in StatePaused; zero until the session has ended
	waitingCopies map[*Delivery]error // why the copies of failed messages wait for the broker
	forbidden     map[string]error    // by exchange: why the broker refuses messages
	unanswered    error               // why the permissions are unknown; nil once they have been checked

	limited atomic.Int64 // how many messages wait for the limiter
}

func (s *status) recordProgress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastProgress = time.Now()
}

// setState records a transition. It returns false if the consumer has ended.
func (s *status) setState(to State, err error) (from State, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == StateDisconnected {
		return s.state, false
	}
	from, s.state = s.state, to
	s.lastProgress = time.Now()
	if from != to {
		s.since = s.lastProgress
	}
	if to == StateReconnecting {
		s.reconnects++
		s.err = err
		if s.lost.IsZero() && s.delivered {
			s.lost = time.Now()
		}
		if s.delivered {
			s.attempts++
		}
	}
	switch to {
	case StateDelivering:
		s.err, s.delivered = nil, true
	case StatePaused:
		s.err = err
	default:
		s.pausedUntil = time.Time{}
	}
	return from, true
}

// recordPause records progress and when the pause ends at the latest.
func (s *status) recordPause(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastProgress, s.pausedUntil = time.Now(), until
}

// endLoss returns the attempts and the duration of a lost connection and resets them. It returns false if there was no loss.
func (s *status) endLoss() (attempts int, took time.Duration, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	attempts, since := s.attempts, s.lost
	s.attempts, s.lost = 0, time.Time{}
	return attempts, time.Since(since), !since.IsZero()
}

// recordWaitingCopy records why the copy of a delivery waits for the broker, until clearWaitingCopy is called.
func (s *status) recordWaitingCopy(d *Delivery, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waitingCopies == nil {
		s.waitingCopies = map[*Delivery]error{}
	}
	s.waitingCopies[d] = why
}

func (s *status) clearWaitingCopy(d *Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waitingCopies, d)
}

// setForbidden records the exchanges for which the broker refuses messages, and returns the previous ones. The permissions are known after
// the first call with a nil unanswered.
func (s *status) setForbidden(refusals map[string]error, unanswered error) (before map[string]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unanswered != nil {
		s.unanswered = unanswered
	}
	before, s.forbidden = s.forbidden, refusals
	return before
}

// copyErrors returns why copies wait or would be refused, or why that is unknown, sorted.
func (s *status) copyErrors(blocked bool) []string {
	texts := make([]string, 0, len(s.forbidden)+len(s.waitingCopies))
	for _, err := range s.forbidden {
		texts = append(texts, err.Error())
	}
	for _, err := range s.waitingCopies {
		texts = append(texts, err.Error())
	}
	slices.Sort(texts)
	if len(texts) == 0 && s.unanswered != nil && s.state == StateDelivering && !blocked {
		return []string{s.unanswered.Error()}
	}
	return texts
}

// Health returns the current health. It does not block on the broker.
func (c *Consumer) Health() Health {
	blocked, s := c.conn.copies.isBlocked(), &c.status
	limited := s.limited.Load() > 0
	handlers, prefetched := c.workers.count(), c.workers.prefetched()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Health{
		State: s.state, Since: s.since, Reconnects: s.reconnects, Paused: blocked || limited,
		Active: handlers.active, InFlight: handlers.inFlight, Prefetched: prefetched, Stuck: handlers.stuck,
		Unconfirmed: c.conn.copies.unconfirmed(),
	}
	if current := c.contract.Load(); current != nil {
		h.Queue = current.Queue
	}
	copyErrors := s.copyErrors(blocked)
	pausing := s.state == StatePaused
	h.Ready = (s.state == StateDelivering || pausing && s.err == nil) && len(copyErrors) == 0
	h.Paused = h.Paused || pausing
	if pausing && !s.pausedUntil.IsZero() {
		until := s.pausedUntil
		h.PausedUntil = &until
	}
	h.Live = s.state != StateDisconnected && (s.lastProgress.IsZero() || time.Since(s.lastProgress) < livenessTimeout)
	if given := c.settings.Load(); given != nil {
		h.Live = h.Live && handlers.overdue < given.concurrency
		h.Ready = h.Ready && handlers.stuck < given.concurrency
	}
	switch {
	case s.err != nil:
		h.Message = s.err.Error()
	case len(copyErrors) > 0:
		h.Message = copyErrors[0]
	case handlers.stuck > 0:
		h.Message = fmt.Sprintf("%d handlers still run after their context ended; their stacks are in the log", handlers.stuck)
	case h.Paused:
		h.Message = pauseMessage(pausing, c.paused.Load(), limited)
	}
	return h
}

// HealthHandler serves /livez and /readyz for Kubernetes probes. It responds with 200, or 503 if one of the consumers is not live
// or not ready. The body is a JSON array with the Health of each consumer.
func HealthHandler(consumers ...*Consumer) http.Handler {
	serve := func(well func(Health) bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			all := make([]Health, 0, len(consumers))
			for _, c := range consumers {
				all = append(all, c.Health())
			}
			w.Header().Set("Content-Type", "application/json")
			if slices.ContainsFunc(all, func(h Health) bool { return !well(h) }) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_ = json.NewEncoder(w).Encode(all)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/livez", serve(func(h Health) bool { return h.Live }))
	mux.Handle("/readyz", serve(func(h Health) bool { return h.Ready }))
	return mux
}

// setState changes the state, logs the transition and reports it to the observers.
func (c *Consumer) setState(to State, err error) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	from, moved := c.status.setState(to, err)
	if !moved || from == to {
		return
	}
	queue, logger, observers := c.reportTargets()
	if err != nil {
		logger.Warn("State changed", "queue", queue, "from", from, "to", to, "error", err)
	} else {
		logger.Info("State changed", "queue", queue, "from", from, "to", to)
	}
	for _, observer := range observers {
		if observer.State != nil {
			c.report("Observer.State", func() { observer.State(Transition{Queue: queue, From: from, To: to, Err: err}) })
		}
	}
	if to == StateDelivering {
		c.reportReconnected(queue, observers)
	}
}

// reportReconnected reports the end of a lost connection, if there was one.
func (c *Consumer) reportReconnected(queue string, observers []Observer) {
	attempts, took, lost := c.status.endLoss()
	if !lost {
		return
	}
	for _, observer := range observers {
		if observer.Reconnected != nil {
			c.report("Observer.Reconnected", func() { observer.Reconnected(Reconnection{Queue: queue, Attempts: attempts, Took: took}) })
		}
	}
}

// reportTargets returns the logger and the observers. queue is empty until the contract was read.
func (c *Consumer) reportTargets() (queue string, logger *slog.Logger, observers []Observer) {
	if given := c.settings.Load(); given != nil {
		return c.contract.Load().Queue, given.logger, given.observers
	}
	return "", c.logger(), apply(c.options).observers
}

// logger returns the logger, also before the contract was read.
func (c *Consumer) logger() *slog.Logger {
	if given := c.settings.Load(); given != nil {
		return given.logger
	}
	return cmp.Or(apply(c.options).logger, slog.Default())
}

// report calls a function of an observer later, in the goroutine of the reporter.
func (c *Consumer) report(name string, call func()) {
	c.reporter.report(func() { c.logEnd(name, call) })
}

// guard calls a function of the application other than a handler in a goroutine of its own, so that the message is still settled if the
// function panics or ends the goroutine.
func (c *Consumer) guard(name string, call func()) { apart(func() { c.logEnd(name, call) }) }

// apart runs a function in a goroutine of its own, and waits for its end.
func apart(run func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	<-done
}

// logEnd calls a function of the application. It recovers and logs a panic, and logs if the function ends the goroutine.
func (c *Consumer) logEnd(name string, call func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		cause, message := recover(), "A function of the application panicked"
		if cause == nil {
			message = "A function of the application ended its goroutine"
		}
		c.log.log(c.logger(), slog.LevelError, message, func() []any {
			return []any{"function", name, "panic", cause, "stack", string(debug.Stack())}
		})
	}()
	call()
	returned = true
}

// reportSettled reports the end of a delivery. An observer that calls runtime.Goexit ends the calling goroutine; see logEnd.
func (c *Consumer) reportSettled(end Settlement) {
	given := c.settings.Load()
	if end.Result != contract.ResultSucceeded || end.Stale || given.logger.Enabled(context.Background(), slog.LevelDebug) {
		c.logSettled(end)
	}
	for _, observer := range given.observers {
		if observer.Settled != nil {
			c.logEnd("Observer.Settled", func() { observer.Settled(end) })
		}
	}
}

// reportPublished reports an attempt to publish a copy.
func (c *Consumer) reportPublished(p Publication) {
	given := c.settings.Load()
	for _, observer := range given.observers {
		if observer.Published != nil {
			c.guard("Observer.Published", func() { observer.Published(p) })
		}
	}
	if p.Err != nil {
		c.log.log(given.logger, slog.LevelWarn, "Could not publish a copy; the original message stays in the queue", func() []any {
			return append(attributes(p.Delivery), "error", p.Err, "exchange", p.Route.Exchange, "routing_key", p.Route.RoutingKey)
		})
	}
}
