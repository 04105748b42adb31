package rabbit

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/test/brokers"
)

func TestDeleteEmpty(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		for _, name := range []string{"orders.retry", "orders", "orders.dlq"} {
			vhost.DeclareQueue(name, quorum(nil))
		}
		connection := connected(t, configOf(vhost), nil)
		begun := time.Now()
		err := connection.DeleteEmpty(t.Context(), connection.Health().ClusterName, []string{"orders.retry", "none", "orders", "orders.dlq"})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(begun))
		if queues := vhost.Definitions().Queues; len(queues) != 0 {
			t.Errorf("left: %+v", queues)
		}
		mustAgree(t, connection)
	})
}
