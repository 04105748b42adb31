package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// Causes of the end of a handler's context; see context.Cause.
var (
	// ErrDeliveryLost: the broker has taken the message back, and whatever the handler returns is void.
	ErrDeliveryLost = errors.New("the broker has taken the message back")
	// ErrDraining: the consumer ends, and has waited for as long as it may.
	ErrDraining = errors.New("the consumer is draining")
	// ErrTimeout: the handler has taken longer than WithTimeout.
	ErrTimeout = errors.New("the handler has taken too long")
)

// Verdict is an error of a handler that says more than that the message failed. Permanent, RetryAfter, Defer and Discard return one, and
// errors.As finds it in tests and middleware.
type Verdict struct {
	Result contract.Result
	// Delay is that of RetryAfter and Defer.
	Delay time.Duration
	// Err is the failure; nil for Defer.
	Err error
}

// Error is the text of the failure.
func (v *Verdict) Error() string {
	if v.Err == nil {
		return fmt.Sprintf("%s for %s", v.Result, v.Delay)
	}
	return v.Err.Error()
}

// Unwrap returns the failure.
func (v *Verdict) Unwrap() error { return v.Err }

// ErrorType is the result; OpenTelemetry uses it as the attribute error.type.
func (v *Verdict) ErrorType() string { return string(v.Result) }

// verdict is nil without a failure, as errors.Join is.
func verdict(result contract.Result, delay time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &Verdict{Result: result, Delay: delay, Err: err}
}

// Permanent says that no attempt can help: the message goes to the dead-letter queue at once. Permanent(nil) is nil.
func Permanent(err error) error { return verdict(contract.ResultPermanent, 0, err) }

// RetryAfter is a failure after which the message waits for at least d, if a delay tier is that long. It counts as an attempt. Under
// the strategies Reject and Requeue the message waits for as long as after any failure. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error { return verdict(contract.ResultFailed, d, err) }

// Defer says that it is too early: the message comes again after d, or the longest delay tier if that is shorter, and no attempt is
// counted. Without delay tiers the message is kept in hand, for 30 s at most, and returned, which RabbitMQ before 4.3 counts as a delivery.
// A message can be deferred any number of times; see Delivery.Deferrals.
func Defer(d time.Duration) error { return &Verdict{Result: contract.ResultDeferred, Delay: d} }

// Discard says that the message failed and is done with: it is acked, counted and logged. Discard(nil) is nil.
func Discard(err error) error { return verdict(contract.ResultDiscarded, 0, err) }

// UnroutableError says that no queue gets a message.
type UnroutableError struct {
	Exchange, RoutingKey, Reply string
}

func (e *UnroutableError) Error() string {
	return fmt.Sprintf("exchange %q leads routing key %q to no queue: %s", e.Exchange, e.RoutingKey, e.Reply)
}

// RefusedError says that the broker did not take a message; a queue may be full.
type RefusedError struct {
	Exchange, RoutingKey string
	// Reason is empty where the broker gave none.
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the broker refused a message for exchange %q and routing key %q: %s",
		e.Exchange, e.RoutingKey, cmp.Or(e.Reason, "the queue may be full"))
}

// isRefusal says that the broker did not take a message, for sure.
func isRefusal(err error) bool {
	return errors.As(err, new(*UnroutableError)) || errors.As(err, new(*RefusedError))
}

// UnknownOutcomeError says that the broker may have taken a message or not. It mostly has.
type UnknownOutcomeError struct {
	Cause error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("whether the broker took the message is not known: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *UnknownOutcomeError) Unwrap() error { return e.Cause }

// DrainError says that handlers did not end in time. Their messages are delivered again.
type DrainError struct {
	// Abandoned are the message IDs of the deliveries, or their tags where there is none.
	Abandoned []string
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("%d handlers did not end in time: %s", len(e.Abandoned), strings.Join(e.Abandoned, ", "))
}
