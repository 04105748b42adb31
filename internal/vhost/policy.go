package vhost

import (
	"cmp"
	"slices"
)

// Policy is a policy or operator policy, for queues, exchanges or both.
type Policy struct {
	Name    string
	Pattern Pattern
	// Priority is any number: RabbitMQ 3.10, 4.0 and 4.3 also store fractions. Two integers above 2^53 can become equal.
	Priority float64
	// ApplyTo is RabbitMQ's apply-to: all, queues, quorum_queues, exchanges and the like.
	ApplyTo    string
	Operator   bool
	Definition Arguments
}

// PoliciesOf returns the policy (or operator policy) that applies to a queue, and the policies that may apply instead, by priority. A
// policy may apply instead if Warren cannot decide whether it matches, or if it has the same priority and another definition. RabbitMQ
// applies one policy to a queue: the match with the highest priority. Between equal priorities, its choice is not defined (RabbitMQ
// documentation, "Policies").
func PoliciesOf(queue, queueType string, policies []Policy, operator bool) (effective *Policy, possible []*Policy) {
	for i := range policies {
		policy := &policies[i]
		if policy.Operator != operator || effective != nil && policy.Priority < effective.Priority {
			continue
		}
		match := policy.Match(queue, queueType)
		if match != MatchNo {
			possible = append(possible, policy)
		}
		if match == MatchYes && (effective == nil || policy.Outranks(effective)) {
			effective = policy
		}
	}
	if effective != nil {
		possible = slices.DeleteFunc(possible, func(p *Policy) bool {
			return p.Priority < effective.Priority || p.Definition.Equal(effective.Definition)
		})
	}
	slices.SortStableFunc(possible, func(a, b *Policy) int { return cmp.Compare(b.Priority, a.Priority) })
	return effective, possible
}

// PossibleDefinitions returns the definitions of the policies, or operator policies, that RabbitMQ may apply to a quorum queue. It applies
// one of them. The definition of the effective policy is the first; see PoliciesOf. A nil definition means that RabbitMQ may apply no
// policy.
func PossibleDefinitions(queue string, policies []Policy, operator bool) (definitions []Arguments) {
	effective, possible := PoliciesOf(queue, TypeQuorum, policies, operator)
	if effective != nil {
		definitions = append(definitions, effective.Definition)
	}
	for _, policy := range possible {
		definitions = append(definitions, policy.Definition)
	}
	if effective == nil {
		definitions = append(definitions, nil)
	}
	return definitions
}

// Outranks reports whether the policy wins over another one that also matches. Between equal priorities, Warren prefers the lower name.
func (p *Policy) Outranks(other *Policy) bool {
	return cmp.Or(cmp.Compare(p.Priority, other.Priority), cmp.Compare(other.Name, p.Name)) > 0
}

// Match reports whether the policy applies to a queue with this name and type.
func (p *Policy) Match(queue, queueType string) Match {
	applies := p.ApplyTo == "" || p.ApplyTo == "all" || p.ApplyTo == "queues" || p.ApplyTo == appliesToTypes[queueType]
	if !applies || queueType == TypeQuorum && p.hasAny(unsupportedByQuorum) {
		return MatchNo
	}
	match := p.Pattern.Match(queue)
	if match == MatchYes && queueType == TypeClassic && p.hasAny(uncertainForClassic) {
		return MatchUnknown
	}
	return match
}

// uncertainForClassic are keys that classic queues of some versions do not support. Warren declares no classic queue, but moves dead
// letters to one.
var uncertainForClassic = []string{
	"delivery-limit", "dead-letter-strategy", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size", "queue-leader-locator",
	"max-in-memory-length", "max-in-memory-bytes", "target-group-size",
}

// unsupportedByQuorum are the keys that no quorum queue supports: RabbitMQ applies no part of a policy or operator policy that has one of
// them, and the match with the next priority applies (measured on 3.10.8, 4.0.5 and 4.3.6). The list is unsupported_policies in
// rabbit_quorum_queue of 4.3.6. Each version refuses keys that it does not know.
var unsupportedByQuorum = []string{
	"max-priority", "queue-mode", "ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure",
	"queue-master-locator", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size", "selector-fields",
	"selector-field-max-bytes",
}

func (p *Policy) hasAny(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		_, set := p.Definition[key]
		return set
	})
}

// appliesToTypes has the value of apply-to for queues of one type.
var appliesToTypes = map[string]string{"quorum": "quorum_queues", "classic": "classic_queues", "stream": "streams"}
