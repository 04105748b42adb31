package recreate

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// frozenAtMost is how many messages of a delay tier are held back.
	frozenAtMost = 10000
	// freezeLimit is how long Swap waits until they are delivered.
	freezeLimit = time.Second
	// thawLimit is how long the broker has to answer at the end.
	thawLimit = 5 * time.Second
	// frozenConsumer is the tag of the consumer, of which each channel has one.
	frozenConsumer = "warren-freeze"
)

// freezer holds back messages of delay tiers that return to the queue while its fence is closed: RabbitMQ tries again only after three
// minutes to deliver a dead letter that was refused. Messages that are delivered and not acknowledged do not expire.
type freezer struct {
	*Recreator

	rec        Recreation
	connection *amqpconn.Conn
	channels   []frozen
}

// frozen is a tier whose messages are held.
type frozen struct {
	channel *amqp.Channel
	tier    string
	last    chan uint64 // the tag of the last message, once the consumer has ended
}

// freeze begins to hold messages, unless it has begun.
func (f *freezer) freeze(ctx context.Context) error {
	if f.connection != nil && !f.connection.Connection.IsClosed() || len(f.rec.Tiers) == 0 {
		return nil
	}
	f.channels = nil
	connection, err := f.broker.Dial(ctx, f.Cluster, "warren recreate "+f.rec.Queue.Name)
	if err != nil {
		return err
	}
	f.connection = connection
	for _, tier := range f.rec.Tiers {
		if err := f.hold(tier); err != nil {
			return about(tier, f.Errors.OfOperation(err))
		}
	}
	for _, tier := range f.rec.Tiers {
		err := f.until(ctx, freezeLimit, func() (bool, error) {
			now, err := f.count(ctx, tier)
			return now.Ready == 0, err
		})
		if err != nil {
			return err
		}
	}
	return f.step(StepFrozen)
}

// hold consumes a tier. One that does not exist holds nothing.
func (f *freezer) hold(tier string) error {
	channel, err := f.connection.Connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(frozenAtMost, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume(tier, frozenConsumer, false, false, false, false, nil)
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	last := make(chan uint64, 1)
	go func() {
		tag := uint64(0)
		for message := range deliveries {
			tag = message.DeliveryTag
		}
		last <- tag
	}()
	f.channels = append(f.channels, frozen{channel, tier, last})
	return nil
}

// thaw gives the messages back. From 4.3 on basic.nack does that without counting a delivery; before, the end of the channel does. If the
// broker does not answer, the end of the connection gives them back.
func (f *freezer) thaw() {
	if f.connection == nil {
		return
	}
	watchdog := time.AfterFunc(thawLimit, f.connection.CloseSocket)
	defer watchdog.Stop()
	for _, tier := range f.channels {
		if tier.channel.Cancel(frozenConsumer, false) != nil {
			continue
		}
		last := <-tier.last
		//nolint:forbidigo // the messages of a tier expire in their order, wherever they stand
		if last > 0 && f.isAtLeast(vhost.RabbitMQ43) && tier.channel.Nack(last, true, true) == nil {
			_, _ = tier.channel.QueueDeclarePassive(tier.tier, true, false, false, false, nil) // the broker has worked on the nack then
		}
		_ = tier.channel.Close()
	}
	f.connection.Close(thawLimit)
}

// abandon ends as a crash would.
func (f *freezer) abandon() {
	if f.connection != nil {
		f.connection.CloseSocket()
	}
}
