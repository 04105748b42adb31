package rabbit

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// transferProduct is what connections call themselves that move messages.
const transferProduct = "Warren transfer"

// Transfer moves messages out of a queue; see transfer.Run. It opens AMQP connections of its own, to the cluster of this name. The
// configuration needs no Dial and Errs.
func (c *Connection) Transfer(ctx context.Context, cluster string, config transfer.Config) (transfer.Progress, error) {
	moving := c.dialer
	moving.options.Product, moving.options.Name = transferProduct, "warren transfer "+config.Queue
	config.Errs = c.errs
	config.Dial = func(ctx context.Context) (*amqpconn.Conn, error) { return moving.dialSecond(ctx, c.channels, cluster) }
	return transfer.Run(ctx, config)
}

// CountReady counts the messages of a queue that wait for a consumer, on the cluster of this name; false if there is no such queue.
func (c *Connection) CountReady(ctx context.Context, cluster, queue string) (ready int, exists bool, err error) {
	counted := make(chan int, 1) // for the operation goes on when the context ends
	err = c.channels.DoOnCluster(ctx, cluster, func(channel *amqp.Channel) error {
		declared, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		counted <- declared.Messages
		return err
	})
	switch {
	case errors.Is(err, brokererr.ErrNotFound):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	return <-counted, true, nil
}
