package topology

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// shadowed lists what policies change about our queues. One policy and one operator policy hold for a queue, those of
// the highest priority that match its name (RabbitMQ documentation, "Policies").
func shadowed(desired Topology, policies []Policy) []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range desired.Queues {
		for _, operator := range []bool{false, true} {
			policy, found := effectivePolicy(queue.Name, policies, operator)
			if !found {
				continue
			}
			advisories = append(advisories, policy.shadows(queue)...)
		}
	}
	return advisories
}

func effectivePolicy(queue string, policies []Policy, operator bool) (Policy, bool) {
	matching := slices.DeleteFunc(slices.Clone(policies), func(p Policy) bool {
		return p.Operator != operator || !p.Matches(queue)
	})
	if len(matching) == 0 {
		return Policy{}, false
	}
	return slices.MaxFunc(matching, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Name, a.Name))
	}), true
}

// Matches says whether the policy applies to a quorum queue of this name. A pattern that Go cannot read (the broker's
// are PCRE) matches nothing.
func (p Policy) Matches(queue string) bool {
	switch p.ApplyTo {
	case "all", "queues", "quorum_queues", "":
		pattern, err := regexp.Compile(p.Pattern)
		return err == nil && pattern.MatchString(queue)
	}
	return false
}

// policyKey is a policy key that changes what a queue does, and how it and the queue's argument combine.
type policyKey struct {
	key, argument string
	// wins says whether the policy's value comes into effect; the argument is nil where the queue has none.
	wins func(policy, argument any) bool
	risk string
}

// policyKeys: for dead-letter keys the argument wins, for overflow the policy, and of limits the lower one (RabbitMQ
// documentation; overflow and delivery-limit were measured).
var policyKeys = []policyKey{
	{"dead-letter-exchange", ArgDeadLetterExchange, ifAbsent, "messages go where this ConsumerQueue does not send them"},
	{"dead-letter-routing-key", ArgDeadLetterRoutingKey, ifAbsent, "messages go where this ConsumerQueue does not send them"},
	{"dead-letter-strategy", ArgDeadLetterStrategy, ifAbsent, "messages are dead-lettered in another way than asked for"},
	{"delivery-limit", ArgDeliveryLimit, ifLower, "messages can be dropped or dead-lettered early"},
	{"max-length", ArgMaxLength, ifLower, "messages can be dropped or refused early"},
	{"max-length-bytes", ArgMaxLengthBytes, ifLower, "messages can be dropped or refused early"},
	{"message-ttl", ArgMessageTTL, ifLower, "messages expire early"},
	{"overflow", ArgOverflow, ifOther, "messages can be dropped instead of refused, or the other way round"},
}

func ifAbsent(_, argument any) bool     { return argument == nil }
func ifOther(policy, argument any) bool { return !sameValue(policy, argument) }

func ifLower(policy, argument any) bool {
	limit, isNumber := normalValue(policy).(int64)
	own, isSet := normalValue(argument).(int64)
	return isNumber && limit >= 0 && (!isSet || own < 0 || limit < own)
}

func (p Policy) shadows(queue Queue) []v1alpha1.Advisory {
	kind := "policy"
	if p.Operator {
		kind = "operator policy"
	}
	var advisories []v1alpha1.Advisory
	for _, known := range policyKeys {
		value, set := p.Definition[known.key]
		own := queue.Arguments[known.argument]
		if !set || !known.wins(value, own) {
			continue
		}
		risk := known.risk
		if queue.Role == v1alpha1.RoleDeadLetter && known.key != "dead-letter-exchange" {
			risk = "dead letters can be lost"
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryShadowedByPolicy, Name: queue.Name,
			Message: fmt.Sprintf("%s %q sets %s %s over the queue's %s: %s",
				kind, p.Name, known.key, display(value), ownValue(known.key, own), risk),
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
