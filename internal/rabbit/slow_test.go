package rabbit_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

func queues(prefix string, count int) topology.Topology {
	many := topology.Topology{}
	for i := range count {
		many.Queues = append(many.Queues, topology.Queue{Name: fmt.Sprint(prefix, i), Arguments: rabbittest.Quorum(nil)})
	}
	return many
}

func operationLimit(connection *rabbittest.Connection) func() int {
	return func() int { return connection.Stats().OperationLimit }
}

// If the broker needs half a second for each declaration, sixteen at a time exceed the timeout of an operation, which ends the connection.
// Fewer at a time succeed.
func TestSlowBroker(t *testing.T) {
	deadline.InTestAll(t)
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.ConfigOf(vh)
		slow := netfault.NewSlowAMQP(t, config.AMQPURI)
		config.AMQPURI = slow.URI
		impatient := rabbittest.Unpaced()
		impatient.Operation = 5 * time.Second
		connection := rabbittest.ConnectedWith(t, config, impatient)
		if err := connection.Apply(t.Context(), queues("before", 4)); err != nil {
			t.Fatal(err)
		}
		slow.Pause(500 * time.Millisecond)
		rabbittest.MustBe(t, connection.Apply(t.Context(), queues("many", 16)), brokererr.ErrTimeout)
		g := NewWithT(t)
		g.Eventually(func() error { return connection.Apply(t.Context(), queues("many", 16)) }).WithTimeout(rabbittest.Within).Should(Succeed())

		reconnects := connection.Stats().Reconnects
		if err := connection.Apply(t.Context(), queues("more", 16)); err != nil {
			t.Error(err)
		}
		if now := connection.Stats(); now.OperationLimit > 4 || now.Reconnects != reconnects {
			t.Errorf("the limit for the slow broker is %d, and %d connections were lost", now.OperationLimit, now.Reconnects-reconnects)
		}
		slow.Pause(0)
		g.Eventually(func() int {
			g.Expect(connection.Apply(t.Context(), queues("more", 16))).To(Succeed())
			return connection.Stats().OperationLimit
		}).WithTimeout(rabbittest.Within).WithPolling(time.Millisecond).Should(Equal(16))
	})
}

// Under an alarm the broker blocks each connection that publishes, and stops reading from it. Warren publishes on a separate connection.
// This test publishes on the connection of declarations.
func TestBlockedConnection(t *testing.T) {
	deadline.InTestAll(t)
	t.Parallel()
	private := brokers.NewPrivate(t)
	vh := private.Broker.NewVHost(t)
	patience, haste := rabbittest.Unpaced(), rabbittest.Unpaced()
	patience.Operation, haste.Operation = time.Hour, time.Second // until the end of the alarm, however busy the machine is
	patient, hasty := rabbittest.ConnectedWith(t, rabbittest.ConfigOf(vh), patience), rabbittest.ConnectedWith(t, rabbittest.ConfigOf(vh), haste)
	link := patient.Channels.Link

	private.SetAlarm()
	for _, connection := range []*rabbittest.Connection{patient, hasty} {
		if err := connection.Channels.Do(t.Context(), func(channel *amqp.Channel) error {
			return channel.PublishWithContext(t.Context(), "", "nowhere", false, false, amqp.Publishing{})
		}); err != nil {
			t.Fatal(err)
		}
	}
	g := NewWithT(t)
	g.Eventually(operationLimit(patient)).WithTimeout(rabbittest.Within).Should(Equal(1))
	applied := make(chan error, 1)
	go func() { applied <- patient.Apply(t.Context(), queues("patient", 4)) }()

	// Warren closes a connection on which the broker does not answer. The broker does not block the next one, because nothing was published
	// on it.
	g.Eventually(func() error { return hasty.Apply(t.Context(), queues("hasty", 4)) }).WithTimeout(rabbittest.Within).Should(Succeed())
	g.Eventually(operationLimit(hasty)).WithTimeout(rabbittest.Within).Should(Equal(16))

	select {
	case err := <-applied:
		t.Errorf("declared on a connection that is blocked: %v", err)
	default:
	}
	private.ClearAlarm()
	if err := <-applied; err != nil {
		t.Error(err)
	}
	g.Eventually(operationLimit(patient)).WithTimeout(rabbittest.Within).Should(Equal(16))
	if patient.Channels.Link != link {
		t.Error("the AMQP connection was lost")
	}
}
