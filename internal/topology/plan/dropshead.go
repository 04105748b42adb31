package plan

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// DropsMessages reports whether a queue that is full takes a further message and drops another one, or dead-letters either, and which
// limit is to blame. A policy of which Warren cannot tell whether it matches counts.
func DropsMessages(name string, queue vhost.Queue, policies []vhost.Policy) (why string, drops bool) {
	found, drops := settingsOf(name, queue, policies).dropsHead()
	if !drops {
		return "", false
	}
	why, _ = found.introduced(name)
	return why, true
}

// headDrop is a limit of a queue beyond which the queue drops messages.
type headDrop struct {
	length   limit
	overflow any
	// by is the policy that sets overflow; nil if none does.
	by *vhost.Policy
}

// dropsHead returns the limit beyond which the queue drops messages; false if there is none, or the queue refuses messages then.
func (s settings) dropsHead() (headDrop, bool) {
	length, bounded := s.lowest(vhost.ArgMaxLength, vhost.KeyMaxLength, notNegative)
	if !bounded {
		length, bounded = s.lowest(vhost.ArgMaxLengthBytes, vhost.KeyMaxLengthBytes, notNegative)
	}
	overflow, by := s.besides(length, vhost.ArgOverflow, vhost.KeyOverflow)
	return headDrop{length: length, overflow: overflow, by: by}, bounded && overflow != vhost.OverflowRejectPublish
}

// introduced is how a message begins that is about the limit, and the reason of an advisory.
func (d headDrop) introduced(queue string) (clause string, reason v1alpha1.AdvisoryReason) {
	clause, reason = d.length.introduced(queue)
	if d.length.policy == nil && d.by != nil {
		subject, byPolicy := introduced(d.by, vhost.MatchYes)
		clause += fmt.Sprintf(", and %s sets overflow %s", subject, vhost.Display(d.overflow))
		reason = byPolicy
	}
	return clause, reason
}
