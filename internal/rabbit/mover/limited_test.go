package mover

import (
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// limitedQueue declares the source with a delivery limit of zero: the broker deletes each message that a consumer returns.
func limitedQueue(vh *brokers.VHost) {
	vh.DeleteQueue(source)
	vh.DeclareQueue(source, quorum(vh, map[string]any{"x-delivery-limit": 0}))
}

// A move that is stopped while the destination is busy moves its current message, even beyond the depth limit, rather than
// return it.
func TestLimitedSourceAndBusyDestination(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		limitedQueue(vh)
		vh.Publish("", source, bodies(10)...)
		running := start(t, vh, func(c *Config) {
			c.DeliveryLimited, c.Settings = true, func() Settings { return Settings{MaxDepth: 3} }
		})
		running.awaits(DestinationBusy)
		holdsNext := func(progress Progress) bool { return progress.Moved == 3 && progress.Held == 1 }
		NewWithT(t).Eventually(running.Progress).WithTimeout(within).Should(Satisfy(holdsNext))
		running.Stop()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 3+1, progress.Moved)
		topologytest.Equal(t, "destination", bodies(progress.Moved), drained(t, vh, destination, progress.Moved))
		topologytest.Equal(t, "source", bodies(10)[progress.Moved:], drained(t, vh, source, 10-progress.Moved))
	})
}

// A move that is stopped while it holds no message moves at most the message that it is getting.
func TestLimitedSourceIsStoppedBetweenTwoMessages(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		limitedQueue(vh)
		vh.Publish("", source, bodies(3)...)
		running := start(t, vh, func(c *Config) {
			c.DeliveryLimited, c.Total, c.Settings = true, 13, func() Settings { return Settings{Rate: 20, MaxDepth: -1} }
		})
		NewWithT(t).Eventually(func() int { return running.Progress().Moved }).WithTimeout(within).Should(Equal(3))
		running.Stop()
		vh.Publish("", source, bodies(10)...)
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved at most the next message", true, progress.Moved <= 3+1)
		holds(t, vh, destination, progress.Moved)
		holds(t, vh, source, 3+10-progress.Moved)
	})
}

// With a delivery limit of zero, a queue deletes each returned message.
func TestLimitedSource(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		limitedQueue(vh)
		vh.Publish("", source, bodies(200)...)
		limited := func(rate, total int) func(*Config) {
			return func(c *Config) {
				c.DeliveryLimited, c.Total, c.Settings = true, total, func() Settings { return Settings{Rate: rate, MaxDepth: -1} }
			}
		}
		running := start(t, vh, limited(20, 150)) // so slowly that it is stopped before its end, however busy the machine is
		NewWithT(t).Eventually(func() int { return running.Progress().Moved }).WithTimeout(within).Should(BeNumerically(">", 20))
		running.Stop()
		stopped, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		holds(t, vh, destination, stopped.Moved)
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(200 - stopped.Moved))

		rest := 150 - stopped.Moved
		progress, err := start(t, vh, limited(0, rest)).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", rest, progress.Moved)
		topologytest.Equal(t, "destination", bodies(150), drained(t, vh, destination, 150))
		topologytest.Equal(t, "source", bodies(200)[150:], drained(t, vh, source, 50))
	})
}

// A move that has reached its maximum for now takes no other message.
func TestLimitedSourceAtTheMaximumForNow(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		limitedQueue(vh)
		vh.Publish("", source, bodies(10)...)
		running := start(t, vh, func(c *Config) {
			c.DeliveryLimited, c.Settings = true, func() Settings { return Settings{MaxDepth: -1, MaxMoved: 3} }
		})
		holds(t, vh, destination, 3)
		holds(t, vh, source, 10-3)
		running.Stop()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 3, progress.Moved)
		holds(t, vh, source, 10-3)
	})
}

func TestLimitedSourceAtTheLimit(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		limitedQueue(vh)
		vh.Publish("", source, bodies(10)...)
		progress, err := start(t, vh, func(c *Config) { c.DeliveryLimited, c.Limit = true, 3 }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 3, progress.Moved)
		holds(t, vh, destination, 3)
		holds(t, vh, source, 10-3)
	})
}

// Messages arrive while the move of an empty queue ends.
func TestLimitedSourceThatIsEmpty(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		limitedQueue(vh)
		vh.Publish("", source, bodies(3)...)
		var late atomic.Int32
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
			if frame.Method == amqpmethod.QueueDeclareOK && late.Add(1) <= 4 { // a count of zero messages
				vh.Publish("", source, "late")
			}
			return netfault.Pass
		})
		progress, err := start(t, vh, func(c *Config) { c.DeliveryLimited, c.Total, c.Dial = true, 60, dialer(t, vh, proxy.URI) }).Wait()
		topologytest.Equal(t, "error", nil, err)
		holds(t, vh, destination, progress.Moved)
		holds(t, vh, source, 3+min(4, int(late.Load()))-progress.Moved)
	})
}

// A limited move holds a message that cannot be moved, and moves the others. It does not sweep the queue to keep the order, because the
// queue counts each return.
func TestLimitedSourceWithAnUnroutableMessage(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(5)...)
		redeliver(t, vh, source, 5) // a sweep would end at a message that is delivered for the first time
		holds(t, vh, source, 5)
		var consumers atomic.Int32
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
			if frame.Method == amqpmethod.BasicConsume {
				consumers.Add(1)
			}
			return netfault.Pass
		})
		progress, err := start(t, vh, func(c *Config) {
			c.DeliveryLimited, c.Total, c.Destination, c.Copier = true, 3, "", toOthers{"0": "missing"}
			c.Dial = dialer(t, vh, proxy.URI)
		}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 2, progress.Moved)
		topologytest.Equal(t, "consumers", 0, consumers.Load())
		topologytest.Equal(t, "source", []string{"0", "3", "4"}, sorted(drained(t, vh, source, 3)))
	})
}
