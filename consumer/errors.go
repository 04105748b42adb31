package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// These errors are causes of the end of a handler's context; see context.Cause.
var (
	// ErrDeliveryLost reports that the broker has taken the message back. The result of the handler is ignored.
	ErrDeliveryLost = errors.New("the broker has taken the message back")
	// ErrDraining reports that the consumer drains, and its drain timeout is over; see WithDrainTimeout.
	ErrDraining = errors.New("the consumer is draining")
	// ErrTimeout reports that the handler took longer than WithTimeout allows.
	ErrTimeout = errors.New("the handler took too long")
)

// Verdict is the error that Permanent, RetryAfter, Defer and Discard return. Its Result decides how the consumer
// settles the message. Tests and middleware find it with errors.As.
type Verdict struct {
	Result contract.Result
	// Delay is the delay of RetryAfter and Defer, else 0.
	Delay time.Duration
	// Err is the failure; nil for Defer.
	Err error
}

// Error returns the text of Err.
func (v *Verdict) Error() string {
	if v.Err == nil {
		return fmt.Sprintf("%s for %s", v.Result, v.Delay)
	}
	return v.Err.Error()
}

// Unwrap returns Err.
func (v *Verdict) Unwrap() error { return v.Err }

// ErrorType returns Result as text. OpenTelemetry uses it as the attribute error.type.
func (v *Verdict) ErrorType() string { return string(v.Result) }

// verdict returns nil if err is nil, as errors.Join does.
func verdict(result contract.Result, delay time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &Verdict{Result: result, Delay: delay, Err: err}
}

// Permanent returns an error that sends the message to the dead-letter queue without another attempt. Permanent(nil) is nil.
func Permanent(err error) error { return verdict(contract.ResultPermanent, 0, err) }

// RetryAfter returns an error after which the message waits in the shortest delay tier that is at least d, or else in the
// longest. It counts as an attempt. The strategies Reject and Requeue ignore d. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error { return verdict(contract.ResultFailed, d, err) }

// Defer returns an error that delays the message by d without counting an attempt. The message waits in the shortest delay tier
// that is at least d, or else in the longest. Without delay tiers the consumer holds it for at most 30 s and returns it, which
// RabbitMQ before 4.3 counts as a delivery. A message may be deferred any number of times; see Delivery.Deferrals.
func Defer(d time.Duration) error { return &Verdict{Result: contract.ResultDeferred, Delay: d} }

// Discard returns an error that acks the message although it failed. The failure is counted and logged. Discard(nil) is nil.
func Discard(err error) error { return verdict(contract.ResultDiscarded, 0, err) }

// UnroutableError reports that no queue received a message, because the exchange does not exist or has no matching binding.
type UnroutableError struct {
	Exchange, RoutingKey, Reply string
}

func (e *UnroutableError) Error() string {
	return fmt.Sprintf("exchange %q routes key %q to no queue: %s", e.Exchange, e.RoutingKey, e.Reply)
}

// RefusedError reports that the broker did not accept a message.
type RefusedError struct {
	Exchange, RoutingKey string
	// Reason is the broker's reason, or "" if it gave none; then a queue is probably full.
	Reason string

	never bool // set if another attempt with the same message cannot succeed
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the broker refused a message for exchange %q and routing key %q: %s",
		e.Exchange, e.RoutingKey, cmp.Or(e.Reason, "the queue may be full"))
}

// isRefusal reports whether err proves that the broker does not have the message.
func isRefusal(err error) bool {
	return errors.As(err, new(*UnroutableError)) || errors.As(err, new(*RefusedError))
}

// isNeverAccepted reports whether another attempt to publish the same message cannot succeed.
func isNeverAccepted(err error) bool {
	refused := new(*RefusedError)
	return errors.As(err, refused) && (*refused).never
}

// UnknownOutcomeError reports that the channel was lost, or the context ended, before the confirm arrived. In most cases the
// broker has the message.
type UnknownOutcomeError struct {
	Cause error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("the broker may or may not have the message: %v", e.Cause)
}

// Unwrap returns Cause.
func (e *UnknownOutcomeError) Unwrap() error { return e.Cause }

// DrainError reports that handlers did not return within the drain timeout. The broker delivers their messages again.
type DrainError struct {
	// Abandoned names the deliveries by message-id, or by delivery tag if there is no message-id.
	Abandoned []string
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("%d handlers did not return in time: %s", len(e.Abandoned), strings.Join(e.Abandoned, ", "))
}

// consumeError adds to an error of the broker what to check.
func consumeError(err error, current contract.Contract) error {
	var reply *amqp.Error
	isReply := errors.As(err, &reply)
	switch {
	case isReply && reply.Code == amqp.NotFound:
		return fmt.Errorf("queue %q does not exist in virtual host %q; "+
			"check that the ConsumerQueue is Ready and that the URI names this virtual host: %w",
			current.Queue, current.VirtualHost, err)
	case isReply && reply.Code == amqp.AccessRefused:
		return fmt.Errorf("the user may not consume queue %q; grant it read permission in virtual host %q: %w",
			current.Queue, current.VirtualHost, err)
	}
	return err
}
