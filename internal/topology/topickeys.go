package topology

import (
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// greedyBinding returns the first binding of a topic exchange with more than two words "#" in its key. RabbitMQ refuses such a
// key from 4.3.5 on. If the spec does not declare the exchange, only found has its type.
func greedyBinding(desired Topology, found map[string]vhost.Exchange) (Binding, bool) {
	topics := map[string]bool{"amq.topic": true}
	for _, exchange := range desired.Exchanges {
		declared := exchange.Declare && exchange.Type == v1alpha1.ExchangeTopic
		topics[exchange.Name] = topics[exchange.Name] || declared || found[exchange.Name].Type == string(v1alpha1.ExchangeTopic)
	}
	for _, binding := range desired.Bindings {
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

// RefusedLater returns an advisory about a binding that a broker of this version accepts and a newer version refuses. found are the
// exchanges at the broker.
func RefusedLater(desired Topology, found map[string]vhost.Exchange, version vhost.Version) []v1alpha1.Advisory {
	binding, exists := greedyBinding(desired, found)
	if !exists || version.AtLeast(vhost.RabbitMQ435) {
		return nil
	}
	return []v1alpha1.Advisory{{
		Code: v1alpha1.AdvisoryUnsupportedByNewerBroker, Name: binding.Source,
		Message: greedyKey(binding) + ": change the key before the broker is upgraded",
	}}
}

// checkTopicKeys refuses bindings that a broker of this version refuses. It skips exchanges that the spec does not declare and whose type
// is therefore unknown. RabbitMQ itself refuses such a key.
func checkTopicKeys(desired Topology, version vhost.Version) error {
	binding, found := greedyBinding(desired, nil)
	if !found || !version.AtLeast(vhost.RabbitMQ435) {
		return nil
	}
	return refuse(v1alpha1.ReasonUnsupportedByBroker, "%s, and this broker is %s: use at most two", greedyKey(binding), version)
}
