package plan

import (
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// MayLimitDeliveries says whether the broker may drop messages of a queue, or dead-letter them, because they were delivered and given
// back too often. A policy of which Warren cannot tell whether it matches counts.
func MayLimitDeliveries(name string, queue vhost.Queue, policies []vhost.Policy, version vhost.Version) bool {
	if queue.Type() != vhost.TypeQuorum {
		return false
	}
	// Before RabbitMQ 4.0 there is no limit unless one is set, and a negative one is exceeded at once. From 4.0 on there is one unless a
	// negative one is set.
	limits := func(value int64) bool { return value >= 0 || !version.AtLeast(vhost.RabbitMQ40) }
	own, isSet := vhost.Normal(queue.Arguments[vhost.ArgDeliveryLimit]).(int64)
	limited := isSet && limits(own)
	unlimited := isSet && !limits(own) || !isSet && !version.AtLeast(vhost.RabbitMQ40)
	for _, operator := range []bool{false, true} {
		effective, possible := policiesOf(topology.Queue{Name: name}, policies, operator)
		if effective != nil {
			possible = append(possible, effective)
		}
		for _, policy := range possible {
			value, set := vhost.Normal(policy.Definition[vhost.KeyDeliveryLimit]).(int64)
			limited = limited || set && limits(value)
			unlimited = unlimited || set && policy == effective && !limits(value)
		}
	}
	return limited || !unlimited
}
