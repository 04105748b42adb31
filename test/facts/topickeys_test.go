package facts

import (
	"testing"

	"github.com/warren-mq/warren/internal/vhost"
)

// A topic key with more than two words "#" is refused from RabbitMQ 4.3.5 on, and accepted before.
func TestTopicKeysWithManyHashWords(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("orders")
		for key, refused := range map[string]bool{
			"#.a.#": false, "#.a#.#b.#": false, "#.a.#.b.#": w.version.AtLeast(vhost.RabbitMQ435),
		} {
			channel, err := w.connection.Channel()
			w.must(err)
			err = channel.QueueBind("orders", key, "amq.topic", false, nil)
			w.equal("refuses "+key, err != nil, refused)
			_ = channel.Close()
		}
	})
}
