package facts

import (
	"testing"

	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// RabbitMQ skips a whole policy if quorum queues do not support one of its keys, although the policy matches. The policy with the next
// priority applies. A queue of each type is named after the key.
func TestPoliciesWithKeysThatQuorumQueuesDoNotSupport(t *testing.T) {
	onEachBroker(t, func(w *world) {
		is310 := !w.version.AtLeast(vhost.RabbitMQ312)
		for key, test := range map[string]struct {
			value    any
			operator bool // an operator policy has the key
			unknown  bool // this version refuses the key
			supports bool // quorum queues support the key
		}{
			"queue-mode":                    {value: "lazy"},
			"max-age":                       {value: "1h"},
			"stream-max-segment-size-bytes": {value: 1_000_000},
			"initial-cluster-size":          {value: 1},
			"queue-master-locator":          {value: "min-masters", operator: !is310, unknown: w.version.AtLeast(vhost.RabbitMQ43)},
			"ha-mode":                       {value: "all", unknown: !is310},
			"queue-leader-locator":          {value: "client-local", supports: true},
			"message-ttl":                   {value: 600_000, supports: true},
		} {
			if test.unknown {
				continue
			}
			ofKey := brokers.Policy{Pattern: "^" + key + "$", ApplyTo: "queues", Priority: 10, Definition: map[string]any{key: test.value}}
			limit := brokers.Policy{Pattern: ofKey.Pattern, ApplyTo: "queues", Definition: map[string]any{"max-length": 1}}
			set := w.SetPolicy
			if test.operator {
				set = w.SetOperatorPolicy
			}
			set(key, ofKey)
			set("limit for "+key, limit)
			w.quorum(key)
			w.Publish("", key, "1", "2", "3")
			want := 1
			if test.supports {
				want = 3
			}
			if ready := w.Ready(key); ready != want {
				w.t.Errorf("%s: the queue holds %d messages, want %d", key, ready, want)
			}
			policy := vhost.Policy{Definition: ofKey.Definition}
			if got := policy.Match(key, vhost.TypeQuorum) == vhost.MatchYes; got != test.supports {
				w.t.Errorf("%s: Warren expects that the policy applies: %t", key, got)
			}
		}
	})
}
