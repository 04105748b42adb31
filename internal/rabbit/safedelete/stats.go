package safedelete

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/vhost"
)

// get receives a message from a queue, if there is one.
func get(channel *amqp.Channel, queue string) (message amqp.Delivery, ok bool, err error) {
	err = amqpconn.Timed("basic.get", func() (err error) {
		message, ok, err = channel.Get(queue, false)
		return err
	})
	return message, ok, err
}

// held returns the current counts of a queue on the given cluster; false if the queue does not exist. A channel that holds an
// unacknowledged message counts as a consumer. No count includes messages that wait to be redelivered or dead-lettered.
func (d *Deleter) held(ctx context.Context, cluster, queue string) (now amqp.Queue, exists bool, err error) {
	now, exists, err = d.changer.DeclaredQueue(ctx, cluster, queue)
	return now, exists, wrapQueue(queue, err)
}

// wrapQueue adds the queue to an error of the broker.
func wrapQueue(queue string, err error) error {
	if err == nil || errors.Is(err, brokererr.ErrNotEmpty) || errors.Is(err, brokererr.ErrUnproven) { // these errors already name the queue
		return err
	}
	return fmt.Errorf("queue %q: %w", queue, err)
}

// queueStats is the state of a queue to delete.
type queueStats struct {
	management.QueueInfo

	// user and operator are the definitions of the policies that apply to the queue.
	user, operator vhost.Arguments
}

// CheckEligible fails with ErrUnprovable if a queue cannot be proven empty because of its type, its arguments, or a policy in effect, and
// with ErrUnproven if the queue has no leader or does not run. It ignores a policy if it is not certain that the policy is in effect.
func CheckEligible(errs brokererr.Errors, queue string, info management.QueueInfo, policies []vhost.Policy) error {
	now := &queueStats{QueueInfo: info}
	if user, unclear := holdingPolicy(queue, WithoutFences(policies), false); unclear == "" {
		now.user = user.Definition
	}
	return now.checkEligible(errs, queue)
}

// unprovable returns an ErrUnproven whose cause remains: another attempt does not help.
func unprovable(errs brokererr.Errors, format string, args ...any) error {
	message := fmt.Sprintf("%v: %s", brokererr.ErrUnproven, fmt.Sprintf(format, args...))
	return errs.Because([]error{brokererr.ErrUnproven, brokererr.ErrUnprovable}, message)
}

// checkEligible fails if a queue cannot be proven empty.
func (q *queueStats) checkEligible(errs brokererr.Errors, queue string) error {
	switch ttl, expires := q.lowest(vhost.KeyMessageTTL); {
	case q.Type != vhost.TypeQuorum:
		return unprovable(errs, "queue %q is of type %s; only quorum queues can be shown to be empty", queue, q.Type)
	case q.Leader == "":
		return errs.Fail(brokererr.ErrUnproven, "queue %q has no leader", queue)
	case q.State != "running" && q.State != "live": // live on 3.10
		return errs.Fail(brokererr.ErrUnproven, "queue %q is %s", queue, q.State)
	case expires && ttl < shortestTTL.Milliseconds():
		return unprovable(errs, "queue %q keeps messages for %d ms; that is too short to show that it is empty", queue, ttl)
	}
	if length, limited := q.lowest(vhost.KeyMaxLength); limited && length < Sentinels {
		return unprovable(errs, "queue %q accepts at most %d messages; Warren needs %d to show that it is empty", queue, length, Sentinels)
	}
	if length, limited := q.lowest(vhost.KeyMaxLengthBytes); limited && length < roomForSentinels {
		return unprovable(errs,
			"queue %q accepts at most %d bytes; Warren needs %d to show that it is empty", queue, length, roomForSentinels)
	}
	return nil
}

// lowest returns the limit in effect, of a policy key and the argument x- of the same name.
func (q *queueStats) lowest(key string) (limit int64, set bool) {
	arguments, user, operator := vhost.Normalize(q.Arguments), vhost.Normalize(q.user), vhost.Normalize(q.operator)
	for _, value := range []any{arguments["x-"+key], user[key], operator[key]} {
		if number, ok := value.(int64); ok && (!set || number < limit) {
			limit, set = number, true
		}
	}
	return limit, set
}

// ttl returns how long the queue keeps messages; false if there is no limit.
func (q *queueStats) ttl() (time.Duration, bool) {
	limit, expires := q.lowest(vhost.KeyMessageTTL)
	return time.Duration(limit) * time.Millisecond, expires
}

// rejects reports whether a full queue refuses new messages, and drops none.
func (q *queueStats) rejects() bool {
	for _, given := range []any{q.operator[vhost.KeyOverflow], q.user[vhost.KeyOverflow], q.Arguments[vhost.ArgOverflow]} {
		if given != nil {
			return given == vhost.OverflowRejectPublish
		}
	}
	return false
}

// drops reports whether a full queue drops messages.
func (q *queueStats) drops() bool {
	_, limited := q.lowest(vhost.KeyMaxLength)
	_, limitedBytes := q.lowest(vhost.KeyMaxLengthBytes)
	return (limited || limitedBytes) && !q.rejects()
}

// maxPossible is the maximum number of pairs of a policy and an operator policy that DropLimits tries. Only a hostile broker has more.
const maxPossible = 1000

// DropLimits returns the lowest numbers of messages and of bytes beyond which a queue may drop its oldest messages, math.MaxInt64 if
// there is no such number. A policy that may be in effect counts. A fence also counts, because a leftover fence may have former settings of
// the policy below. Both numbers are zero if too many policies may be in effect.
func DropLimits(queue string, arguments vhost.Arguments, policies []vhost.Policy) (messages, bytes int64) {
	users, operators := PossibleDefinitions(queue, policies), vhost.PossibleDefinitions(queue, policies, true)
	for _, policy := range policies {
		if isFence(policy) && policy.Match(queue, vhost.TypeQuorum) != vhost.MatchNo {
			users = append(users, policy.Definition)
		}
	}
	if len(users)*len(operators) > maxPossible {
		return 0, 0
	}
	messages, bytes = math.MaxInt64, math.MaxInt64
	for _, user := range users {
		for _, operator := range operators {
			now := &queueStats{QueueInfo: management.QueueInfo{Arguments: arguments}, user: user, operator: operator}
			if now.rejects() {
				continue
			}
			if limit, limited := now.lowest(vhost.KeyMaxLength); limited {
				messages = min(messages, limit)
			}
			if limit, limited := now.lowest(vhost.KeyMaxLengthBytes); limited {
				bytes = min(bytes, limit)
			}
		}
	}
	return messages, bytes
}

// checkCounts fails if the counts show messages or consumers.
func checkCounts(errs brokererr.Errors, queue string, now amqp.Queue) error {
	switch {
	case now.Messages > 0:
		return errs.Fail(brokererr.ErrNotEmpty, "queue %q holds %s", queue, text.Count(now.Messages, "message"))
	case now.Consumers > 0:
		reason := fmt.Sprintf("%v: queue %q has %s", brokererr.ErrNotEmpty, queue, text.Count(now.Consumers, "consumer"))
		return errs.Because([]error{brokererr.ErrNotEmpty, brokererr.ErrConsumed}, reason)
	}
	return nil
}
