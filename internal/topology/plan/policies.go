package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// shadowed returns advisories for policies that change the behaviour of queues of the topology.
func shadowed(desired topology.Topology, policies []vhost.Policy) []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range desired.Queues {
		for _, operator := range []bool{false, true} {
			effective, possible := vhost.PoliciesOf(queue.Name, vhost.TypeQuorum, policies, operator)
			for _, policy := range possible {
				advisories = append(advisories, shadows(policy, queue, vhost.MatchUnknown)...)
			}
			if effective != nil {
				advisories = append(advisories, shadows(effective, queue, vhost.MatchYes)...)
			}
		}
	}
	return advisories
}

// policyRows are the arguments that a policy can override, sorted by the policy's key.
var policyRows = func() []topology.Argument {
	rows := slices.Clone(topology.FreeArguments)
	for _, row := range topology.ArgumentTable {
		if row.PolicyKey != "" {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b topology.Argument) int { return cmp.Compare(a.PolicyKey, b.PolicyKey) })
	return rows
}()

const (
	otherDelay    = "returned messages are redelivered immediately, or later than specified"
	requeuedEarly = "RabbitMQ requeues the messages of %s early, so they can be processed twice"
	addedMembers  = "RabbitMQ adds members to the queue, which copies all its messages"
)

// risks describes the effect of a policy that overrides an argument.
var risks = map[string]string{
	vhost.KeyConsumerTimeout:      fmt.Sprintf(requeuedEarly, "consumers"),
	vhost.KeyDisconnectedTimeout:  fmt.Sprintf(requeuedEarly, "unreachable consumers"),
	vhost.KeyDelayedRetryMax:      otherDelay,
	vhost.KeyDelayedRetryMin:      otherDelay,
	vhost.KeyDelayedRetryType:     otherDelay,
	vhost.KeyTargetGroupSize:      addedMembers,
	vhost.KeyDeadLetterExchange:   "dead letters go to another destination than this ConsumerQueue specifies",
	vhost.KeyDeadLetterRoutingKey: "dead letters go to another destination than this ConsumerQueue specifies",
	vhost.KeyDeadLetterStrategy:   "messages are dead-lettered differently than specified",
	vhost.KeyDeliveryLimit:        "messages can be dropped or dead-lettered early",
	vhost.KeyExpires:              "the broker deletes the queue with its messages after this time without use",
	vhost.KeyMaxLength:            "messages can be dropped or refused early",
	vhost.KeyMaxLengthBytes:       "messages can be dropped or refused early",
	vhost.KeyMessageTTL:           "messages expire early",
	vhost.KeyOverflow:             "messages can be dropped instead of refused, or refused instead of dropped",
}

// losesDeadLetters are the keys with which a policy for a dead-letter queue can lose dead letters.
var losesDeadLetters = []string{
	vhost.KeyDeadLetterRoutingKey, vhost.KeyDeadLetterStrategy, vhost.KeyDeliveryLimit, vhost.KeyMaxLength, vhost.KeyMaxLengthBytes,
	vhost.KeyMessageTTL, vhost.KeyOverflow,
}

// policyWins reports whether the value of the policy applies. argument is nil if the queue does not have the argument.
func policyWins(combine topology.Combine, policy, argument any) bool {
	switch combine {
	case topology.ArgumentWins:
		return argument == nil
	case topology.LowerWins:
		limit, isNumber := vhost.Normal(policy).(int64)
		own, isSet := vhost.Normal(argument).(int64)
		return isNumber && limit >= 0 && (!isSet || own < 0 || limit < own)
	case topology.HigherWins:
		size, isNumber := vhost.Normal(policy).(int64)
		own, isSet := vhost.Normal(argument).(int64)
		return isNumber && (!isSet || size > own)
	}
	return !vhost.SameValue(policy, argument)
}

// policySubject returns the beginning of an advisory about a policy, and its reason.
func policySubject(p *vhost.Policy, match vhost.Match) (subject string, reason v1alpha1.AdvisoryReason) {
	subject, reason = displayed(p), v1alpha1.AdvisoryReasonPolicy
	if p.Operator {
		reason = v1alpha1.AdvisoryReasonOperatorPolicy
	}
	if match == vhost.MatchUnknown {
		reason = v1alpha1.AdvisoryReasonPolicyMayApply
		subject += " may apply (Warren cannot evaluate its pattern, or another policy has the same priority), in which case it"
	}
	return subject, reason
}

func displayed(p *vhost.Policy) string {
	if p.Operator {
		return fmt.Sprintf("operator policy %q", p.Name)
	}
	return fmt.Sprintf("policy %q", p.Name)
}

// shadows returns an advisory for each argument of a queue that the policy overrides if it matches.
func shadows(p *vhost.Policy, queue topology.Queue, match vhost.Match) []v1alpha1.Advisory {
	subject, reason := policySubject(p, match)
	var advisories []v1alpha1.Advisory
	for _, row := range policyRows {
		value, set := p.Definition[row.PolicyKey]
		own := queue.Arguments[row.Name]
		if !set || !policyWins(row.Combine, value, orDefault(own, row.PolicyKey, queue)) || delaysNothing(p, queue, row.PolicyKey) {
			continue
		}
		risk := risks[row.PolicyKey]
		if queue.Role == v1alpha1.RoleDeadLetter && slices.Contains(losesDeadLetters, row.PolicyKey) {
			risk = "dead letters can be lost"
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryShadowedByPolicy, Reason: reason, Name: queue.Name,
			Message: fmt.Sprintf("%s sets %s %s (the queue's own value: %s): %s",
				subject, row.PolicyKey, vhost.Display(value), ownValue(row.PolicyKey, own), risk),
		})
	}
	return advisories
}

// orDefault returns the value of an argument, or RabbitMQ's default if the argument is not set and the default is known. A policy
// that only repeats or relaxes a default is no risk. The defaults of both timeouts are the defaults of 4.3.
func orDefault(own any, key string, queue topology.Queue) any {
	if own != nil {
		return own
	}
	switch key {
	case vhost.KeyConsumerTimeout:
		return (30 * time.Minute).Milliseconds()
	case vhost.KeyDisconnectedTimeout:
		return time.Minute.Milliseconds()
	case vhost.KeyTargetGroupSize:
		return groupSize(queue)
	}
	return nil
}

// delaysNothing reports whether a key concerns the delay of returned messages, and the queue delays none with or without the
// policy.
func delaysNothing(p *vhost.Policy, queue topology.Queue, key string) bool {
	switch key {
	case vhost.KeyDelayedRetryType, vhost.KeyDelayedRetryMin, vhost.KeyDelayedRetryMax:
		return !delays(queue.Arguments[vhost.ArgDelayedRetryType]) && !delays(p.Definition[vhost.KeyDelayedRetryType])
	}
	return false
}

// delays reports whether a queue with this value of x-delayed-retry-type delays returned messages.
func delays(retryType any) bool {
	return retryType != nil && !vhost.SameValue(retryType, topology.DelayedRetryDisabled)
}

func ownValue(key string, value any) string {
	switch {
	case value == nil && key == vhost.KeyOverflow:
		return "default"
	case value == nil:
		return "none"
	case key == vhost.KeyDeliveryLimit && vhost.SameValue(value, topology.UnlimitedDeliveries):
		return "unlimited"
	}
	return vhost.Display(value)
}
