package plan

import (
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// MayLimitDeliveries reports whether the broker may drop or dead-letter messages of a queue because of their number of
// deliveries. A policy that may match counts as matching.
func MayLimitDeliveries(name string, queue vhost.Queue, policies []vhost.Policy, version vhost.Version) bool {
	_, limited := settingsOf(name, queue, policies).deliveryLimit(version)
	return limited
}

// deliveryLimit returns how often the broker delivers a message of the queue; false if there is no limit.
func (s settings) deliveryLimit(version vhost.Version) (found limit, limited bool) {
	if s.queue.Type() != vhost.TypeQuorum {
		return limit{}, false
	}
	const argument, key = vhost.ArgDeliveryLimit, vhost.KeyDeliveryLimit
	if !version.AtLeast(vhost.RabbitMQ40) {
		// There is no limit by default, and a negative limit is exceeded immediately.
		return s.lowest(argument, key, func(int64) bool { return true })
	}
	// There is a limit unless a negative one is set.
	if found, limited = s.lowest(argument, key, notNegative); limited {
		return found, true
	}
	if unlimited, set := s.lowest(argument, key, negative); set && unlimited.match == vhost.MatchYes {
		return limit{}, false
	}
	return limit{value: topology.BrokerDeliveryLimit}, true
}
