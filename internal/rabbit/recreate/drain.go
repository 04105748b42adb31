package recreate

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
)

// drainer moves single messages to the backlog while the fence of the queue is closed. One at a time is enough, because the fence admits a
// message only when the queue is empty. The sentinel must follow the last message quickly. A mover would take too long, because it must
// first end its consumer.
type drainer struct {
	*Recreator

	rec        Recreation
	connection *amqpconn.Conn
	publisher  *amqpconn.Publisher
	seq        int64
	// moved and past are counts; see Progress.
	moved, past int
}

// drain returns once the queue has no ready message. It fails if it has moved a message that came past the bindings, unless
// Recreation.AcceptsPast is true.
func (d *drainer) drain(ctx context.Context) (err error) {
	if err := d.open(ctx); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, d.connection.CloseSocket)()
	defer func() {
		if err == nil {
			return
		}
		d.close()
		if ctx.Err() != nil && ReasonOf(err) == "" {
			err = d.Errors.Unreachable(ctx.Err())
		}
	}()
	for {
		//nolint:forbidigo // each message is acknowledged; if a copy fails, the end of the channel returns the message
		message, found, err := d.publisher.Channel.Get(d.rec.Queue.Name, false)
		if err != nil {
			return withQueue(d.rec.Queue.Name, d.Errors.OfOperation(err))
		}
		if found {
			if err := d.moveMessage(&message); err != nil {
				return err
			}
		}
		if !found || message.MessageCount == 0 {
			return d.rec.checkPast(d.past)
		}
	}
}

// open opens the connection, unless it is already open.
func (d *drainer) open(ctx context.Context) (err error) {
	if d.connection != nil && !d.publisher.Channel.IsClosed() {
		return nil
	}
	d.close()
	d.connection, err = d.changer.Dial(ctx, d.Cluster, "warren recreate "+d.rec.Queue.Name, amqpconn.LargestBody)
	if err != nil {
		return err
	}
	channel, err := d.connection.Connection.Channel()
	if err == nil {
		d.publisher, err = d.connection.NewPublisher(channel, 1)
	}
	if err != nil {
		d.close()
		return d.Errors.OfOperation(err)
	}
	return nil
}

func (d *drainer) close() {
	if d.connection != nil {
		d.connection.Close(thawLimit)
		d.connection, d.publisher = nil, nil
	}
}

// moveMessage copies a message to the backlog, and acknowledges it once the backlog has the copy.
func (d *drainer) moveMessage(message *amqp.Delivery) error {
	queue := d.rec.Queue.Name
	defer d.connection.Release(message)
	if safedelete.IsSentinel(message) { // left behind by a crash
		return d.acknowledge(message)
	}
	if size, _, dropped := d.connection.Dropped(message); dropped {
		return refuse(MessageNotMoved, "queue %q: a message of %d bytes cannot be moved", queue, size)
	}
	message.Body, _ = d.connection.Body(message)
	d.seq++
	route, publishing, err := copier{exchange: d.rec.BacklogExchange(), user: d.Username}.Copy(message, d.seq)
	if err != nil {
		return withReason(AMQP10Message, err)
	}
	taken, err := d.publisher.Publish(route.Exchange, route.RoutingKey, publishing)
	switch {
	case err != nil:
		return withQueue(d.rec.Backlog(), d.Errors.OfOperation(err))
	case !taken[0]:
		return refuse(MessageNotMoved, "queue %q: the broker does not accept a message for queue %q", queue, d.rec.Backlog())
	}
	d.moved++
	if d.rec.isPast(message) {
		d.past++
	}
	return d.acknowledge(message)
}

func (d *drainer) acknowledge(message *amqp.Delivery) error {
	if err := message.Ack(false); err != nil {
		return withQueue(d.rec.Queue.Name, d.Errors.OfOperation(err))
	}
	return nil
}
