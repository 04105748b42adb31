package rabbit

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

func queues(prefix string, count int) topology.Topology {
	many := topology.Topology{}
	for i := range count {
		many.Queues = append(many.Queues, topology.Queue{Name: fmt.Sprint(prefix, i), Arguments: quorum(nil)})
	}
	return many
}

func operationLimit(connection *Connection) func() int {
	return func() int { return connection.Stats().OperationLimit }
}

// If the broker needs a fifth of a second for each declaration, sixteen at a time exceed the timeout of one, and end the connection each
// time. Fewer at a time succeed.
func TestSlowBroker(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config := configOf(vh)
		slow := netfault.NewSlowAMQP(t, config.AMQPURI)
		config.AMQPURI = slow.URI
		impatient := unpaced()
		impatient.Operation = 2 * time.Second
		connection := connectedWith(t, config, impatient)
		if err := connection.Apply(t.Context(), queues("before", 4)); err != nil {
			t.Fatal(err)
		}
		slow.Pause(200 * time.Millisecond)
		mustBe(t, connection.Apply(t.Context(), queues("many", 16)), brokererr.ErrTimeout)
		g := NewWithT(t)
		g.Eventually(func() error { return connection.Apply(t.Context(), queues("many", 16)) }).WithTimeout(within).Should(Succeed())

		reconnects := connection.Stats().Reconnects
		if err := connection.Apply(t.Context(), queues("more", 16)); err != nil {
			t.Error(err)
		}
		if now := connection.Stats(); now.OperationLimit > 4 || now.Reconnects != reconnects {
			t.Errorf("of a slow broker, the limit is %d, and %d connections were lost", now.OperationLimit, now.Reconnects-reconnects)
		}
		slow.Pause(0)
		g.Eventually(func() int {
			g.Expect(connection.Apply(t.Context(), queues("more", 16))).To(Succeed())
			return connection.Stats().OperationLimit
		}).WithTimeout(within).WithPolling(time.Millisecond).Should(Equal(16))
	})
}

// Under an alarm the broker blocks each connection that publishes, and stops reading from it. Warren publishes on a separate connection.
// This test publishes on the connection of declarations.
func TestBlockedConnection(t *testing.T) {
	t.Parallel()
	private := brokers.NewPrivate(t)
	vh := private.Broker.NewVHost(t)
	patience, haste := unpaced(), unpaced()
	patience.Operation, haste.Operation = time.Hour, time.Second // until the end of the alarm, however busy the machine is
	patient, hasty := connectedWith(t, configOf(vh), patience), connectedWith(t, configOf(vh), haste)
	link := patient.channels.Link

	private.Eval(setAlarm)
	for _, connection := range []*Connection{patient, hasty} {
		if err := connection.channels.Do(t.Context(), func(channel *amqp.Channel) error {
			return channel.PublishWithContext(t.Context(), "", "nowhere", false, false, amqp.Publishing{})
		}); err != nil {
			t.Fatal(err)
		}
	}
	g := NewWithT(t)
	g.Eventually(operationLimit(patient)).WithTimeout(within).Should(Equal(1))
	applied := make(chan error, 1)
	go func() { applied <- patient.Apply(t.Context(), queues("patient", 4)) }()

	// A connection that is closed because the broker does not answer is followed by one on which nothing was published.
	g.Eventually(func() error { return hasty.Apply(t.Context(), queues("hasty", 4)) }).WithTimeout(within).Should(Succeed())
	g.Eventually(operationLimit(hasty)).WithTimeout(within).Should(Equal(16))

	select {
	case err := <-applied:
		t.Errorf("declared on a connection that is blocked: %v", err)
	default:
	}
	private.Eval(clearAlarm)
	if err := <-applied; err != nil {
		t.Error(err)
	}
	g.Eventually(operationLimit(patient)).WithTimeout(within).Should(Equal(16))
	if patient.channels.Link != link {
		t.Error("the AMQP connection was lost")
	}
}
