package recreate_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// during is called while a move examines a message.
type during func()

func (d during) Skips(*amqp.Delivery, int64) string {
	d()
	return ""
}

// Messages of a Redrive to the queue would count as messages that came past the bindings.
func TestAQueueIsBusyDuringAMoveFromItAndToIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to string
		reason   recreate.Reason
	}{
		"from the queue": {"orders", "other", recreate.QueueBusy},
		"to the queue":   {"orders.dlq", "orders", recreate.QueueBusy},
		"to another one": {"orders.dlq", "other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				for _, queue := range []string{"orders.dlq", "other"} {
					vh.DeclareQueue(queue, rabbittest.Quorum(nil))
				}
				vh.Publish("", test.from, "1")
				connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
				cluster := connection.Health().Cluster.Key()
				var reason recreate.Reason
				check := func() {
					err := connection.Recreator(cluster).Check(t.Context(), recreation(t, vh, nil).record.Recreation)
					if reason = recreate.ReasonOf(err); reason == "" && err != nil {
						t.Error(err)
					}
				}
				_, err := connection.Move(t.Context(), cluster, mover.Config{
					Queue: test.from, Destination: test.to, Filter: during(check), Total: 1, MaxFailures: 1, DryRun: true,
					Settings: func() mover.Settings { return mover.Settings{MaxDepth: -1} }, Report: func(mover.Progress) {},
				})
				topologytest.Equal(t, "error of the move", nil, err)
				topologytest.Equal(t, "reason during the move", test.reason, reason)
				check()
				topologytest.Equal(t, "reason after the move", "", reason)
			})
		})
	}
}
