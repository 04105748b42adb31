package mover

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

// A move begins with a small prefetch, and continues with a large one on another channel. A cut connection may lose the
// acknowledgements on both channels, until the broker has processed those of the first one.
func TestCapacity(t *testing.T) {
	t.Parallel()
	first := &intakeChannel{prefetch: firstPrefetch, cancelled: true, delivered: firstPrefetch, acknowledged: firstPrefetch}
	in := &intake{channels: []*intakeChannel{first, {prefetch: maxWindow}}}
	topologytest.Equal(t, "capacity", firstPrefetch+maxWindow, in.capacity())
	first.removed = firstPrefetch
	topologytest.Equal(t, "capacity later", maxWindow, in.capacity())
}

// On a busy machine, messages can arrive in the process long before the pass takes them, while the queue has no ready messages.
func TestASourceIsNotEmptyWhileArrivedMessagesAreNotTaken(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...)
		p := consuming(t, configOf(t, vh))
		NewWithT(t).Eventually(p.connection.Unsettled).WithTimeout(within).Should(Equal(10))
		topologytest.Equal(t, "empty before the messages are taken", false, isEmpty(t, p, idleLimit))
		for range 10 {
			message := <-p.intake.current().deliveries
			p.intake.keep(&message)
		}
		NewWithT(t).Eventually(func() bool { return isEmpty(t, p, idleLimit) }).WithTimeout(within).Should(BeTrue())
	})
}

// consuming returns a pass that consumes from the source, and takes nothing.
func consuming(t *testing.T, config Config) *pass {
	t.Helper()
	connection, err := config.Dial(t.Context())
	topologytest.Equal(t, "error of the connection", nil, err)
	t.Cleanup(func() { connection.Close(answerLimit) })
	p := &pass{
		move: &move{Config: config, pace: newPace(config.Settings())}, connection: connection,
		intake: &intake{connection: connection, queue: source}, takenWhenEmpty: never,
	}
	topologytest.Equal(t, "error of the consumer", nil, p.intake.open(maxWindow))
	return p
}

// isEmpty checks the source as often as a pass does before it ends. No message has arrived for the time idle.
func isEmpty(t *testing.T, p *pass, idle time.Duration) bool {
	t.Helper()
	for range 2 {
		topologytest.Equal(t, "error of the check", nil, p.checkSource(idle))
	}
	return p.drained
}

// A connection of this move may have been cut. The broker counts its consumer, and holds its messages, until it detects the cut.
func TestASourceIsNotEmptyWhileAnotherConsumerMayReturnMessages(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		release := holding(t, vh, source, 0)
		p := consuming(t, configOf(t, vh))
		topologytest.Equal(t, "empty beside a consumer", false, isEmpty(t, p, unnoticed-1))
		isEmptyAfter := func(idle time.Duration) bool { return isEmpty(t, p, idle) }
		NewWithT(t).Eventually(isEmptyAfter).WithArguments(unnoticed).WithTimeout(within).Should(BeTrue())
		release()
		NewWithT(t).Eventually(isEmptyAfter).WithArguments(idleLimit).WithTimeout(within).Should(BeTrue())
	})
}

// RabbitMQ delivers no message through a node on which the member of the queue does not run. Another connection may lead to another node.
func TestAMoveWithoutDeliveriesContinuesOnAnotherConnection(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 2 * maxWindow // more than the first connection can hold
		vh.Publish("", source, bodies(messages)...)
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
			if frame.Connection == 1 && frame.Method == amqpmethod.BasicDeliver {
				return netfault.Hold
			}
			return netfault.Pass
		})
		var states []State
		running := start(t, vh, func(c *Config) {
			c.Dial, c.EndBelow = dialer(t, vh, proxy.URI), 1
			c.Report = func(now Progress) { states = append(states, now.State) }
		})
		NewWithT(t).Eventually(running.ended).WithTimeout(unnoticed + answerLimit + within).Should(BeClosed())
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", messages, progress.Moved)
		topologytest.Equal(t, "states", []State{Connecting, Moving, NothingDelivered, Moving}, slices.Compact(states))
	})
}

// The broker would count a delivery of each message that the move returns.
func TestAMoveThatHoldsMessagesKeepsItsConnection(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(2*maxWindow)...)
		config := configOf(t, vh)
		config.Report = func(Progress) {}
		p := consuming(t, config)
		NewWithT(t).Eventually(p.connection.Unsettled).WithTimeout(within).Should(BeNumerically(">", 0))
		p.noticeNothingDelivered(unnoticed)
		topologytest.Equal(t, "stops", false, p.stopping)
	})
}

// RabbitMQ can lose an acknowledgement right before the end of a channel, so the move first waits for an answer on the channel.
func TestNoChannelIsClosedRightAfterAnAcknowledgement(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(600)...)
		var closed, tooEarly atomic.Int32
		acknowledged := map[uint16]bool{} // channels with an acknowledgement that no answer has followed
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
			switch {
			case frame.FromBroker:
			case frame.Method == amqpmethod.BasicAck:
				acknowledged[frame.Channel] = true
			case frame.Method == amqpmethod.QueueDeclare:
				delete(acknowledged, frame.Channel)
			case frame.Method == amqpmethod.ChannelClose:
				closed.Add(1)
				if acknowledged[frame.Channel] {
					tooEarly.Add(1)
				}
			}
			return netfault.Pass
		})
		_, err := start(t, vh, func(c *Config) { c.Dial, c.Filter = dialer(t, vh, proxy.URI), toDestination{skip: odd} }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "several channels were closed", true, closed.Load() > 1)
		topologytest.Equal(t, "channels that were closed too early", 0, tooEarly.Load())
	})
}
