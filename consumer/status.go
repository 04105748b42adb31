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

// Health is how a consumer is.
type Health struct {
	Queue string    `json:"queue"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Ready: messages are delivered, or would be if there were any, and failed ones have a way.
	Ready bool `json:"ready"`
	// Live: the consumer goes on, whether or not the broker can be reached. False if all its handlers are stuck.
	Live bool `json:"live"`
	// Message says why the consumer is not ready, or what holds it up.
	Message string `json:"message,omitempty"`
	// Paused: the limiter holds messages back, or the broker takes none at present, so that failed ones wait here.
	Paused bool `json:"paused,omitempty"`
	// Reconnects is how often the consumer lost its channel or did not get one.
	Reconnects int `json:"reconnects"`
	// Active is how many handlers run.
	Active int `json:"active"`
	// Stuck is how many handlers run although their context ended more than 2 s ago.
	Stuck int `json:"stuck,omitempty"`
	// Unconfirmed is how many copies wait for the broker's confirm, those of the Conn's other consumers included.
	Unconfirmed int `json:"unconfirmed,omitempty"`
}

// livenessTimeout is for how long a consumer that is live may do nothing.
const livenessTimeout = 2 * time.Minute

// status is what is known of a consumer.
type status struct {
	mu            sync.Mutex
	state         State
	since         time.Time
	lastProgress  time.Time
	err           error
	reconnects    int
	delivered     bool                // at some time
	lost          time.Time           // when the channel was lost; zero while there is one, and before the first
	attempts      int                 // to connect since then
	refusedCopies map[*Delivery]error // failed messages whose copies the broker refuses
	forbidden     map[string]error    // exchanges that the broker refuses messages for

	limited atomic.Int64 // how many messages the limiter holds back
}

func (s *status) recordProgress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastProgress = time.Now()
}

// setState notes a transition; false if the consumer has ended.
func (s *status) setState(to State, err error) (from State, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == StateDisconnected {
		return s.state, false
	}
	from, s.state = s.state, to
	s.since, s.lastProgress = time.Now(), time.Now()
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
	if to == StateDelivering {
		s.err, s.delivered = nil, true
	}
	return from, true
}

// endLoss ends a loss; false if there was none.
func (s *status) endLoss() (attempts int, took time.Duration, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	attempts, since := s.attempts, s.lost
	s.attempts, s.lost = 0, time.Time{}
	return attempts, time.Since(since), !since.IsZero()
}

// recordRefusedCopy records that the broker refuses the copy of a delivery, until clearRefusedCopy is called.
func (s *status) recordRefusedCopy(d *Delivery, refusal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusedCopies == nil {
		s.refusedCopies = map[*Delivery]error{}
	}
	s.refusedCopies[d] = refusal
}

func (s *status) clearRefusedCopy(d *Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refusedCopies, d)
}

// setForbidden records the exchanges that the broker refuses messages for, and returns those of before.
func (s *status) setForbidden(refusals map[string]error) (before map[string]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.forbidden = s.forbidden, refusals
	return before
}

// refusals are the texts of what the broker refuses.
func (s *status) refusals() []string {
	texts := make([]string, 0, len(s.forbidden)+len(s.refusedCopies))
	for _, err := range s.forbidden {
		texts = append(texts, err.Error())
	}
	for _, err := range s.refusedCopies {
		texts = append(texts, err.Error())
	}
	slices.Sort(texts)
	return texts
}

// Health is how the consumer is now.
func (c *Consumer) Health() Health {
	blocked, s := c.conn.copies.isBlocked(), &c.status
	limited := s.limited.Load() > 0
	active, stuck := c.workers.count()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Health{
		State: s.state, Since: s.since, Reconnects: s.reconnects, Paused: blocked || limited,
		Active: active, Stuck: stuck, Unconfirmed: c.conn.copies.unconfirmed(),
	}
	if current := c.contract.Load(); current != nil {
		h.Queue = current.Queue
	}
	refusals := s.refusals()
	h.Ready = s.state == StateDelivering && len(refusals) == 0
	h.Live = s.state != StateDisconnected && (s.lastProgress.IsZero() || time.Since(s.lastProgress) < livenessTimeout)
	if given := c.settings.Load(); given != nil && stuck >= given.concurrency {
		h.Live, h.Ready = false, false
	}
	switch {
	case s.err != nil:
		h.Message = s.err.Error()
	case len(refusals) > 0:
		h.Message = refusals[0]
	case stuck > 0:
		h.Message = fmt.Sprintf("%d handlers go on although their context has ended; the log has their stacks", stuck)
	case limited:
		h.Message = "the limiter holds messages back"
	case blocked:
		h.Message = "the broker blocks publishers: failed messages wait here"
	}
	return h
}

// HealthHandler serves /livez and /readyz, as Kubernetes probes ask for them: 200, or 503 if one of the consumers is not well. The
// body is the health of each, as JSON.
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

// setState changes the state.
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
			c.reporter.report(func() { observer.State(Transition{Queue: queue, From: from, To: to, Err: err}) })
		}
	}
	if to == StateDelivering {
		c.reportReconnected(queue, observers)
	}
}

// reportReconnected tells of the end of a loss, if there was one.
func (c *Consumer) reportReconnected(queue string, observers []Observer) {
	attempts, took, lost := c.status.endLoss()
	if !lost {
		return
	}
	for _, observer := range observers {
		if observer.Reconnected != nil {
			c.reporter.report(func() { observer.Reconnected(Reconnection{Queue: queue, Attempts: attempts, Took: took}) })
		}
	}
}

// reportTargets returns the logger and the observers that learn of changes. The queue is empty until the contract is known.
func (c *Consumer) reportTargets() (queue string, logger *slog.Logger, observers []Observer) {
	if given := c.settings.Load(); given != nil {
		return c.contract.Load().Queue, given.logger, given.observers
	}
	given := apply(c.options)
	return "", cmp.Or(given.logger, slog.Default()), given.observers
}

// guard calls a function of the application that is no handler. If it panics, the message is settled all the same.
func (c *Consumer) guard(name string, call func()) {
	defer func() {
		if cause := recover(); cause != nil {
			c.log.log(c.settings.Load().logger, slog.LevelError, "A function of the application panicked", func() []any {
				return []any{"function", name, "panic", cause, "stack", string(debug.Stack())}
			})
		}
	}()
	call()
}

// reportSettled tells of the end of a delivery.
func (c *Consumer) reportSettled(end Settlement) {
	given := c.settings.Load()
	for _, observer := range given.observers {
		if observer.Settled != nil {
			c.guard("Observer.Settled", func() { observer.Settled(end) })
		}
	}
	if end.Result != contract.ResultSucceeded || end.Stale || given.logger.Enabled(context.Background(), slog.LevelDebug) {
		c.logSettled(end)
	}
}

// reportPublished tells of an attempt to publish a copy.
func (c *Consumer) reportPublished(p Publication) {
	given := c.settings.Load()
	for _, observer := range given.observers {
		if observer.Published != nil {
			c.guard("Observer.Published", func() { observer.Published(p) })
		}
	}
	if p.Err != nil {
		c.log.log(given.logger, slog.LevelWarn, "A copy was not published; the original is kept", func() []any {
			return append(attributes(p.Delivery), "error", p.Err, "exchange", p.Route.Exchange, "routing_key", p.Route.RoutingKey)
		})
	}
}

// maxLogLines is how many lines with the same message are logged each second; the others are counted.
const maxLogLines = 10

// limitedLog logs what may happen with each message.
type limitedLog struct {
	mu      sync.Mutex
	second  time.Time
	logged  map[string]int
	skipped int
}

func (l *limitedLog) log(logger *slog.Logger, level slog.Level, message string, attributes func() []any) {
	l.mu.Lock()
	now := time.Now().Truncate(time.Second)
	skipped := 0
	if !now.Equal(l.second) {
		l.second, l.logged = now, map[string]int{}
		skipped, l.skipped = l.skipped, 0
	}
	l.logged[message]++
	due := l.logged[message] <= maxLogLines
	if !due {
		l.skipped++
	}
	l.mu.Unlock()
	if skipped > 0 {
		logger.Warn("Further messages were not logged", "count", skipped)
	}
	if due {
		logger.Log(context.Background(), level, message, attributes()...)
	}
}

// attributes are what is logged of a delivery; never its body.
func attributes(d *Delivery) []any {
	return []any{
		"queue", d.Queue(), "tag", d.Raw.DeliveryTag, "message_id", d.Raw.MessageId, "correlation_id", d.Raw.CorrelationId,
		"type", d.Raw.Type, "original_exchange", d.OriginalExchange(), "original_routing_key", d.OriginalRoutingKey(),
		"attempt", d.Attempt(),
	}
}

func (c *Consumer) logSettled(end Settlement) {
	level, message := settlementMessage(end)
	c.log.log(c.settings.Load().logger, level, message, func() []any {
		all := append(attributes(end.Delivery), "outcome", end.Result, "latency_ms", end.Took.Milliseconds())
		if end.Action.Route != nil {
			all = append(all, "next", end.Action.Route.RoutingKey, "next_exchange", end.Action.Route.Exchange)
		}
		if end.Err != nil {
			all = append(all, "error", end.Err)
		}
		return all
	})
}

// settlementMessage is how the end of a delivery is logged.
func settlementMessage(end Settlement) (slog.Level, string) {
	switch {
	case end.Stale:
		return slog.LevelWarn, "The broker took the message back before it was settled"
	case end.Action.GivenUp && end.Action.Verb == contract.VerbAck:
		return slog.LevelWarn, "The message was dropped: there is no dead-letter queue"
	case end.Action.GivenUp:
		return slog.LevelWarn, "The message was given up"
	case end.Result == contract.ResultSucceeded:
		return slog.LevelDebug, "The message was handled"
	case end.Result == contract.ResultDiscarded:
		return slog.LevelInfo, "The message was discarded"
	case end.Result == contract.ResultDeferred:
		return slog.LevelInfo, "The message was deferred"
	case end.Action.Verb == contract.VerbReturn:
		return slog.LevelInfo, "The message was returned to the queue"
	}
	return slog.LevelInfo, "The message failed and waits for its next attempt"
}

// logPanic logs the stack of a handler that panicked.
func (c *Consumer) logPanic(d *Delivery, failure error, stack []byte) {
	c.log.log(c.settings.Load().logger, slog.LevelWarn, "The handler panicked", func() []any {
		return append(attributes(d), "error", failure, "stack", string(stack))
	})
}
