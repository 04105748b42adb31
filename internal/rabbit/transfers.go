package rabbit

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// transferProduct is what connections call themselves that move messages, or look at them.
const transferProduct = "Warren transfer"

// Transfer moves messages out of a queue; see transfer.Run. It opens AMQP connections of its own, to the cluster of this name. The
// configuration needs no Dial and Errs.
func (c *Connection) Transfer(ctx context.Context, cluster string, config transfer.Config) (transfer.Progress, error) {
	config.Errs, config.Dial = c.errs, c.dialTransfer(cluster, "warren transfer "+config.Queue)
	return transfer.Run(ctx, config)
}

// Look shows the messages of a queue; see transfer.Look, and Transfer.
func (c *Connection) Look(ctx context.Context, cluster string, config transfer.LookConfig) (transfer.Looked, error) {
	config.Errs, config.Dial = c.errs, c.dialTransfer(cluster, "warren look "+config.Queue)
	return transfer.Look(ctx, config)
}

// dialTransfer opens connections for transfers.
func (c *Connection) dialTransfer(cluster, name string) func(context.Context) (*amqpconn.Conn, error) {
	dialer := c.dialer
	dialer.options.Product, dialer.options.Name = transferProduct, name
	return func(ctx context.Context) (*amqpconn.Conn, error) { return dialer.dialSecond(ctx, c.channels, cluster) }
}

// A quorum queue that is too busy to count says zero: rabbit_quorum_queue:stat in RabbitMQ gives up after a quarter of a second. So zero is
// asked for again.
const (
	zeroCounts = 3
	zeroPause  = 300 * time.Millisecond
)

// CountReady counts the messages of a queue that wait for a consumer, on the cluster of this name; false if there is no such queue.
func (c *Connection) CountReady(ctx context.Context, cluster, queue string) (ready int, exists bool, err error) {
	for range zeroCounts {
		ready, exists, err = c.countReady(ctx, cluster, queue)
		if err != nil || !exists || ready > 0 || management.Sleep(ctx, c.errs, zeroPause) != nil {
			break
		}
	}
	return ready, exists, err
}

func (c *Connection) countReady(ctx context.Context, cluster, queue string) (ready int, exists bool, err error) {
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
