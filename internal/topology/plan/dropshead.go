package plan

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// DropsMessages reports whether a full queue accepts a new message and drops or dead-letters a message instead of refusing the
// new one. why describes the limit. A policy that may match counts as matching. A stream drops old messages by design, read or unread.
func DropsMessages(name string, queue vhost.Queue, policies []vhost.Policy) (why string, drops bool) {
	if queue.Type() == vhost.TypeStream {
		return "", false
	}
	found, drops := settingsOf(name, queue, policies).dropsHead()
	if !drops {
		return "", false
	}
	why, _ = found.clause(name)
	return why, true
}

// headDrop is a limit beyond which a queue drops messages.
type headDrop struct {
	// uncertain: too many policies may be in effect to find the limit.
	uncertain bool
	length    limit
	overflow  any
	// by is the policy that sets overflow; nil if no policy does. byMatch reports whether that policy applies.
	by      *vhost.Policy
	byMatch vhost.Match
}

// dropsHead returns the limit beyond which the queue drops messages. It returns false if there is none, or if the queue then refuses
// messages, under every policy and operator policy that may be in effect together: RabbitMQ applies all keys of a policy or none.
func (s settings) dropsHead() (headDrop, bool) {
	pairs := s.pairs()
	for _, pair := range pairs {
		length, bounded := pair.lowest(vhost.ArgMaxLength, vhost.KeyMaxLength, notNegative)
		if !bounded {
			length, bounded = pair.lowest(vhost.ArgMaxLengthBytes, vhost.KeyMaxLengthBytes, notNegative)
		}
		overflow, by := pair.settingBeside(length, vhost.ArgOverflow, vhost.KeyOverflow)
		if bounded && overflow != vhost.OverflowRejectPublish {
			if length.policy != nil {
				length.match = s.match(length.policy)
			}
			return headDrop{length: length, overflow: overflow, by: by, byMatch: s.match(by)}, true
		}
	}
	return headDrop{uncertain: true}, len(pairs) == 0
}

// clause returns the beginning of a message about the limit, and the reason for an advisory.
func (d headDrop) clause(queue string) (text string, reason v1alpha1.AdvisoryReason) {
	if d.uncertain {
		return fmt.Sprintf("too many policies may apply to queue %q", queue), v1alpha1.AdvisoryReasonPolicyMayApply
	}
	text, reason = d.length.clause(queue)
	if d.length.policy == nil && d.by != nil {
		subject, byPolicy := policySubject(d.by, d.byMatch)
		text += fmt.Sprintf(", and %s sets overflow %s", subject, vhost.Display(d.overflow))
		reason = byPolicy
	}
	return text, reason
}
