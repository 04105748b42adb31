package rabbit

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/brokers"
)

// Messages are counted where that is asked for, of each queue that there is.
func TestMessagesAreCounted(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config := configOf(vh)
		silent := connected(t, config, nil)
		config.MessageCountsInterval, config.ResyncInterval = time.Second, time.Second
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		vh.DeclareQueue("empty", map[string]any{"x-queue-type": "quorum"})
		vh.Publish("", "orders", "first", "second")
		connection := connected(t, config, nil)
		messages := func(queue string) string {
			count, known := connection.Messages(queue)
			return fmt.Sprint(count, known)
		}
		NewWithT(t).Eventually(func() string { return messages("orders") }).WithTimeout(within).Should(Equal("2 true"))
		topologytest.Equal(t, "a queue that is empty", "0 true", messages("empty"))
		topologytest.Equal(t, "a queue that is not there", "0 false", messages("other"))
		_, known := silent.Messages("orders")
		topologytest.Equal(t, "known where nobody asks", false, known)
	})
}

// A fence that nobody knows is told of by every connection, with its age.
func TestStats(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		connection := connected(t, configOf(vh), nil)
		topologytest.Equal(t, "up", []bool{true, true}, []bool{connection.Stats().AMQPUp, connection.Stats().ManagementUp})
		topologytest.Equal(t, "queues", 1, connection.Stats().Size.Queues)
		topologytest.Equal(t, "fences", 0, connection.Stats().Fences)
		begun := time.Unix(time.Now().Unix()-120, 0)
		vh.SetPolicy(fmt.Sprintf("warren-fence-%d-ABCDEF:someone:none", begun.Unix()), brokers.Policy{
			Pattern: "^none$", ApplyTo: "queues", Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
		})
		seen(t, connection)
		topologytest.Equal(t, "fences", 1, connection.Stats().Fences)
		topologytest.Equal(t, "since", begun, connection.Stats().Oldest)
	})
}
