package consumerqueue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// failedObjects returns the objects that an error is about.
func failedObjects(err error) vhost.IDs {
	ids := vhost.IDs{}
	for _, failure := range failuresIn(err) {
		ids[failure.ID] = true
	}
	return ids
}

// failuresIn returns the failures of single objects in an error.
func failuresIn(err error) []*brokererr.ObjectError {
	joined, several := err.(interface{ Unwrap() []error })
	if !several {
		if failure, ok := errors.AsType[*brokererr.ObjectError](err); ok {
			return []*brokererr.ObjectError{failure}
		}
		return nil
	}
	var failures []*brokererr.ObjectError
	for _, one := range joined.Unwrap() {
		failures = append(failures, failuresIn(one)...)
	}
	return failures
}

// unanswered replaces time-outs of queue declarations by ErrQueueNotStarted. Call it when the broker has since answered a refresh, which
// shows that the network is not the cause.
func unanswered(applied error) error {
	failures := failuresIn(applied)
	isUnanswered := func(failure *brokererr.ObjectError) bool {
		return failure.Op == brokererr.OpDeclare && failure.ID.Kind == vhost.KindQueue && errors.Is(failure.Err, brokererr.ErrTimeout)
	}
	if !slices.ContainsFunc(failures, isUnanswered) {
		return applied
	}
	all := make([]error, len(failures))
	for i, failure := range failures {
		if isUnanswered(failure) {
			named := *failure
			named.Err = fmt.Errorf("%w: RabbitMQ gave no answer in time, but answers other requests", brokererr.ErrQueueNotStarted)
			failure = &named
		}
		all[i] = failure
	}
	return errors.Join(all...)
}

// retryable returns the errors that a retry may fix. It returns nil for errors that a user must fix, because the next resync compares the
// topology again.
func retryable(applied error) error {
	if applied == nil || brokererr.IsAny(applied, brokererr.ErrAccessRefused, brokererr.ErrPreconditionFailed,
		brokererr.ErrInvalidArgument, brokererr.ErrTooLarge, brokererr.ErrResourceLocked) {
		return nil
	}
	return shortError{applied}
}

// shortError limits the text of an error for the log, however many errors it joins.
type shortError struct{ error }

func (e shortError) Error() string { return conditions.ErrorSummary(e.error) }

func (e shortError) Unwrap() error { return e.error }
