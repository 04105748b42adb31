package mover

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/vhost"
)

// A quorum queue that is too busy to count reports zero, because rabbit_quorum_queue:stat stops after a quarter of a second. So a count
// of zero is repeated.
const (
	zeroCounts = 3
	zeroPause  = 300 * time.Millisecond
)

// QueueCounts are the numbers of messages of a queue before a move.
type QueueCounts struct {
	// Ready is how many messages are ready.
	Ready int
	// Held is how many messages other consumers hold.
	Held int
	// IsUncounted: the queue has ready messages and is too busy to count them.
	IsUncounted bool
}

// Counter counts the messages of queues.
type Counter struct {
	Errors   brokererr.Errors
	Channels *amqpconn.Pool
	API      *management.Client
}

// heldPause is longer than the five seconds after which the broker counts unacknowledged messages again.
const heldPause = 6 * time.Second

// Count counts the messages of a queue of this type on the cluster with this key; false if there is no such queue. If other clients consume
// the queue, it waits until the broker has counted the messages that they hold. It always waits at a classic queue: there, the broker does
// not count a client as a consumer that holds messages without a subscription, such as after basic.get.
func (c Counter) Count(ctx context.Context, cluster, queue, queueType string) (counted QueueCounts, exists bool, err error) {
	declared, exists, err := c.Channels.DeclaredQueue(ctx, cluster, queue)
	for range zeroCounts {
		if err != nil || !exists || declared.Messages > 0 || retry.Sleep(ctx, c.Errors, zeroPause) != nil {
			break
		}
		declared, exists, err = c.Channels.DeclaredQueue(ctx, cluster, queue)
	}
	counted.Ready = declared.Messages
	mayHold := declared.Consumers > 0 || queueType == vhost.TypeClassic
	if err != nil || !exists || declared.Messages > 0 && !mayHold {
		return counted, exists, err
	}
	if mayHold {
		if err := retry.Sleep(ctx, c.Errors, heldPause); err != nil {
			return counted, true, err
		}
	}
	totals, err := c.totals(ctx, queue)
	return countsOf(declared.Messages, mayHold, totals), true, err
}

// countsOf combines the ready messages of a passive declaration with later counts of the management API. A client may have returned its
// messages since the declaration. So if clients may hold messages, countsOf takes both numbers from the management API, which counts them
// at the same moment.
func countsOf(ready int, mayHold bool, totals management.MessageCount) QueueCounts {
	counted := QueueCounts{Ready: ready}
	switch {
	case !mayHold:
		counted.IsUncounted = ready == 0 && totals.Ready() > 0
	case totals.Messages > 0: // otherwise the broker has no statistics, or the queue is empty now
		counted.Ready, counted.Held = int(totals.Ready()), int(totals.Unacknowledged)
	}
	return counted
}

// totals returns the numbers of messages of a queue from the management API.
func (c Counter) totals(ctx context.Context, queue string) (management.MessageCount, error) {
	counts, err := c.API.MessageCounts(ctx, func(name string) bool { return name == queue })
	return counts[queue], err
}
