package plan

import (
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// MayLimitDeliveries says whether the broker may drop messages of a queue, or dead-letter them, because they were delivered and given
// back too often. A policy of which Warren cannot tell whether it matches counts.
func MayLimitDeliveries(name string, queue vhost.Queue, policies []vhost.Policy, version vhost.Version) bool {
	_, limited := settingsOf(name, queue, policies).deliveryLimit(version)
	return limited
}

// deliveryLimit is how often the broker lets a message of the queue be delivered and given back; false if there is no limit.
func (s settings) deliveryLimit(version vhost.Version) (found limit, limited bool) {
	if s.queue.Type() != vhost.TypeQuorum {
		return limit{}, false
	}
	const argument, key = vhost.ArgDeliveryLimit, vhost.KeyDeliveryLimit
	if !version.AtLeast(vhost.RabbitMQ40) {
		// There is no limit unless one is set, and a negative one is exceeded at once.
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
