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
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// browseTime is the limit of a browse that is not part of an export.
	browseTime = 30 * time.Second
	// turnTime is how long a browse waits for other users of the queue. exportTurnTime is how long each browse of an export waits.
	turnTime, exportTurnTime = 5 * time.Second, time.Minute
	// retrySoon and retryLater are the seconds after which a client may retry. retryLater is for errors that end only when something
	// changes.
	retrySoon, retryLater = 1, 30
)

// takeTurn waits until no other user in this process reads messages of a queue, because held messages are hidden from other
// users. If complete is false, it does not wait for a Redrive or Purge, which pauses for the browse.
func (h *Handler) takeTurn(ctx context.Context, found deadletterjob.Queue, complete bool) (*deadletterjob.Entry, error) {
	join, within := h.users.Browse, turnTime
	if complete {
		join, within = h.users.Join, exportTurnTime
	}
	granted := make(chan struct{})
	entry := join(deadletterjob.Key{ObjectKey: client.ObjectKeyFromObject(found.ConsumerQueue)}, found.Key(), func() { close(granted) })
	blockedBy, waits := entry.Waits()
	if !waits {
		return entry, nil
	}
	limit := time.NewTimer(within)
	defer limit.Stop()
	var err error
	select {
	case <-granted:
		return entry, nil
	case <-limit.C:
		err = whileUsed(blockedBy, blockedBy.Uses(found.Names.Queue, found.ConsumerQueue.Namespace))
	case <-ctx.Done():
		err = unavailable(retrySoon, ctx.Err().Error())
	}
	entry.Leave()
	return nil, err
}

// whileUsed returns the error for a queue that another user keeps. A browse ends soon, but a job may take hours.
func whileUsed(blockedBy deadletterjob.Key, why string) error {
	if blockedBy.Kind == "" {
		return tooMany(why + "; try again soon")
	}
	return apierrors.NewTooManyRequests(why+". Suspend the "+string(blockedBy.Kind)+", or try again when it has ended", retryLater)
}

// target is a queue that may be browsed, with an entry in the register of users.
type target struct {
	deadletterjob.Queue
	deadletterjob.Details
	entry *deadletterjob.Entry
}

// check returns an error if a queue must not be browsed.
func check(found deadletterjob.Queue, details deadletterjob.Details) error {
	name := found.Names.Queue
	switch {
	case details.Type != vhost.TypeQuorum:
		return conflict("queue %q is a %s queue: only a quorum queue keeps the order of messages that are browsed", name, details.Type)
	case details.SingleActiveConsumer:
		return conflict("queue %q has a single active consumer: RabbitMQ delivers messages to that consumer only. "+
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

// errorOf returns the response for a blocker.
func errorOf(blocker deadletterjob.Blocker, name string) error {
	switch {
	case blocker.Ready.Reason == messaging.ReasonConsumerQueueNotFound:
		return apierrors.NewNotFound(resource, name)
	case blocker.NeedsUser():
		return conflict("%s", blocker.Ready.Message)
	}
	return unavailable(int32(blocker.Retry.Seconds()), blocker.Ready.Message)
}

// browse calls visit for up to limit messages with their positions, until visit returns false. Seen reports which messages are
// missing.
func (t target) browse(
	ctx context.Context, log logr.Logger, limit int, visit func(position int, deadLetter deadletter.Message) bool,
) (mover.Browsed, v1alpha1.Seen, error) {
	enough := false
	browsed, err := t.Broker.Browse(ctx, t.Location.Cluster.Key(), mover.BrowseConfig{
		Log: log, Queue: t.Names.Queue, MaxMessages: limit,
		Visit: func(position int, message *amqp.Delivery) bool {
			enough = !visit(position, t.Source.Read(message))
			return !enough
		},
	})
	held, beside := t.entry.HeldByJob()
	seen := v1alpha1.Seen{Unseen: int64(browsed.Unseen), Held: int64(held), TooLarge: int64(browsed.TooLarge)}
	switch {
	case errors.Is(err, mover.ErrUnreadable):
		seen.PartialReason = v1alpha1.PartialUnreadable
	case errors.Is(err, mover.ErrHeldTooLong), err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		seen.PartialReason = v1alpha1.PartialTime
	case err != nil:
		return browsed, seen, browseError(err, t.Names.Queue)
	case ctx.Err() != nil && !enough: // a browse that is stopped returns no error
		return browsed, seen, unavailable(retrySoon, "the manager is stopping, and another one will answer")
	case beside:
		seen.PartialReason = v1alpha1.PartialJobRunning
	default:
		seen.PartialReason = partialReason(browsed, limit, enough, t.DelaysReturned)
	}
	seen.Partial = seen.PartialReason != ""
	return browsed, seen, nil
}

// partialReason returns why a browse that was not interrupted did not see all messages; empty if it did. enough is true if visit
// ended the browse.
func partialReason(browsed mover.Browsed, limit int, enough, delaysReturned bool) v1alpha1.PartialReason {
	switch {
	case browsed.Consumers > 0, browsed.Unseen > 0:
		return v1alpha1.PartialHeldByConsumers
	case browsed.Ready > limit && !enough:
		return v1alpha1.PartialDepth
	case browsed.TooLarge > 0:
		return v1alpha1.PartialTooLarge
	case delaysReturned:
		return v1alpha1.PartialDelayed
	}
	return ""
}

// browseError returns the response for an error of the broker.
func browseError(err error, queue string) error {
	switch {
	case errors.Is(err, brokererr.ErrAccessRefused):
		return conflict("the user of the BrokerConnection must be allowed to read queue %q: %v", queue, err)
	case errors.Is(err, brokererr.ErrNotFound):
		return unavailable(retryLater, fmt.Sprintf("queue %q does not exist", queue))
	}
	return unavailable(retrySoon, fmt.Sprintf("queue %q: %v", queue, err))
}

// shows reports whether a message is shown. It counts messages that are left out because of their origin, or because the selector
// could not be evaluated.
func shows(rules deadletter.Rules, deadLetter deadletter.Message, now time.Time, left map[string]int64) bool {
	switch reason := rules.Skips(deadLetter, now); reason {
	case "":
		return true
	case deadletter.OtherOrigin, deadletter.NoOrigin, deadletter.NotEvaluated, deadletter.Undated:
		left[string(reason)]++
	}
	return false
}
