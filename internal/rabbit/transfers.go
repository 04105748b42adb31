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
	"github.com/warren-mq/warren/internal/vhost"
)

// transferProduct is the product name of connections that move or browse messages.
const transferProduct = "Warren transfer"

// Transfer moves messages out of a queue; see transfer.Run. It opens its own AMQP connections to the cluster of this name, and
// sets Dial and Errs of the configuration.
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

// Look shows the messages of a queue; see transfer.Look and Transfer.
func (c *Connection) Look(ctx context.Context, cluster string, config transfer.LookConfig) (transfer.Looked, error) {
	defer c.take(cluster, config.Queue)()
	config.Errs, config.Dial = c.errs, c.dialTransfer(cluster, "warren look "+config.Queue)
	looked, err := transfer.Look(ctx, config)
	c.noteLook(config.Queue, err)
	return looked, err
}

// take records that Warren consumes a queue until the returned function is called.
func (c *Connection) take(cluster, queue string) (end func()) {
	return c.config.Observations.takes.begin(clusterQueue{vhost.ClusterOf(cluster), c.config.VHost, queue})
}

// dialTransfer returns a function that opens connections for transfers.
func (c *Connection) dialTransfer(cluster, name string) func(context.Context) (*amqpconn.Conn, error) {
	dialer := c.dialer
	dialer.Options.Product, dialer.Options.Name, dialer.Options.LargestBody = transferProduct, name, amqpconn.LargestBody
	return func(ctx context.Context) (*amqpconn.Conn, error) { return dialer.DialSecond(ctx, c.channels, cluster) }
}

// A quorum queue that is too busy to count reports zero, because rabbit_quorum_queue:stat stops after a quarter of a second. So a count
// of zero is repeated.
const (
	zeroCounts = 3
	zeroPause  = 300 * time.Millisecond
)

// Backlog is the messages of a queue before a transfer.
type Backlog struct {
	// Ready is how many messages are ready.
	Ready int
	// Held is how many messages other consumers hold.
	Held int
	// IsUncounted: the queue has ready messages and is too busy to count them.
	IsUncounted bool
}

// heldPause is after what time the broker has counted the unacknowledged messages. It counts every five seconds.
const heldPause = 6 * time.Second

// Backlog counts the messages of a queue on the cluster of this name; false if there is no such queue. If others consume the
// queue, it waits until the broker has counted the messages that they hold.
func (c *Connection) Backlog(ctx context.Context, cluster, queue string) (counted Backlog, exists bool, err error) {
	declared, exists, err := c.countReady(ctx, cluster, queue)
	for range zeroCounts {
		if err != nil || !exists || declared.Messages > 0 || management.Sleep(ctx, c.errs, zeroPause) != nil {
			break
		}
		declared, exists, err = c.countReady(ctx, cluster, queue)
	}
	counted.Ready = declared.Messages
	if err != nil || !exists || declared.Messages > 0 && declared.Consumers == 0 {
		return counted, exists, err
	}
	if declared.Consumers > 0 {
		if err := management.Sleep(ctx, c.errs, heldPause); err != nil {
			return counted, true, err
		}
	}
	totals, err := c.totals(ctx, queue)
	counted.IsUncounted = declared.Messages == 0 && totals.Ready() > 0
	if declared.Consumers > 0 {
		counted.Held = int(totals.Unacknowledged)
	}
	return counted, true, err
}

// totals returns the numbers of messages of a queue from the management API.
func (c *Connection) totals(ctx context.Context, queue string) (management.MessageCount, error) {
	counts, err := c.writeAPI.MessageCounts(ctx, func(name string) bool { return name == queue })
	return counts[queue], err
}

func (c *Connection) countReady(ctx context.Context, cluster, queue string) (declared amqp.Queue, exists bool, err error) {
	declared, err = declaredQueue(ctx, c.channels, cluster, queue)
	if errors.Is(err, brokererr.ErrNotFound) {
		return declared, false, nil
	}
	return declared, err == nil, err
}
