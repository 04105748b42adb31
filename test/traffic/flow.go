package traffic

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/test/brokers"
)

// Flow is a publisher to main queues and a consumer for each. One in five messages fails once and waits in a delay tier, and one
// in fifty is dead-lettered.
type Flow struct {
	Publishers []*Publisher
	Consumers  []*Consumer
}

// StartFlow publishes to existing main queues until the test ends or accounts for the messages. The name of a tier's queue is the
// name of the main queue with the suffix tier.
func StartFlow(tb testing.TB, vhost *brokers.VHost, tier string, queues ...string) *Flow {
	tb.Helper()
	f := &Flow{}
	targets := make([]Target, len(queues))
	for i, queue := range queues {
		targets[i] = ToQueue(queue)
		again := Retry(ToQueue(queue + tier))
		f.Consumers = append(f.Consumers, Consume(tb, vhost, queue, func(d Delivery) Action {
			switch last := d.ID[len(d.ID)-1]; {
			case last == '7' && d.ID[len(d.ID)-2]%5 == 0:
				return Reject
			case FailsOnce(d.ID) && d.Attempt == 1:
				return again
			}
			return Ack
		}))
	}
	f.Publishers = []*Publisher{Publish(tb, vhost, Publishing{Targets: targets, Every: 40 * time.Millisecond, Retry: true})}
	return f
}

// FailsOnce reports whether a message of a Flow fails on its first delivery. Those are the numbers that end in 2 or 7.
func FailsOnce(id string) bool { return id[len(id)-1]%5 == 0 }
