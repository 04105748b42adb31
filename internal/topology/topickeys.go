package topology

import (
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// greedyBinding returns the first binding of a topic exchange with more than two words "#" in its key. RabbitMQ refuses such a
// key from 4.3.5 on. If the spec does not declare the exchange, its type is unknown here, and RabbitMQ itself refuses the key.
func greedyBinding(bindings []Binding, exchanges []Exchange) (Binding, bool) {
	topics := map[string]bool{"amq.topic": true}
	for _, exchange := range exchanges {
		if exchange.Declare && exchange.Type == v1alpha1.ExchangeTopic {
			topics[exchange.Name] = true
		}
	}
	for _, binding := range bindings {
		if topics[binding.Source] && hashWords(binding.RoutingKey) > 2 {
			return binding, true
		}
	}
	return Binding{}, false
}

func hashWords(key string) (count int) {
	for word := range strings.SplitSeq(key, ".") {
		if word == "#" {
			count++
		}
	}
	return count
}

// greedyKey describes why RabbitMQ refuses the key of a binding from 4.3.5 on.
func greedyKey(binding Binding) string {
	return fmt.Sprintf(`routing key %q of topic exchange %q has more than two words "#", which RabbitMQ refuses from %s on`,
		binding.RoutingKey, binding.Source, vhost.RabbitMQ435)
}

// checkTopicKeys refuses bindings that a broker of this version refuses.
func checkTopicKeys(desired Topology, version vhost.Version) error {
	binding, found := greedyBinding(desired.Bindings, desired.Exchanges)
	if !found || !version.AtLeast(vhost.RabbitMQ435) {
		return nil
	}
	return &Refusal{
		Reason:  v1alpha1.ReasonUnsupportedByBroker,
		Message: fmt.Sprintf("%s, and this broker is %s: use at most two", greedyKey(binding), version),
	}
}
