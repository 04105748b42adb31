package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// settings are the effective settings of a queue, by its arguments and by policies.
type settings struct {
	name  string
	queue vhost.Queue
	// operators and users are the candidates for the one operator policy and the one policy of the queue. The first candidate applies, or
	// one of the others does; see vhost.PoliciesOf. Nil stands for none.
	operators, users []*vhost.Policy
}

func settingsOf(name string, queue vhost.Queue, policies []vhost.Policy) settings {
	candidates := func(operator bool) []*vhost.Policy {
		effective, possible := vhost.PoliciesOf(name, cmp.Or(queue.Type(), vhost.TypeClassic), policies, operator)
		return append([]*vhost.Policy{effective}, possible...)
	}
	return settings{name: name, queue: queue, operators: candidates(true), users: candidates(false)}
}

// effective returns the operator policy and the policy that apply to the queue.
func (s settings) effective() []*vhost.Policy {
	return slices.DeleteFunc([]*vhost.Policy{s.operators[0], s.users[0]}, func(p *vhost.Policy) bool { return p == nil })
}

// maxPairs is the maximum number of pairs that pairs returns. Only a hostile broker has more.
const maxPairs = 1000

// pairs returns the settings by each operator policy together with each policy, the most likely pair first; nil if there are too many.
func (s settings) pairs() (pairs []settings) {
	if len(s.operators)*len(s.users) > maxPairs {
		return nil
	}
	for _, operator := range s.operators {
		for _, user := range s.users {
			pairs = append(pairs, settings{s.name, s.queue, []*vhost.Policy{operator}, []*vhost.Policy{user}})
		}
	}
	return pairs
}

// match reports whether a policy applies or may apply to the queue.
func (s settings) match(policy *vhost.Policy) vhost.Match {
	if slices.Contains(s.effective(), policy) {
		return vhost.MatchYes
	}
	return vhost.MatchUnknown
}

// limit is a number that an argument, a policy or the broker's default sets.
type limit struct {
	value int64
	// key is the name of the argument or the key of the policy; empty for the broker's default.
	key string
	// policy is nil if no policy sets the number.
	policy *vhost.Policy
	match  vhost.Match
}

// lowest returns the lowest number for which counts returns true, because RabbitMQ applies the lowest. It considers policies that may match
// only if neither the argument nor a matching policy sets such a number.
func (s settings) lowest(argument, key string, counts func(int64) bool) (found limit, exists bool) {
	consider := func(value any, candidate limit) {
		number, isNumber := vhost.Normal(value).(int64)
		if isNumber && counts(number) && (!exists || number < found.value) {
			candidate.value = number
			found, exists = candidate, true
		}
	}
	consider(s.queue.Arguments[argument], limit{key: argument, match: vhost.MatchYes})
	for _, policy := range s.effective() {
		consider(policy.Definition[key], limit{key: key, policy: policy, match: vhost.MatchYes})
	}
	if exists {
		return found, true
	}
	for _, policy := range slices.Concat(s.operators[1:], s.users[1:]) {
		consider(policy.Definition[key], limit{key: key, policy: policy, match: vhost.MatchUnknown})
	}
	return found, exists
}

func notNegative(value int64) bool { return value >= 0 }

func negative(value int64) bool { return value < 0 }

// settingBeside returns the value of an argument or of the policy key that overrides it, and the policy that sets the value, if any. If a
// policy that may match sets the limit, its other keys count too: RabbitMQ applies all keys of a policy or none.
func (s settings) settingBeside(limit limit, argument, key string) (value any, by *vhost.Policy) {
	policies := s.effective()
	if limit.policy != nil && limit.match == vhost.MatchUnknown {
		policies = append([]*vhost.Policy{limit.policy}, policies...)
	}
	for _, policy := range policies {
		if value, set := policy.Definition[key]; set {
			return value, policy
		}
	}
	return s.queue.Arguments[argument], nil
}

// clause returns the beginning of an advisory about a limit, and its reason.
func (l limit) clause(queue string) (text string, reason v1alpha1.AdvisoryReason) {
	switch {
	case l.policy != nil:
		subject, reason := policySubject(l.policy, l.match)
		return fmt.Sprintf("%s sets %s %d for queue %q", subject, l.key, l.value, queue), reason
	case l.key == "":
		return fmt.Sprintf("queue %q has the broker's default limit of %d deliveries", queue, l.value), v1alpha1.AdvisoryReasonBrokerDefault
	}
	return fmt.Sprintf("queue %q has %s %d", queue, l.key, l.value), v1alpha1.AdvisoryReasonArgument
}

// remedy returns how to remove a limit: change the policy so that it no longer matches, or change the spec as given.
func (l limit) remedy(change string) string {
	if l.policy != nil {
		return excludeAdvice(l.policy)
	}
	return change + " and recreate the queue"
}

func excludeAdvice(policy *vhost.Policy) string {
	return "exclude the queue from the pattern of " + displayed(policy)
}
