package rabbit

import (
	"context"
	"errors"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/vhost"
)

// transferProduct is what connections call themselves that move messages, or look at them.
const transferProduct = "Warren transfer"

// Transfer moves messages out of a queue; see transfer.Run. It opens AMQP connections of its own, to the cluster of this name. The
// configuration needs no Dial and Errs.
func (c *Connection) Transfer(ctx context.Context, cluster string, config transfer.Config) (transfer.Progress, error) {
	defer c.take(cluster, config.Queue)()
	config.Errs, config.Dial = c.errs, c.dialTransfer(cluster, "warren transfer "+config.Queue)
	report := config.Report
	config.Report = func(progress transfer.Progress) {
		if progress.Examined() > config.Moved { // the user may read the queue
			c.noteLook(config.Queue, nil)
		}
		report(progress)
	}
	return transfer.Run(ctx, config)
}

// Look shows the messages of a queue; see transfer.Look, and Transfer.
func (c *Connection) Look(ctx context.Context, cluster string, config transfer.LookConfig) (transfer.Looked, error) {
	defer c.take(cluster, config.Queue)()
	config.Errs, config.Dial = c.errs, c.dialTransfer(cluster, "warren look "+config.Queue)
	looked, err := transfer.Look(ctx, config)
	c.noteLook(config.Queue, err)
	return looked, err
}

// take takes note that messages are taken out of a queue, until the returned function is called.
func (c *Connection) take(cluster, queue string) (end func()) {
	return c.config.Observations.takes.begin(clusterQueue{vhost.ClusterOf(cluster), c.config.VHost, queue})
}

// dialTransfer opens connections for transfers.
func (c *Connection) dialTransfer(cluster, name string) func(context.Context) (*amqpconn.Conn, error) {
	dialer := c.dialer
	dialer.options.Product, dialer.options.Name, dialer.options.LargestBody = transferProduct, name, amqpconn.LargestBody
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
	declared, err := declaredQueue(ctx, c.channels, cluster, queue)
	if errors.Is(err, brokererr.ErrNotFound) {
		return 0, false, nil
	}
	return declared.Messages, err == nil, err
}
