package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/warren-mq/warren/internal/vhost"
)

// held is what a passive declaration counts. Both are current; whoever holds an unacknowledged message counts as a
// consumer. Messages that wait to be redelivered or dead-lettered are in neither.
type held struct{ ready, consumers int }

// passive counts; false if there is no such queue.
func passive(channel *amqp.Channel, queue string) (held, bool, error) {
	declared, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		return held{}, false, nil // and the channel is closed
	}
	return held{ready: declared.Messages, consumers: declared.Consumers}, err == nil, err
}

// held counts on the cluster of this name.
func (c *Connection) held(ctx context.Context, cluster, queue string) (held, bool, error) {
	type answer struct {
		now    held
		exists bool
	}
	answers := make(chan answer, 1) // for the operation goes on when the context ends
	err := c.channels.doAt(ctx, cluster, func(channel *amqp.Channel) error {
		now, exists, err := passive(channel, queue)
		answers <- answer{now, exists}
		return err
	})
	if err != nil {
		return held{}, false, about(queue, err)
	}
	got := <-answers
	return got.now, got.exists, nil
}

// about names the queue in an error of the broker.
func about(queue string, err error) error {
	if err == nil || errors.Is(err, ErrNotEmpty) || errors.Is(err, ErrUnproven) { // which name it themselves
		return err
	}
	return fmt.Errorf("queue %q: %w", queue, err)
}

// reading is what the management API says of one queue: the queue itself, which is current, and statistics, which are
// seconds old, or a minute on a busy broker, and which nothing that deletes may rest on.
type reading struct {
	Type      string
	State     string
	Leader    string
	Arguments map[string]any

	// Policy and Effective are statistics up to 4.0, and current from 4.3 on.
	Policy    string
	Effective toldPolicy `json:"effective_policy_definition"`

	// DeadLetters, the messages that wait to be dead-lettered, is nil without statistics.
	DeadLetters *int `json:"messages_dlx"`

	// user and operator are the definitions of the policies that hold for the queue.
	user, operator vhost.Arguments
}

const (
	withoutStatistics = "?disable_stats=true&columns=type,state,leader,arguments"
	withStatistics    = "?columns=policy,effective_policy_definition,messages_dlx"
)

// reading asks for one queue; nil if there is no such queue.
func (m *management) reading(ctx context.Context, queue, query string) (*reading, error) {
	path := "/queues/" + escape(m.VHost) + "/" + escape(queue)
	answer, gone := &reading{}, false
	err := m.do(ctx, http.MethodGet, path+query, "", nil, func(response *http.Response) error {
		switch response.StatusCode {
		case http.StatusOK:
			return m.decode(path, response.Body, answer)
		case http.StatusNotFound:
			gone = true
			return nil
		}
		return m.describe(http.MethodGet, path, m.refused(response))
	})
	if err != nil || gone {
		return nil, err
	}
	return answer, nil
}

// fit says why a queue cannot be shown to be empty; nil if it can.
func (r *reading) fit(errs Errors, queue string) error {
	unproven := func(format string, args ...any) error {
		return errs.Fail(ErrUnproven, "queue %q "+format, append([]any{queue}, args...)...)
	}
	switch ttl, expires := r.lowest(vhost.KeyMessageTTL); {
	case r.Type != vhost.TypeQuorum:
		return unproven("is of type %s; only quorum queues can be shown to be empty", r.Type)
	case r.Leader == "":
		return unproven("has no leader")
	case r.State != "running" && r.State != "live": // the latter on 3.10
		return unproven("is %s", r.State)
	case expires && ttl < shortestTTL.Milliseconds():
		return unproven("keeps messages for %d ms; that is too short to show that it is empty", ttl)
	}
	if length, limited := r.lowest(vhost.KeyMaxLength); limited && length < sentinels {
		return unproven("takes %d messages at most; it takes %d to show that it is empty", length, sentinels)
	}
	if length, limited := r.lowest(vhost.KeyMaxLengthBytes); limited && length < roomForSentinels {
		return unproven("takes %d bytes at most; it takes %d to show that it is empty", length, roomForSentinels)
	}
	return nil
}

// lowest is the limit in effect, of a policy key and the argument x- of the same name.
func (r *reading) lowest(key string) (limit int64, set bool) {
	arguments, user, operator := vhost.Normalize(r.Arguments), vhost.Normalize(r.user), vhost.Normalize(r.operator)
	for _, value := range []any{arguments["x-"+key], user[key], operator[key]} {
		if number, ok := value.(int64); ok && (!set || number < limit) {
			limit, set = number, true
		}
	}
	return limit, set
}

// rejects says whether the queue, when full, refuses messages in place of dropping some.
func (r *reading) rejects() bool {
	for _, given := range []any{r.operator[vhost.KeyOverflow], r.user[vhost.KeyOverflow], r.Arguments[vhost.ArgOverflow]} {
		if given != nil {
			return given == vhost.OverflowRejectPublish
		}
	}
	return false
}

// drops says whether the queue, when full, drops messages.
func (r *reading) drops() bool {
	_, limited := r.lowest(vhost.KeyMaxLength)
	_, limitedBytes := r.lowest(vhost.KeyMaxLengthBytes)
	return (limited || limitedBytes) && !r.rejects()
}

// holds says what a passive declaration found beyond the messages that are Warren's own; nil if nothing.
func (h held) holds(errs Errors, queue string) error {
	switch {
	case h.ready > 0:
		return errs.Fail(ErrNotEmpty, "queue %q holds %s", queue, count(h.ready, "message"))
	case h.consumers > 0:
		return errs.Fail(ErrNotEmpty, "queue %q has %s", queue, count(h.consumers, "consumer"))
	}
	return nil
}

func count(number int, what string) string {
	if number != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", number, what)
}
