package rabbit_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A user with the permission to bind can make RabbitMQ's management API fail, because it cannot show an argument whose name is not UTF-8. Then no object
// counts as deleted.
func TestABindingThatTheBrokerCannotShow(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		lesser := vh.Broker.NewUser(t, "management")
		vh.Grant(lesser, ".*", ".*", ".*")
		config := rabbittest.ConfigOf(vh)
		config.Username, config.Password = lesser.Username, lesser.Password
		ways := map[string]*rabbittest.Connection{"definitions": rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil), "listings": rabbittest.Connected(t, config, nil)}

		unreadable := map[string]any{"\xff": "x"}
		vh.Bind("amq.headers", "orders", "", unreadable)
		names := vhost.Selection{Queues: []string{"orders"}}
		for way, connection := range ways {
			for range 2 { // an object that two refreshes miss counts as deleted
				if err := connection.Refresh(t.Context()); err != nil && !errors.Is(err, brokererr.ErrUnreachable) {
					t.Errorf("%s: %v", way, err)
				}
			}
			observed, known := connection.Observe(names)
			if !known || len(observed.Queues) != 1 {
				t.Errorf("%s: the queue is not observed: %v %+v", way, known, observed)
			}
		}
		vh.Unbind("amq.headers", "orders", "", unreadable)
		for way, connection := range ways {
			NewWithT(t).Expect(connection.Refresh(t.Context())).To(Succeed(), way)
		}
	})
}
