package consumerqueue

import (
	"errors"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// failedObjects are the objects that an error is about.
func failedObjects(err error) vhost.IDs {
	ids := vhost.IDs{}
	for _, failure := range failuresIn(err) {
		ids[failure.ID] = true
	}
	return ids
}

// failuresIn finds the failures of single objects in an error.
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
