package safedelete_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A manager was killed before it published sentinels, and later refreshes search for them. Before RabbitMQ 4.3, each return
// of a message counts as a delivery. `make test` runs this test on the newest RabbitMQ, where returns do not count, and `make test-all`
// on every version.
func TestSearchesDoNotUseUpDeliveries(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		cases := map[string]struct {
			messages          int
			arguments, policy vhost.Arguments
		}{
			"a message":                {messages: 1},
			"three messages":           {messages: 3},
			"a single active consumer": {messages: 1, arguments: vhost.Arguments{vhost.ArgSingleActiveConsumer: true}},
			"a limit of a policy":      {messages: 3, arguments: unlimited(vh), policy: vhost.Arguments{vhost.KeyDeliveryLimit: int64(5)}},
		}
		for name, test := range cases {
			vh.DeclareQueue(name, rabbittest.Quorum(test.arguments))
			vh.DeclareQueue(name+" tier", rabbittest.Quorum(vhost.Arguments{
				vhost.ArgMessageTTL: int64(5000), vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: name,
			}))
			if test.policy != nil {
				vh.SetPolicy(name, brokers.Policy{Pattern: "^" + name + "$", ApplyTo: "queues", Definition: test.policy})
			}
			vh.Publish("", name, make([]string, test.messages)...)
			queues := []string{name + " tier", name}
			vh.SetPolicy(fence.Name{Owner: "mine", Begun: time.Now().Add(-time.Hour)}.String(name), brokers.Policy{
				Pattern: fence.Pattern(queues), ApplyTo: "queues", Priority: 1000, Definition: fence.Fence{Effective: test.policy}.Closed(),
			})
		}
		config := rabbittest.ConfigOf(vh)
		config.Owner = "mine"
		connection := rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
		for range 4 {
			if err := connection.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			NewWithT(t).Eventually(connection.Deleter.Clearing).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeFalse())
		}
		for name, test := range cases {
			rabbittest.Holds(t, vh, name, test.messages)
			for _, message := range bodies(t, vh, name) {
				used, _ := message.Headers["x-delivery-count"].(int64)
				isLimited := test.policy != nil || vh.Broker.KnowsAMQP10()
				if isLimited && used > 1 {
					t.Errorf("%s: searches used up %d deliveries of a message", name, used)
				}
			}
		}
	})
}

// unlimited returns the arguments of a queue without a delivery limit. Before 4.0, no queue has one by default.
func unlimited(vh *brokers.VHost) vhost.Arguments {
	if strings.HasPrefix(vh.Broker.Version, "3.") {
		return nil
	}
	return vhost.Arguments{vhost.ArgDeliveryLimit: int64(-1)}
}
