package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// maxLogLines is how many lines with the same message are logged per second. Further lines are only counted.
const maxLogLines = 10

// limitedLog logs messages that may occur for each delivery.
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

// attributes returns the log attributes of a delivery. They never contain its body.
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

// settlementMessage returns the log level and message for the end of a delivery.
func settlementMessage(end Settlement) (slog.Level, string) {
	switch {
	case end.Stale:
		return slog.LevelWarn, "The broker took the message back before it was settled"
	case end.Action.GivenUp && end.Action.Verb == contract.VerbAck:
		return slog.LevelWarn, "The message was dropped: there is no dead-letter queue"
	case end.Action.GivenUp:
		return slog.LevelWarn, "The message failed and is not tried again"
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

func (c *Consumer) logPanic(d *Delivery, failure error, stack []byte) {
	c.log.log(c.settings.Load().logger, slog.LevelWarn, "The handler panicked", func() []any {
		return append(attributes(d), "error", failure, "stack", string(stack))
	})
}

// logLate logs the ends of messages that were settled while their handler still ran.
func (c *Consumer) logLate(ends []ending) {
	logger := c.settings.Load().logger
	for _, end := range ends {
		c.log.log(logger, slog.LevelWarn, "The handler returned after its message was settled as timed out", func() []any {
			return append(attributes(end.delivery), "outcome", end.outcome.Result, "error", end.failure)
		})
	}
}

// logRefusedHeaders logs the headers that the copy of a message does not get.
func (c *Consumer) logRefusedHeaders(d *Delivery, refused map[string]error) {
	for name, err := range refused {
		c.log.log(c.settings.Load().logger, slog.LevelError, "The copy of the message lacks a header that cannot be sent", func() []any {
			return append(attributes(d), "header", name, "error", err)
		})
	}
}
