package recreate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
)

// The headers of a moved message. A fanout exchange keeps the routing key of the message, and ignores CC.
const (
	// headerExchange is the exchange that the message was published to.
	headerExchange = "warren-exchange"
	// headerUserID is the user-id of the message, which RabbitMQ would refuse as a property from Warren.
	headerUserID = "warren-user-id"
	// headerExpiration is the expiration of a message in the backlog, where the message must not expire.
	headerExpiration = "warren-expiration"
)

// move describes the source, the destination and the limits of a move.
type move struct {
	from, to, exchange string
	// ready is how many messages were ready at the beginning.
	ready int
	// endBelow ends the move as soon as fewer messages are ready, or after maxMoved messages; zero moves all.
	endBelow int
	// maxDepth returns how many ready messages the destination may have, zero for any number, or why it may get none. It is called each
	// second, because policies change. If maxDepth is nil, the destination may have any number.
	maxDepth func(context.Context) (int, error)
	isPast   func(*amqp.Delivery) bool
	// before is the progress of earlier moves of the call.
	before Progress
	// movesBack: the destination is the queue. restores: the move restores the properties that messages must not have in the backlog.
	movesBack, restores bool
}

// maxMoved returns the number of messages after which a move ends although more are ready. If publishers fill the queue or the hold faster
// than Warren moves messages, it never becomes empty. The end of such a move returns messages, which a queue may count as deliveries.
func maxMoved(ready int) int { return 2*ready + 5000 }

// maxFailures is the number of messages that cannot be moved after which a move back ends.
const maxFailures = 100

// move moves messages until fewer than endBelow are ready; zero moves all. If a message cannot be moved, a move to the backlog fails
// immediately. A move back continues with the messages behind it, and fails at its end or after maxFailures failures. A move also fails
// if another client has deleted the source, the destination, or the binding of the destination. When the caller retries, it declares
// destination and binding again, and continues without a deleted source. move drops sentinels that a crash has left behind.
func (r *Recreator) move(ctx context.Context, m move, report func(Progress)) (Progress, error) {
	var latest Progress
	limit := &depthLimit{}
	if m.maxDepth != nil {
		if err := limit.read(ctx, m.maxDepth); err != nil {
			return m.before, err
		}
	}
	total, failures := m.limits()
	copier := copier{exchange: m.exchange, user: r.Username, movesBack: m.movesBack, restores: m.restores}
	moving, stop := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop(nil)
	if m.maxDepth != nil {
		reading.Go(func() { stop(r.keepReading(moving, limit, m.maxDepth)) })
	}
	done, err := r.changer.Move(moving, r.Cluster, mover.Config{
		Log: r.Log, Queue: m.from, Destination: m.to, Exchange: m.exchange, Filter: copier, Copier: copier,
		Settings: limit.settings,
		Drop:     safedelete.IsSentinel,
		Total:    total, EndBelow: m.endBelow, MaxFailures: failures, Apart: m.isPast,
		EndAtUnreadable: !m.movesBack, // the queue may drop messages after few deliveries
		Report: func(now mover.Progress) {
			latest = m.progressOf(now)
			switch now.State {
			case mover.SourceMissing: // without a Reason, because the same call then continues without the queue
				stop(r.Errors.Fail(brokererr.ErrNotFound, "queue %q was deleted while its messages were moved", m.from))
			case mover.DestinationMissing:
				stop(refuse(MessageNotMoved, "queue %q or its binding was deleted while messages were moved to it", m.to))
			case mover.NothingDelivered:
				if r.hasSingleActiveConsumer(m.from) {
					stop(refuse(ConsumersCameBack, "queue %q has messages, and delivers none to Warren, because a client is its single "+
						"active consumer", m.from))
				}
			}
			if report != nil {
				report(latest)
			}
		},
	})
	latest = m.progressOf(done)
	if err := m.result(done, err); err != nil {
		return latest, err
	}
	if ctx.Err() != nil {
		return latest, r.Errors.Unreachable(ctx.Err())
	}
	return latest, context.Cause(moving)
}

// limits returns the number of messages and the number of failures after which the move ends.
func (m move) limits() (total, failures int) {
	total, failures = math.MaxInt, 1
	if m.endBelow > 0 {
		total = maxMoved(m.ready)
	}
	if m.movesBack {
		failures = maxFailures
	}
	return total, failures
}

