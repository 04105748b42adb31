package traffic

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/test/brokers"
)

// Flow is a publisher on main queues, and a consumer on each. One in five messages fails once and takes the way through a
// delay tier, and one in fifty is given up.
type Flow struct {
	Publishers []*Publisher
	Consumers  []*Consumer
}

// StartFlow publishes in turn to main queues that exist, until the test ends or accounts for the messages. The queue of the
// tier is called like the main queue with the given text behind.
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

// FailsOnce says whether a message of a Flow fails when it comes for the first time: those whose number ends in 2 or 7.
func FailsOnce(id string) bool { return id[len(id)-1]%5 == 0 }
