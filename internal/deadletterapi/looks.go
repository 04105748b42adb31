package deadletterapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/deadletterqueue"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// mostLooks is how many look at a time. Each may take 16 MiB of messages that it tells of, and as much that are on their way.
	mostLooks = 4
	// lookTime is how long a look takes at most, but for an export.
	lookTime = 30 * time.Second
	// retrySoon and retryLater are the seconds after which a client may ask again: the latter if something has to change first.
	retrySoon, retryLater = 1, 30
)

// looks are those under way.
type looks struct {
	mu   sync.Mutex
	busy map[string]bool // by queue
}

// begin has a look wait its turn: one at a time at each queue, for two that look see different messages.
func (l *looks) begin(queue string) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.busy[queue]:
		return nil, apierrors.NewTooManyRequests("somebody else looks at the queue; try again", retrySoon)
	case len(l.busy) >= mostLooks:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d others look at queues; try again", mostLooks), retrySoon)
	}
	l.busy[queue] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.busy, queue)
	}, nil
}

// target is a queue that may be looked at.
type target struct {
	deadletterqueue.Queue
	deadletterqueue.Details
}

// check finds out whether a queue may be looked at.
func check(found deadletterqueue.Queue, details deadletterqueue.Details) error {
	name := found.Names.Queue
	switch {
	case details.Type != vhost.TypeQuorum:
		return conflict("queue %q is a %s queue: only messages of a quorum queue keep their order when somebody looks", name, details.Type)
	case details.SingleActiveConsumer:
		return conflict("queue %q has a single active consumer: whoever looks gets no messages while somebody consumes. "+
			"Have the queue recreated without x-single-active-consumer", name)
	case details.Limited:
		return conflict("queue %q has a delivery limit: the broker may delete messages that are looked at. "+
			"Move all of them with a Redrive, or have the queue recreated with deliveryLimit Unlimited", name)
	}
	return nil
}

func conflict(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: fmt.Sprintf(format, args...),
	}}
}

func unavailable(seconds int32, message string) error {
	err := apierrors.NewServiceUnavailable(message)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
	return err
}

// errorOf is the answer where an obstacle is in the way of a look.
func errorOf(obstacle deadletterqueue.Obstacle, name string) error {
	switch {
	case obstacle.Reason == messaging.ReasonConsumerQueueNotFound:
		return apierrors.NewNotFound(resource, name)
	case obstacle.Kind != deadletterqueue.Waiting:
		return conflict("%s", obstacle.Message)
	case obstacle.Brief:
		return unavailable(retrySoon, obstacle.Message)
	}
	return unavailable(retryLater, obstacle.Message)
}

// look shows up to so many messages, and says what could not be seen. Visit is given the position of each message, and says whether to
// go on.
func (t target) look(
	ctx context.Context, log logr.Logger, most int, visit func(position int, letter deadletter.Letter) bool,
) (transfer.Looked, v1alpha1.Seen, error) {
	position := 0
	enough := false
	looked, err := t.Broker.Look(ctx, t.Location.Cluster.Key(), transfer.LookConfig{
		Log: log, Queue: t.Names.Queue, Most: most,
		Visit: func(message *amqp.Delivery) bool {
			position++
			enough = !visit(position-1, t.Source.Read(message))
			return !enough
		},
	})
	seen := v1alpha1.Seen{}
	switch {
	case errors.Is(err, transfer.ErrUnreadable):
		seen.PartialReason = v1alpha1.PartialUnreadable
	case errors.Is(err, transfer.ErrHeldTooLong), err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		seen.PartialReason = v1alpha1.PartialTime
	case err != nil:
		return looked, seen, whyNoLook(err, t.Names.Queue)
	case looked.Consumers > 0:
		seen.PartialReason = v1alpha1.PartialHeldByConsumers
	case looked.Ready > most && !enough:
		seen.PartialReason = v1alpha1.PartialDepth
	}
	seen.Partial = seen.PartialReason != ""
	return looked, seen, nil
}

// whyNoLook is the answer where the broker shows no messages.
func whyNoLook(err error, queue string) error {
	switch {
	case errors.Is(err, brokererr.ErrAccessRefused):
		return conflict("the user of the BrokerConnection must be allowed to read queue %q: %v", queue, err)
	case errors.Is(err, brokererr.ErrNotFound):
		return unavailable(retryLater, fmt.Sprintf("queue %q does not exist", queue))
	}
	return unavailable(retrySoon, fmt.Sprintf("queue %q: %v", queue, err))
}

// shows reports whether a message is shown. It counts a message that is left out because nobody knows whether it is selected, or because of
// its origin.
func shows(rules deadletter.Rules, letter deadletter.Letter, left map[deadletter.SkipReason]int64) bool {
	switch reason := rules.Skips(letter, time.Now()); reason {
	case "":
		return true
	case deadletter.OtherOrigin, deadletter.NoOrigin, deadletter.NotEvaluated, deadletter.Undated:
		left[reason]++
	}
	return false
}
