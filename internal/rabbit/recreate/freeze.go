package recreate

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// maxFrozen is the maximum number of messages of a delay tier that are held back.
	maxFrozen = 10000
	// freezeLimit is how long Swap waits until these messages are delivered.
	freezeLimit = time.Second
	// thawLimit is how long the broker may take to answer when the messages are returned.
	thawLimit = 5 * time.Second
	// discardBodies is the largest body that a freezer retains, in bytes. A freezer needs no bodies, because it only returns messages.
	discardBodies = 1
)

// freezer consumes the messages of the delay tiers while the fence of the queue is closed, because delivered messages do not
// expire. Otherwise they would expire, the fence would refuse them, and RabbitMQ would retry only after three minutes.
type freezer struct {
	*Recreator

	rec        Recreation
	connection *amqpconn.Conn
	channels   []frozen
}

// frozen is a tier whose messages are held back.
type frozen struct {
	channel  *amqp.Channel
	consumer string // its tag
	tier     string
	last     chan uint64 // the tag of the last message, once the consumer has ended
}

// freeze begins to hold messages back, unless it already does.
func (f *freezer) freeze(ctx context.Context) error {
	if f.connection != nil && !f.connection.Connection.IsClosed() || len(f.rec.Tiers) == 0 {
		return nil
	}
	f.channels = nil
	connection, err := f.changer.Dial(ctx, f.Cluster, "warren recreate "+f.rec.Queue.Name, discardBodies)
	if err != nil {
		return err
	}
	f.connection = connection
	for _, tier := range f.rec.Tiers {
		if err := f.hold(tier); err != nil {
			return withQueue(tier, f.Errors.OfOperation(err))
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
	return f.Crash.Pass(StepFrozen)
}

// hold consumes the messages of a tier. It skips a tier that does not exist.
func (f *freezer) hold(tier string) error {
	channel, err := f.connection.Connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(maxFrozen, 0, false); err != nil {
		return err
	}
	consumer := fmt.Sprint("warren-freeze-", len(f.channels))
	deliveries, err := channel.Consume(tier, consumer, false, false, false, false, nil)
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	last, connection := make(chan uint64, 1), f.connection
	go func() {
		tag := uint64(0)
		for message := range deliveries {
			tag = message.DeliveryTag
			connection.Release(&message)
		}
		last <- tag
	}()
	f.channels = append(f.channels, frozen{channel, consumer, tier, last})
	return nil
}

// thaw returns the messages without counting a delivery. It uses basic.nack on RabbitMQ 4.3 and newer, and closes the channel on older
// versions. If the broker does not answer, closing the connection returns the messages.
func (f *freezer) thaw() {
	if f.connection == nil {
		return
	}
	watchdog := time.AfterFunc(thawLimit, f.connection.CloseSocket)
	defer watchdog.Stop()
	for _, tier := range f.channels {
		if tier.channel.Cancel(tier.consumer, false) != nil {
			continue
		}
		last := <-tier.last
		//nolint:forbidigo // the messages of a tier expire in their order, wherever they stand
		if last > 0 && f.isAtLeast(vhost.RabbitMQ43) && tier.channel.Nack(last, true, true) == nil {
			// The answer shows that the broker has processed the nack.
			_, _ = tier.channel.QueueDeclarePassive(tier.tier, true, false, false, false, nil)
		}
		_ = tier.channel.Close()
	}
	f.connection.Close(thawLimit)
}

// abandon cuts the connection, as a crash would.
func (f *freezer) abandon() {
	if f.connection != nil {
		f.connection.CloseSocket()
	}
}
