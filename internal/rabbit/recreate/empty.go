package recreate

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/text"
)

const (
	// consumerLeaves is the maximum time that RabbitMQ takes to detect that the consumer of a mover is gone.
	consumerLeaves = 5 * time.Second
	// emptyRounds limits how often one call empties a queue, because clients may keep publishing past the bindings.
	emptyRounds = 10
)

// Empty moves the messages of the queue to the backlog until none is ready. If clients publish to the queue by its name faster than Warren
// moves messages, Empty ends after maxMoved messages, and Swap moves the rest. It does not move messages that consumers hold or that wait
// to be dead-lettered; Swap detects them. It returns immediately if the queue has no ready message. report, if it is not nil, is called
// several times a second. If the queue is recreated without a hold, Empty fails with ErrNotEmpty and moves no message. It also moves none
// if the queue could lose messages during the move, because messages may have arrived after Check saw none.
func (r *Recreator) Empty(ctx context.Context, rec Recreation, report func(Progress)) (progress Progress, err error) {
	count := r.countReliably
	if rec.Emptied { // the fence shows whether the queue is empty
		count = r.count
	}
	for range emptyRounds {
		now, err := count(ctx, rec.Queue.Name)
		switch {
		case err != nil || now.Ready == 0:
			return progress, err
		case rec.WithoutHold:
			return progress, r.Errors.Fail(brokererr.ErrNotEmpty, "queue %q holds %s. It has no hold queue, so Warren recreates "+
				"it once it is empty", rec.Queue.Name, text.Count(now.Ready, "message"))
		}
		if err := r.checkMovable(ctx, rec.Queue.Name); err != nil {
			return progress, err
		}
		before := progress.Moved
		progress, err = r.move(ctx, move{
			from: rec.Queue.Name, to: rec.Backlog(), exchange: rec.BacklogExchange(), ready: now.Ready, endBelow: 1, before: progress,
			isPast: rec.isPast,
		}, report)
		if err != nil {
			return progress, err
		}
		err = r.until(ctx, consumerLeaves, func() (bool, error) {
			then, err := r.count(ctx, rec.Queue.Name)
			return then.Consumers <= now.Consumers, err
		})
		if err != nil {
			return progress, err
		}
		if err := r.Crash.Pass(StepMoved); err != nil || progress.Moved-before >= maxMoved(now.Ready) {
			return progress, err
		}
	}
	return progress, nil
}

// isPast reports whether a message came past the bindings: after the queue was emptied, and neither from a tier nor from Warren. A message
// that was delivered before may be older: RabbitMQ 4.3 can delay a message that a consumer has returned.
func (r Recreation) isPast(message *amqp.Delivery) bool {
	return r.Emptied && !message.Redelivered && !deadletter.DiedIn(message.Headers, r.Tiers) && !safedelete.IsSentinel(message)
}

// checkPast fails if messages came past the bindings and AcceptsPast is false. Then they are in the backlog, and the queue must not
// be deleted.
func (r Recreation) checkPast(past int) error {
	if past > 0 && !r.AcceptsPast {
		return refuse(PublishersPastBindings, "clients published %s to queue %q by its name, not through a binding",
			text.Count(past, "message"), r.Queue.Name)
	}
	return nil
}
