package deadletterapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// lookTime is how long a look takes at most, but for an export.
	lookTime = 30 * time.Second
	// turnTime is how long a look waits for others that take messages out of the queue, and exportTurnTime how long each look of an export
	// does.
	turnTime, exportTurnTime = 5 * time.Second, time.Minute
	// retrySoon and retryLater are the seconds after which a client may ask again: the latter if something has to change first.
	retrySoon, retryLater = 1, 30
)

// takeTurn waits until no other user in this process takes messages out of a queue: messages that one holds are hidden from the others. A
// look that need not be complete does not wait for a Redrive or a Purge that pauses for it.
func (h *Handler) takeTurn(ctx context.Context, found deadletterjob.Queue, complete bool) (*deadletterjob.Place, error) {
	join, within := h.users.Browse, turnTime
	if complete {
		join, within = h.users.Join, exportTurnTime
	}
	granted := make(chan struct{})
	place := join(deadletterjob.User{ObjectKey: client.ObjectKeyFromObject(found.ConsumerQueue)}, found.Turn(), func() { close(granted) })
	rival, waits := place.Waits()
	if !waits {
		return place, nil
	}
	limit := time.NewTimer(within)
	defer limit.Stop()
	var err error
	select {
	case <-granted:
		return place, nil
	case <-limit.C:
		err = whileUsed(rival, rival.Uses(found.Names.Queue, found.ConsumerQueue.Namespace))
	case <-ctx.Done():
		err = unavailable(retrySoon, ctx.Err().Error())
	}
	place.Leave()
	return nil, err
}

// whileUsed is the answer where another user keeps the turn at a queue. A browse ends soon, and a job may take hours.
func whileUsed(rival deadletterjob.User, why string) error {
	if rival.Kind == "" {
		return apierrors.NewTooManyRequests(why+"; try again when that has ended", retrySoon)
	}
	return apierrors.NewTooManyRequests(why+". Suspend the "+rival.Kind+", or try again when it has ended", retryLater)
}

// target is a queue that may be looked at, in a place of the register.
type target struct {
	deadletterjob.Queue
	deadletterjob.Details
	place *deadletterjob.Place
}

// check finds out whether a queue may be looked at.
func check(found deadletterjob.Queue, details deadletterjob.Details) error {
	name := found.Names.Queue
	switch {
	case details.Type != vhost.TypeQuorum:
		return conflict("queue %q is a %s queue: only a quorum queue keeps the order of messages that are browsed", name, details.Type)
	case details.SingleActiveConsumer:
		return conflict("queue %q has a single active consumer: RabbitMQ delivers messages to that one only. "+
			"Recreate the queue without x-single-active-consumer", name)
	case details.Limited:
		return conflict("queue %q has a delivery limit: RabbitMQ may delete messages that are browsed. "+
			"Move all of them with a Redrive, or recreate the queue with deliveryLimit Unlimited", name)
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

// errorOf returns the answer to a request that a Blocker stops.
func errorOf(blocker deadletterjob.Blocker, name string) error {
	switch {
	case blocker.Ready.Reason == messaging.ReasonConsumerQueueNotFound:
		return apierrors.NewNotFound(resource, name)
	case blocker.NeedsUser():
		return conflict("%s", blocker.Ready.Message)
	}
	return unavailable(int32(blocker.Retry.Seconds()), blocker.Ready.Message)
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
	held, hosted := t.place.Host()
	seen := v1alpha1.Seen{Unseen: int64(looked.Unseen), Held: int64(held)}
	switch {
	case errors.Is(err, transfer.ErrUnreadable):
		seen.PartialReason = v1alpha1.PartialUnreadable
	case errors.Is(err, transfer.ErrHeldTooLong), err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		seen.PartialReason = v1alpha1.PartialTime
	case err != nil:
		return looked, seen, whyNoLook(err, t.Names.Queue)
	case hosted:
		seen.PartialReason = v1alpha1.PartialJobRunning
	default:
		seen.PartialReason = partialReason(looked, most, enough, t.DelaysReturned)
	}
	seen.Partial = seen.PartialReason != ""
	return looked, seen, nil
}

// partialReason is why a look that nothing has stopped did not see all messages; empty if it has seen them. Enough says that it ended at a
// message, because no more were wanted.
func partialReason(looked transfer.Looked, most int, enough, delaysReturned bool) v1alpha1.PartialReason {
	switch {
	case looked.Consumers > 0, looked.Unseen > 0:
		return v1alpha1.PartialHeldByConsumers
	case looked.Ready > most && !enough:
		return v1alpha1.PartialDepth
	case delaysReturned:
		return v1alpha1.PartialDelayed
	}
	return ""
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
