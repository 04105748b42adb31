package vhost

import "cmp"

// Policy is a policy or operator policy that applies to queues.
type Policy struct {
	Name     string
	Pattern  Pattern
	Priority int
	// ApplyTo is RabbitMQ's apply-to: all, queues, quorum_queues, exchanges and the like.
	ApplyTo    string
	Operator   bool
	Definition Arguments
}

// Outranks reports whether the policy wins over another one that also matches. RabbitMQ applies only one policy to a queue: the
// match with the highest priority (RabbitMQ documentation, "Policies"). Between equal priorities, the lower name wins here.
func (p *Policy) Outranks(other *Policy) bool {
	return cmp.Or(cmp.Compare(p.Priority, other.Priority), cmp.Compare(other.Name, p.Name)) > 0
}

// Match reports whether the policy applies to a queue of this name and type.
func (p *Policy) Match(queue, queueType string) Match {
	applies := p.ApplyTo == "" || p.ApplyTo == "all" || p.ApplyTo == "queues" || p.ApplyTo == appliesToTypes[queueType]
	if !applies {
		return MatchNo
	}
	return p.Pattern.Match(queue)
}

// appliesToTypes has the value of apply-to for queues of one type.
var appliesToTypes = map[string]string{"quorum": "quorum_queues", "classic": "classic_queues", "stream": "streams"}
