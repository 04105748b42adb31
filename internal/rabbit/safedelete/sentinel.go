package safedelete

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// A fence holds while something stands in the queue. What stands there are sentinels: messages that Warren marks as its
// own. There are two of them: shortly before a queue is deleted, the first is taken out; if it is the first that was put
// in and nobody else ever got it, nobody has got the second either, and the fence has held all the time.
const (
	Sentinels = 2

	SentinelType = "warren.sentinel"
	sentinelApp  = "warren"
	headerQueue  = "warren-queue"  // the queue that it was put into
	headerFence  = "warren-fence"  // the policy that it belongs to
	headerNumber = "warren-number" // from 1 on
	// roomForSentinels is how many bytes a queue must take.
	roomForSentinels = 4096
	// sentinelPriority is the highest: where the broker knows priorities, sentinels are the first to be got again.
	sentinelPriority = 255
)

func sentinel(queue, fence string, number int) amqp.Publishing {
	return amqp.Publishing{
		Type: SentinelType, AppId: sentinelApp, DeliveryMode: amqp.Persistent, Priority: sentinelPriority,
		ContentType: "text/plain; charset=utf-8", Timestamp: time.Now(),
		Headers: amqp.Table{headerQueue: queue, headerFence: fence, headerNumber: int32(number)},
		Body: fmt.Appendf(nil, "Warren, the operator for RabbitMQ consumers, put this message into the queue %q to make sure that it "+
			"is empty before it deletes it. It means nothing to any application: acknowledge it and ignore it.", queue),
	}
}

// IsSentinel reports whether a message is a sentinel of any fence.
func IsSentinel(message *amqp.Delivery) bool {
	return message.Type == SentinelType && message.AppId == sentinelApp
}

// isSentinel reports whether a message is a sentinel of a fence.
func isSentinel(message amqp.Delivery, fence string) bool {
	return IsSentinel(&message) && message.Headers[headerFence] == fence
}

// originOf returns the queue to which a sentinel was published.
func originOf(message amqp.Delivery) string {
	queue, _ := message.Headers[headerQueue].(string)
	return queue
}

func numberOf(message amqp.Delivery) int {
	number, _ := message.Headers[headerNumber].(int32)
	return int(number)
}

// tally counts the sentinels of queues. The zero value is empty.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

// count changes the number of a queue, which is never negative, and returns it.
func (t *tally) count(queue string, change int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[queue] = max(t.of[queue]+change, 0)
	return t.of[queue]
}

// publisher publishes sentinels on one channel, to many queues at the same time.
type publisher struct {
	link    *alarmedLink
	channel *amqp.Channel
	limit   time.Duration // of waiting for the broker's answer

	mu       sync.Mutex
	returns  chan amqp.Return // has room for every message
	returned map[string]bool  // the queues that do not exist, by their names
}

// newPublisher makes a publisher for so many messages at most.
func newPublisher(l *alarmedLink, channel *amqp.Channel, messages int, limit time.Duration) (*publisher, error) {
	p := &publisher{
		link: l, channel: channel, limit: limit, returns: make(chan amqp.Return, messages), returned: map[string]bool{},
	}
	channel.NotifyReturn(p.returns)
	return p, channel.Confirm(false)
}

// publish publishes the sentinels of these numbers to a queue in one piece, and returns whether the broker took each of them:
// false for one that it refused, or that reached no queue. It waits for the answer whatever happens meanwhile: what is on its
// way cannot be taken out.
func (p *publisher) publish(queue, fence string, numbers ...int) ([]bool, error) {
	confirmations := make([]*amqp.DeferredConfirmation, len(numbers))
	err := p.link.Socket.Together(func() (err error) {
		for i, number := range numbers {
			message := sentinel(queue, fence, number)
			if confirmations[i], err = p.channel.PublishWithDeferredConfirm("", queue, true, false, message); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	watchdog := time.AfterFunc(p.limit, p.link.cut)
	defer watchdog.Stop()
	taken := make([]bool, len(numbers))
	for i, confirmation := range confirmations {
		_ = amqpconn.Timed("basic.publish", func() error { // from the one before to the broker's answer
			if taken[i] = confirmation.Wait(); p.channel.IsClosed() {
				return amqp.ErrClosed
			}
			return nil
		})
	}
	switch {
	case p.channel.IsClosed(): // which is not to be told from a refusal
		return nil, amqp.ErrClosed
	case p.wasReturned(queue):
		return make([]bool, len(numbers)), nil
	}
	return taken, nil
}

// wasReturned says whether a message to a queue came back. A return is handed over before its confirm.
func (p *publisher) wasReturned(queue string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case message, open := <-p.returns:
			if !open {
				return p.returned[queue]
			}
			p.returned[message.RoutingKey] = true
		default:
			return p.returned[queue]
		}
	}
}

// holdLimit is how many messages of others may be in front of a sentinel that is to be found: they are held until it is.
const holdLimit = 64

const (
	// settling is how long a broker may take to note what was acknowledged and put back.
	settling    = 5 * time.Second
	settlePause = 5 * time.Millisecond
)

// putBack returns a message to its place. From 4.3 on that does not count as a failed delivery.
func putBack(message amqp.Delivery) error { return message.Nack(false, true) }

const (
	consumerTag = "warren"
	// consumerPatience is how long a broker takes at most to deliver what is ready, to a consumer who is the active one.
	consumerPatience = time.Second
)

// consumeSlowly consumes one message at a time.
func consumeSlowly(channel *amqp.Channel, queue string) (<-chan amqp.Delivery, error) {
	if err := channel.Qos(1, 0, false); err != nil {
		return nil, err
	}
	var messages <-chan amqp.Delivery
	err := amqpconn.Timed("basic.consume", func() (err error) {
		messages, err = channel.Consume(queue, consumerTag, false, false, false, false, nil)
		return err
	})
	return messages, err
}

func next(ctx context.Context, messages <-chan amqp.Delivery, patience <-chan time.Time) (amqp.Delivery, bool) {
	select {
	case message, ok := <-messages:
		return message, ok
	case <-patience:
	case <-ctx.Done():
	}
	return amqp.Delivery{}, false
}

// stopConsuming puts back what was on its way.
func stopConsuming(channel *amqp.Channel, messages <-chan amqp.Delivery) error {
	err := channel.Cancel(consumerTag, false)
	for message := range messages { // the library closes it
		err = errors.Join(err, putBack(message))
	}
	return err
}
