package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// shadowed lists what policies change about our queues.
func shadowed(desired Topology, policies []Policy) []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range desired.Queues {
		for _, operator := range []bool{false, true} {
			effective, possible := policiesOf(queue, policies, operator)
			for _, policy := range possible {
				advisories = append(advisories, policy.shadows(queue, MatchUnknown)...)
			}
			if effective != nil {
				advisories = append(advisories, effective.shadows(queue, MatchYes)...)
			}
		}
	}
	return advisories
}

// policiesOf is the policy (or operator policy) that holds for a queue, and those that would hold instead if they match,
// which Warren cannot tell. One policy holds for a queue: of those that match its name, one with the highest priority
// (RabbitMQ documentation, "Policies").
func policiesOf(queue Queue, policies []Policy, operator bool) (effective *Policy, possible []*Policy) {
	for i := range policies {
		policy := &policies[i]
		if policy.Operator != operator || effective != nil && !policy.outranks(effective) {
			continue
		}
		switch policy.Match(queue.Name, queueTypeQuorum) {
		case MatchYes:
			effective = policy
		case MatchUnknown:
			possible = append(possible, policy)
		}
	}
	if effective != nil {
		possible = slices.DeleteFunc(possible, func(p *Policy) bool { return !p.outranks(effective) })
	}
	return effective, possible
}

func (p *Policy) outranks(other *Policy) bool {
	return cmp.Or(cmp.Compare(p.Priority, other.Priority), cmp.Compare(other.Name, p.Name)) > 0
}

// Match says whether the policy applies to a queue of this name and type.
func (p *Policy) Match(queue, queueType string) Match {
	applies := p.ApplyTo == "" || p.ApplyTo == "all" || p.ApplyTo == "queues" || p.ApplyTo == appliesToTypes[queueType]
	if !applies {
		return MatchNo
	}
	return p.Pattern.Match(queue)
}

// appliesToTypes are the values of apply-to that mean queues of one type.
var appliesToTypes = map[string]string{"quorum": "quorum_queues", "classic": "classic_queues", "stream": "streams"}

// policyKey is a policy key that changes what a queue does, and how it and the queue's argument combine.
type policyKey struct {
	key, argument string
	// wins says whether the policy's value comes into effect; the argument is nil where the queue has none.
	wins func(policy, argument any) bool
	risk string
}

// argExpires is an argument that no spec may set.
const argExpires = "x-expires"

// policyKeys: for dead-letter keys the argument wins, for overflow the policy, and of limits the lower one (RabbitMQ
// documentation; overflow and delivery-limit were measured).
var policyKeys = []policyKey{
	{"dead-letter-exchange", ArgDeadLetterExchange, ifAbsent, "messages go where this ConsumerQueue does not send them"},
	{"dead-letter-routing-key", ArgDeadLetterRoutingKey, ifAbsent, "messages go where this ConsumerQueue does not send them"},
	{"dead-letter-strategy", ArgDeadLetterStrategy, ifAbsent, "messages are dead-lettered in another way than asked for"},
	{"delivery-limit", ArgDeliveryLimit, ifLower, "messages can be dropped or dead-lettered early"},
	{"expires", argExpires, always, "the broker deletes the queue with its messages when nobody has used it for that long"},
	{"max-length", ArgMaxLength, ifLower, "messages can be dropped or refused early"},
	{"max-length-bytes", ArgMaxLengthBytes, ifLower, "messages can be dropped or refused early"},
	{"message-ttl", ArgMessageTTL, ifLower, "messages expire early"},
	{"overflow", ArgOverflow, ifOther, "messages can be dropped instead of refused, or the other way round"},
}

func always(_, _ any) bool              { return true }
func ifAbsent(_, argument any) bool     { return argument == nil }
func ifOther(policy, argument any) bool { return !sameValue(policy, argument) }

func ifLower(policy, argument any) bool {
	limit, isNumber := normalValue(policy).(int64)
	own, isSet := normalValue(argument).(int64)
	return isNumber && limit >= 0 && (!isSet || own < 0 || limit < own)
}

// shadows lists what a policy changes about a queue if it matches.
func (p *Policy) shadows(queue Queue, match Match) []v1alpha1.Advisory {
	subject := fmt.Sprintf("policy %q", p.Name)
	if p.Operator {
		subject = "operator " + subject
	}
	if match == MatchUnknown {
		subject += " may apply (Warren cannot tell whether its pattern matches): it"
	}
	var advisories []v1alpha1.Advisory
	for _, known := range policyKeys {
		value, set := p.Definition[known.key]
		own := queue.Arguments[known.argument]
		if !set || !known.wins(value, own) {
			continue
		}
		risk := known.risk
		if queue.Role == v1alpha1.RoleDeadLetter && known.key != "dead-letter-exchange" && known.key != "expires" {
			risk = "dead letters can be lost"
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryShadowedByPolicy, Name: queue.Name,
			Message: fmt.Sprintf("%s sets %s %s over the queue's %s: %s",
				subject, known.key, display(value), ownValue(known.key, own), risk),
		})
	}
	return advisories
}

func ownValue(key string, value any) string {
	switch {
	case value == nil && key == "overflow":
		return "default"
	case value == nil:
		return "none"
	case key == "delivery-limit" && sameValue(value, unlimitedDeliveries):
		return "unlimited"
	}
	return display(value)
}
