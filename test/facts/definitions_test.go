package facts

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// An import of definitions succeeds, and leaves a queue with other arguments as it is.
func TestAnImportSkipsAQueueWithOtherArguments(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("orders")
		before := w.Definitions()
		w.Import(json.RawMessage(`{"queues": [{"name": "orders", "durable": true, "auto_delete": false,
			"arguments": {"x-queue-type": "quorum", "x-message-ttl": 60000}}]}`))
		if difference := cmp.Diff(before, w.Definitions()); difference != "" {
			w.t.Errorf("the import changed (-before +after):\n%s", difference)
		}
	})
}

// RabbitMQ refuses a quorum queue that is transient, exclusive or deletes itself. So each queue that Warren recreates is durable.
func TestQuorumQueuesAreDurable(t *testing.T) {
	onEachBroker(t, func(w *world) {
		for name, property := range map[string]struct{ transient, autoDelete, exclusive bool }{
			"transient": {transient: true}, "auto-delete": {autoDelete: true}, "exclusive": {exclusive: true},
		} {
			channel, err := w.connection.Channel()
			w.must(err)
			_, err = channel.QueueDeclare(name, !property.transient, property.autoDelete, property.exclusive, false,
				amqp.Table{"x-queue-type": "quorum"})
			refused := &amqp.Error{}
			if !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed {
				w.t.Errorf("a quorum queue that is %s: %v", name, err)
			}
		}
	})
}