// result returns why a message could not be moved, or why the mover failed; nil for neither.
func (m move) result(done mover.Progress, err error) error {
	switch {
	case (err == nil || errors.Is(err, mover.ErrTooManyFailures)) && len(done.Failures) > 0:
		failure := done.Failures[0]
		reason := MessageNotMoved
		if failure.Message == errAMQP10.Error() {
			reason = AMQP10Message
		}
		return refuse(reason, "queue %q: a message cannot be moved to queue %q: %s", m.from, m.to, failure.Message)
	case errors.Is(err, mover.ErrUnreadable):
		return withReason(AMQP10Message, fmt.Errorf(
			"queue %q: %w, as it is a message of AMQP 1.0, or its headers are too large or nested too deeply", m.from, err))
	}
	return withBrokerReason(withQueue(m.from, err))
}

// depthLimit is the latest result of move.maxDepth.
type depthLimit struct{ messages atomic.Int64 }

func (l *depthLimit) read(ctx context.Context, maxDepth func(context.Context) (int, error)) error {
	messages, err := maxDepth(ctx)
	if err == nil {
		l.messages.Store(int64(messages))
	}
	return err
}

func (l *depthLimit) settings() mover.Settings {
	if messages := int(l.messages.Load()); messages > 0 {
		return mover.Settings{MaxDepth: messages}
	}
	return mover.Settings{MaxDepth: -1}
}

// depthPause is the time between two readings of a limit.
const depthPause = time.Second

// keepReading reads the limit until the context ends or the destination may get no more messages. A failed reading does not change the
// limit.
func (r *Recreator) keepReading(ctx context.Context, limit *depthLimit, maxDepth func(context.Context) (int, error)) error {
	for retry.Sleep(ctx, r.Errors, depthPause) == nil {
		if err := limit.read(ctx, maxDepth); ReasonOf(err) != "" {
			return err
		}
	}
	return nil
}

func (m move) progressOf(now mover.Progress) Progress {
	return Progress{
		State: now.State, Detail: now.Detail, Moved: m.before.Moved + now.Moved, Past: m.before.Past + now.Apart,
		Remaining: max(0, m.ready-now.Moved),
	}
}

// copier copies each message without changes if AMQP 0-9-1 and RabbitMQ allow it.
type copier struct {
	exchange, user string
	// movesBack and restores are as in move.
	movesBack, restores bool
}

// Skips skips no message.
func (copier) Skips(*amqp.Delivery, int64) string { return "" }

// errAMQP10 is about a message with AMQP 1.0 sections, which AMQP 0-9-1 would lose.
var errAMQP10 = errors.New("a message has AMQP 1.0 sections, which cannot be moved")

// Copy returns the message to publish.
func (c copier) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	if message.Type == deadletter.TypeAMQP10 {
		return contract.Route{}, amqp.Publishing{}, errAMQP10
	}
	headers := amqp.Table{}
	for name, value := range message.Headers {
		if name != "x-delivery-count" && name != "x-acquired-count" {
			headers[name] = value
		}
	}
	copied := amqp.Publishing{
		Headers: headers, ContentType: message.ContentType, ContentEncoding: message.ContentEncoding, DeliveryMode: message.DeliveryMode,
		Priority: message.Priority, CorrelationId: message.CorrelationId, ReplyTo: message.ReplyTo, MessageId: message.MessageId,
		Timestamp: message.Timestamp, Type: message.Type, AppId: message.AppId, UserId: message.UserId, Expiration: message.Expiration,
		Body: message.Body,
	}
	headers[mover.SeqHeader] = seq
	if _, given := headers[headerExchange]; !given {
		headers[headerExchange] = message.Exchange
	}
	if copied.UserId != "" && copied.UserId != c.user {
		headers[headerUserID], copied.UserId = copied.UserId, ""
	}
	switch kept, given := headers[headerExpiration].(string); {
	case c.restores && given:
		copied.Expiration = kept
		delete(headers, headerExpiration)
	case !c.movesBack:
		delete(headers, headerExpiration) // of a publisher, perhaps with a value that RabbitMQ refuses
		if copied.Expiration != "" {
			headers[headerExpiration], copied.Expiration = copied.Expiration, ""
		}
	}
	return contract.Route{Exchange: c.exchange, RoutingKey: message.RoutingKey}, copied, nil
}
