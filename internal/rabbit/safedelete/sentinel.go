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

// Sentinels are two messages of Warren that keep a fence closed, because a fence refuses messages while its queue holds any. Shortly before
// Warren deletes a queue, it takes the first message out. If that is the first sentinel, and no other consumer ever received it, no other
// consumer has received the second sentinel either. The fence has then been closed all the time.
const (
	Sentinels = 2

	SentinelType = "warren.sentinel"
	sentinelApp  = "warren"
	headerQueue  = "warren-queue"  // the queue that the sentinel was published to
	headerFence  = "warren-fence"  // the policy that the sentinel belongs to
	headerNumber = "warren-number" // from 1 on
	// roomForSentinels is how many bytes a queue must accept, so that the sentinels fit.
	roomForSentinels = 4096
	// sentinelPriority is the highest: a broker that supports priorities delivers sentinels first.
	sentinelPriority = 255
)

func sentinel(queue, fence string, number int) amqp.Publishing {
	return amqp.Publishing{
		Type: SentinelType, AppId: sentinelApp, DeliveryMode: amqp.Persistent, Priority: sentinelPriority,
		ContentType: "text/plain; charset=utf-8", Timestamp: time.Now(),
		Headers: amqp.Table{headerQueue: queue, headerFence: fence, headerNumber: int32(number)},
		Body: fmt.Appendf(nil, "Warren, the operator for RabbitMQ consumers, published this message to queue %q to verify that the "+
			"queue is empty before deleting it. The message means nothing to applications: acknowledge and ignore it.", queue),
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

type sentinelCounts struct {
	mu sync.Mutex
	of map[string]int // the number of sentinels, by queue
}

// count changes the number for a queue, which is never negative, and returns it.
func (t *sentinelCounts) count(queue string, change int) int {
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
	*amqpconn.Publisher

	link  *alarmedLink
	limit time.Duration // for the broker's answer
}

// publish publishes the sentinels of these numbers to a queue, and reports for each whether the queue took it. It always waits for
// the answer, because a sentinel in flight cannot be taken out.
func (p *publisher) publish(queue, fence string, numbers ...int) ([]bool, error) {
	messages := make([]amqp.Publishing, len(numbers))
	for i, number := range numbers {
		messages[i] = sentinel(queue, fence, number)
	}
	watchdog := time.AfterFunc(p.limit, p.link.Cut)
	defer watchdog.Stop()
	return p.Publish("", queue, messages...)
}

// holdLimit is how many other messages a search receives and holds to find a sentinel behind them.
const holdLimit = 64

const (
	// settling is how long a broker may take to process acknowledged and returned messages.
	settling    = 5 * time.Second
	settlePause = 5 * time.Millisecond
)

// putBack returns a message to its position in the queue. From 4.3 on this does not count as a failed delivery.
func putBack(message amqp.Delivery) error { return message.Nack(false, true) }

const (
	consumerTag = "warren"
	// consumerWait is the maximum time that a broker takes to deliver a ready message to an active consumer.
	consumerWait = time.Second
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

func next(ctx context.Context, messages <-chan amqp.Delivery, limit <-chan time.Time) (amqp.Delivery, bool) {
	select {
	case message, ok := <-messages:
		return message, ok
	case <-limit:
	case <-ctx.Done():
	}
	return amqp.Delivery{}, false
}

// stopConsuming cancels the consumer, and returns the messages that RabbitMQ delivered until then.
func stopConsuming(channel *amqp.Channel, messages <-chan amqp.Delivery) error {
	err := channel.Cancel(consumerTag, false)
	for message := range messages { // the library closes messages
		err = errors.Join(err, putBack(message))
	}
	return err
}
