package recreate

import (
	"errors"
	"fmt"
)

// Reason is why a phase cannot be completed. An error without a Reason comes from package brokererr, and the same call may
// succeed later.
type Reason string

// The reasons why a recreation cannot begin, or must be backed out.
const (
	// UnsupportedQueue: only durable quorum queues are recreated.
	UnsupportedQueue Reason = "UnsupportedQueue"
	// MissingPermission: the user lacks the tag policymaker, or a permission on the names of the recreation.
	MissingPermission Reason = "MissingPermission"
	// ArgumentsRefused: the broker refuses the new arguments.
	ArgumentsRefused Reason = "ArgumentsRefused"
	// OperationRefused: the broker refuses an operation, for example because a limit is reached.
	OperationRefused Reason = "OperationRefused"
	// TooManyBindings: the queue has more than MaxBindings bindings, or they have more than MaxBindingBytes of arguments.
	TooManyBindings Reason = "TooManyBindings"
	// BoundQueue: a queue that is recreated without a hold has bindings.
	BoundQueue Reason = "BoundQueue"
	// LossyDeadLetters: the queue, or a queue that leads to it, dead-letters at most once, so messages could be lost.
	LossyDeadLetters Reason = "LossyDeadLetters"
	// LossyDeliveries: the queue drops messages after few deliveries, and a recreation delivers messages.
	LossyDeliveries Reason = "LossyDeliveries"
	// LossyLength: the queue drops its oldest messages when it is full, and Warren cannot move its messages back within that length.
	LossyLength Reason = "LossyLength"
	// InterferingPolicy: a policy would drop messages of the hold, or would make the fence ineffective.
	InterferingPolicy Reason = "InterferingPolicy"
	// SharedVHost: another instance works on the vhost.
	SharedVHost Reason = "SharedVHost"
	// QueueBusy: a deletion, a Redrive, a Purge or a browse of Warren works on the queue, or a Redrive moves messages to it.
	QueueBusy Reason = "QueueBusy"
	// QueueUnavailable: the queue has no leader or no majority, or the broker has an alarm.
	QueueUnavailable Reason = "QueueUnavailable"
)

// The reasons why a phase must end early.
const (
	// ConsumersCameBack: the queue has consumers, or a former consumer still holds messages of it.
	ConsumersCameBack Reason = "ConsumersCameBack"
	// DeadLetterSourceInUse: another queue that dead-letters to the queue at most once has messages or consumers.
	DeadLetterSourceInUse Reason = "DeadLetterSourceInUse"
	// PublishersPastBindings: Swap found messages in the queue. They came past the bindings, because the bindings lead to the
	// hold.
	PublishersPastBindings Reason = "PublishersPastBindings"
	// MessagesPending: the queue holds messages that wait to be redelivered or dead-lettered.
	MessagesPending Reason = "MessagesPending"
	// NotProven: Swap could not show that the queue is empty. The message has the reason.
	NotProven Reason = "NotProven"
	// AMQP10Message: a message of AMQP 1.0 cannot be moved without a loss.
	AMQP10Message Reason = "AMQP10Message"
	// MessageNotMoved: a message cannot be moved. The message of the error has the reason.
	MessageNotMoved Reason = "MessageNotMoved"
	// BindingsComeBack: another client binds the queue again each time Divert unbinds it.
	BindingsComeBack Reason = "BindingsComeBack"
	// Aborted: the user has aborted the recreation. Only recordDelete, a parameter of Swap, fails with it.
	Aborted Reason = "Aborted"
	// DeleteUncertain: RabbitMQ may still be deleting the queue, or has deleted it and fails to declare it. The fence stays closed.
	// The caller records DeleteSent and calls Swap again.
	DeleteUncertain Reason = "DeleteUncertain"
)

// Error is a failure with a Reason. It may wrap an error of package brokererr.
type Error struct {
	Reason  Reason
	Message string
	err     error
}

// Error returns the message for users.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error of the broker, if there is one.
func (e *Error) Unwrap() error { return e.err }

// ReasonOf returns the Reason of an error; empty if it has none.
func ReasonOf(err error) Reason {
	if own, ok := errors.AsType[*Error](err); ok {
		return own.Reason
	}
	return ""
}

func refuse(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// withReason adds a Reason to an error of the broker.
func withReason(reason Reason, err error) error { return &Error{reason, err.Error(), err} }
