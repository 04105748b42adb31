package plan

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// riskyDeadLetters returns advisories for dead-letter queues that can lose or hide dead letters. It skips a queue that is not a
// quorum queue, because that queue requires recreation, which the changes report.
func riskyDeadLetters(desired topology.Topology, observed vhost.Observed, version vhost.Version) []v1alpha1.Advisory {
	if version == (vhost.Version{}) {
		return nil
	}
	var advisories []v1alpha1.Advisory
	add := func(advisory *v1alpha1.Advisory) {
		if advisory != nil {
			advisories = append(advisories, *advisory)
		}
	}
	for _, queue := range desired.Queues {
		found, exists := observed.Queues[queue.Name]
		if queue.Role != v1alpha1.RoleDeadLetter || !exists || found.Type() != vhost.TypeQuorum {
			continue
		}
		dlq := settingsOf(queue.Name, found, observed.Policies)
		add(lostByBrowsing(dlq, version))
		add(expiring(dlq))
		add(dropped(dlq))
		add(delayed(dlq))
	}
	return advisories
}

// lostByBrowsing returns an advisory if browsing dead letters may delete them.
func lostByBrowsing(dlq settings, version vhost.Version) *v1alpha1.Advisory {
	found, limited := dlq.deliveryLimit(version)
	if !limited {
		return nil
	}
	effect := "each browse that returns a dead letter counts"
	if version.AtLeast(vhost.RabbitMQ43) {
		effect = "rejects in other queues count too, so the first browse that returns a dead letter can exceed the limit"
	}
	clause, reason := found.clause(dlq.name)
	return &v1alpha1.Advisory{
		Code: v1alpha1.AdvisoryDeadLettersCanBeLost, Reason: reason, Name: dlq.name,
		Message: fmt.Sprintf("%s: the broker deletes messages that exceed the limit, and on this version (%s) %s; %s",
			clause, version, effect, found.remedy("set deadLetter.queue.deliveryLimit to Unlimited")),
	}
}

// expiring returns an advisory if dead letters expire.
func expiring(dlq settings) *v1alpha1.Advisory {
	found, expires := dlq.lowest(vhost.ArgMessageTTL, vhost.KeyMessageTTL, notNegative)
	if !expires {
		return nil
	}
	clause, reason := found.clause(dlq.name)
	return &v1alpha1.Advisory{
		Code: v1alpha1.AdvisoryDeadLettersExpire, Reason: reason, Name: dlq.name,
		Message: fmt.Sprintf("%s: a dead letter is deleted after %d ms, and nothing can move it back; "+
			"move dead letters before they expire, or %s", clause, found.value, found.remedy("remove deadLetter.queue.messageTTL")),
	}
}

// dropped returns an advisory if a full dead-letter queue drops its oldest dead letters. A queue that refuses publishes loses none:
// at-least-once dead letters wait in their source, and at-most-once dead letters are accepted beyond the length.
func dropped(dlq settings) *v1alpha1.Advisory {
	found, drops := dlq.dropsHead()
	if !drops {
		return nil
	}
	clause, reason := found.clause(dlq.name)
	remedy := found.length.remedy("set deadLetter.queue.overflow to RejectPublish")
	if found.length.policy == nil && found.by != nil {
		remedy = excludeAdvice(found.by)
	}
	return &v1alpha1.Advisory{
		Code: v1alpha1.AdvisoryDeadLettersDropped, Reason: reason, Name: dlq.name,
		Message: clause + ": once the queue is full, it drops the oldest dead letters, without any notice; " + remedy,
	}
}

// delayed returns an advisory if RabbitMQ hides dead letters for some time after they were browsed. RabbitMQ accepts such policies from
// 4.3.1 on. A queue with such an argument requires recreation, which the changes report.
func delayed(dlq settings) *v1alpha1.Advisory {
	delay, delayed := dlq.returnDelay()
	if !delayed || delay.policy == nil {
		return nil
	}
	clause, reason := delay.clause(dlq.name)
	return &v1alpha1.Advisory{
		Code: v1alpha1.AdvisoryDeadLettersDelayed, Reason: reason, Name: dlq.name,
		Message: fmt.Sprintf("%s: a dead letter that was browsed and returned is hidden for %d ms or longer, and neither requests "+
			"nor Redrives nor Purges find it; %s", clause, delay.value, excludeAdvice(delay.policy)),
	}
}

// MayDelayReturned reports whether the broker may hide messages of a queue for some time after a consumer has returned them.
func MayDelayReturned(name string, queue vhost.Queue, policies []vhost.Policy) bool {
	_, delayed := settingsOf(name, queue, policies).returnDelay()
	return delayed
}

// returnDelay returns the minimum time for which the broker hides a returned message, in milliseconds; false if it hides none.
func (s settings) returnDelay() (delay limit, delayed bool) {
	delay, set := s.lowest(vhost.ArgDelayedRetryMin, vhost.KeyDelayedRetryMin, func(value int64) bool { return value > 0 })
	retryType, _ := s.settingBeside(delay, vhost.ArgDelayedRetryType, vhost.KeyDelayedRetryType)
	return delay, set && delays(retryType)
}
