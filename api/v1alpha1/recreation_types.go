package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecreatePolicy says what Warren does when a queue has to be recreated.
//
// +kubebuilder:validation:Enum=Manual;WhenEmpty;Migrate
type RecreatePolicy string

// The values of RecreatePolicy.
const (
	// RecreatePolicyManual reports and touches nothing.
	RecreatePolicyManual RecreatePolicy = "Manual"
	// RecreatePolicyWhenEmpty recreates a queue as soon as it has no ready message and no consumer.
	RecreatePolicyWhenEmpty RecreatePolicy = "WhenEmpty"
	// RecreatePolicyMigrate also recreates a main queue that holds messages: Warren moves them to another queue and back.
	RecreatePolicyMigrate RecreatePolicy = "Migrate"
)

// RecreationSpec says how queues are recreated under recreatePolicy WhenEmpty or Migrate.
type RecreationSpec struct {
	// approval sets whether a recreation under Migrate waits for the annotation messaging.warren.dev/approve-recreation. Required, unless
	// given, waits for it; Automatic does not. WhenEmpty needs no approval.
	// +optional
	Approval RecreationApproval `json:"approval,omitempty"`

	// maxReadyMessages is how many ready messages the main queue may hold when a recreation under Migrate begins, 100000 if not given.
	// While more are ready, Warren waits.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	MaxReadyMessages *int32 `json:"maxReadyMessages,omitempty"`

	// settleTimeout is for how long Warren tries to show that the queue is empty before it goes back to the old queue, 2m if not given.
	// +kubebuilder:validation:XValidation:rule="!isDuration(self) || (lengthOf(self) >= 10000 && lengthOf(self) <= 600000)",message="must be between 10s and 10m"
	// +optional
	SettleTimeout Duration `json:"settleTimeout,omitempty"`

	// publishersPastBindings says what to do about messages that are published to the queue by its name while no exchange leads to it.
	// Refuse, unless given, goes back to the old queue. Accept moves them; a publisher to the default exchange without mandatory may lose
	// what it publishes in the milliseconds between the deletion and the declaration.
	// +optional
	PublishersPastBindings PublishersPastBindings `json:"publishersPastBindings,omitempty"`
}

// RecreationApproval sets whether a recreation needs an approval.
//
// +kubebuilder:validation:Enum=Required;Automatic
type RecreationApproval string

// The values of RecreationApproval.
const (
	ApprovalRequired  RecreationApproval = "Required"
	ApprovalAutomatic RecreationApproval = "Automatic"
)

// PublishersPastBindings says what to do about messages that no exchange brought.
//
// +kubebuilder:validation:Enum=Refuse;Accept
type PublishersPastBindings string

// The values of PublishersPastBindings.
const (
	PublishersRefuse PublishersPastBindings = "Refuse"
	PublishersAccept PublishersPastBindings = "Accept"
)

// RecreationPhase is how far a recreation is.
//
// +kubebuilder:validation:Enum=Waiting;Diverting;Emptying;Swapping;GivingBack
type RecreationPhase string

// The values of RecreationPhase.
const (
	// RecreationWaiting: nothing has been written to the broker.
	RecreationWaiting RecreationPhase = "Waiting"
	// RecreationDiverting: the bindings of the queue are moved to the hold queue.
	RecreationDiverting RecreationPhase = "Diverting"
	// RecreationEmptying: the messages of the queue are moved to the backlog queue.
	RecreationEmptying RecreationPhase = "Emptying"
	// RecreationSwapping: a fence stands, and the queue is shown to be empty, deleted and declared.
	RecreationSwapping RecreationPhase = "Swapping"
	// RecreationGivingBack: the messages of the backlog and hold queues are moved to the queue, and its bindings come back.
	RecreationGivingBack RecreationPhase = "GivingBack"
)

// RecreationStatus is the recreation that is planned or under way, and how the last one ended.
type RecreationStatus struct {
	// id identifies the recreation; it is part of the names of the hold and backlog queues and of their exchanges. Empty if no recreation
	// is planned.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	ID string `json:"id,omitempty"`

	// queue that is recreated: the main queue, a delay tier or the dead-letter queue. Empty if none is planned.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Queue string `json:"queue,omitempty"`

	// phase is how far the recreation is: Waiting, Diverting, Emptying, Swapping or GivingBack. Empty if none is planned.
	// +optional
	Phase RecreationPhase `json:"phase,omitempty"` //nolint:kubeapilinter // a restarted manager goes on with what this records

	// approvedPlanHash is the status.planHash that was approved; it holds for the other queues of the same generation, too.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	ApprovedPlanHash string `json:"approvedPlanHash,omitempty"`

	// approvedGeneration is metadata.generation when the plan was approved; an approval does not hold for a later one.
	// +optional
	ApprovedGeneration int64 `json:"approvedGeneration,omitempty"`

	// newArguments are the arguments of the new queue as a JSON object. They are fixed when the recreation is planned.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	NewArguments string `json:"newArguments,omitempty"`

	// bindings are all bindings that the queue had when the recreation began, foreign ones too.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Bindings []RecordedBinding `json:"bindings,omitempty"`

	// deleteSent reports that a queue.delete may have reached the broker: the recreation can no longer be aborted.
	// +optional
	DeleteSent bool `json:"deleteSent,omitempty"`

	// backOutReason is why the recreation goes back to the old queue; empty unless it does.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	BackOutReason string `json:"backOutReason,omitempty"`

	// backOutMessage says in a sentence why the recreation goes back, and names the object that is the cause.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	BackOutMessage string `json:"backOutMessage,omitempty"`

	// attempts is how often this recreation went back because the queue could not be shown to be empty. After three it is Blocked.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// runs is how often a manager has begun work on this recreation. A manager whose number is older stops its work.
	// +optional
	Runs int64 `json:"runs,omitempty"`

	// emptiedTime is when the queue was emptied first. What comes to the queue after that came past the bindings.
	// +optional
	EmptiedTime *metav1.Time `json:"emptiedTime,omitempty"`

	// remaining is how many ready messages are still to be moved out of the queue, and later back from the backlog and hold queues.
	// +optional
	Remaining int64 `json:"remaining,omitempty"`

	// moved is how many messages were moved so far, both ways.
	// +optional
	Moved int64 `json:"moved,omitempty"`

	// pastBindings is how many messages came to the queue while no exchange led to it.
	// +optional
	PastBindings int64 `json:"pastBindings,omitempty"`

	// hold is the queue to which the bindings lead meanwhile; empty for a delay tier to which nothing is bound, which needs none.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Hold string `json:"hold,omitempty"`

	// backlog is the queue to which the messages are moved; empty if hold is.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Backlog string `json:"backlog,omitempty"`

	// consumersMayStart reports that consumers of the queue get messages again.
	// +optional
	ConsumersMayStart bool `json:"consumersMayStart,omitempty"`

	// pause is what the contract in the ConfigMap of spec.contract asks the consumers for; absent if it does not ask for a pause.
	// +optional
	Pause *ConsumerPause `json:"pause,omitempty"`

	// pauses is how often consumers were asked to pause for this recreation. After three, Warren waits until they are stopped by hand.
	// +optional
	Pauses int32 `json:"pauses,omitempty"`

	// lastResult is how the last recreation ended: completed, or backed out with a reason. Absent before the first one.
	// +optional
	LastResult *RecreationResult `json:"lastResult,omitempty"`
}

// ConsumerPause asks the consumers of the main queue to stop consuming.
type ConsumerPause struct {
	// until is when the consumers consume again, even if the ConfigMap still asks for the pause.
	// +required
	Until metav1.Time `json:"until,omitzero"`

	// ended reports that the pause is over, and that the ConfigMap may still ask for it.
	// +optional
	Ended bool `json:"ended,omitempty"`
}

// EndPause makes the consumers consume again, if they were asked to pause.
func (r *RecreationStatus) EndPause() {
	if r.Pause != nil {
		r.Pause = &ConsumerPause{Until: r.Pause.Until, Ended: true}
	}
}

// IsUnderWay reports whether a recreation has begun to write to the broker and has not ended.
func (r *RecreationStatus) IsUnderWay() bool {
	return r != nil && r.Phase != "" && r.Phase != RecreationWaiting
}

// RecordedBinding is a binding that the queue had when its recreation began.
type RecordedBinding struct {
	// source is the exchange that the binding gets messages from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +required
	Source string `json:"source,omitempty"`

	// routingKey that the queue was bound with; empty for the empty key, as a fanout exchange has it.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	RoutingKey string `json:"routingKey,omitempty"`

	// arguments of the binding as a JSON object; empty if there are none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Arguments string `json:"arguments,omitempty"`
}

// RecreationOutcome is how a recreation ended.
//
// +kubebuilder:validation:Enum=Completed;BackedOut
type RecreationOutcome string

// The values of RecreationOutcome.
const (
	// RecreationCompleted: the queue has the new arguments.
	RecreationCompleted RecreationOutcome = "Completed"
	// RecreationBackedOut: the old queue stayed, with its messages and bindings.
	RecreationBackedOut RecreationOutcome = "BackedOut"
)

// RecreationResult is how a recreation ended, and when.
type RecreationResult struct {
	// id that status.recreation.id had while the recreation was under way.
	// +kubebuilder:validation:MaxLength=16
	// +required
	ID string `json:"id,omitempty"`

	// queue that was to be recreated: the main queue, a delay tier or the dead-letter queue.
	// +kubebuilder:validation:MaxLength=255
	// +required
	Queue string `json:"queue,omitempty"`

	// result is Completed or BackedOut.
	// +required
	Result RecreationOutcome `json:"result,omitempty"`

	// reason is why the recreation went back; empty if it completed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says in a sentence why the recreation went back; empty if it completed.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// time when the recreation completed, or when the old queue had its messages and bindings again.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// Why a recreation goes back to the old queue.
const (
	// BackOutAborted: the annotation abort-recreation named the recreation, recreatePolicy became Manual, or the spec was edited back.
	BackOutAborted = "Aborted"
	// BackOutConsumersCameBack: a consumer subscribed to the queue.
	BackOutConsumersCameBack = "ConsumersCameBack"
	// BackOutPauseEnded: the consumers were asked to pause, and the recreation could not begin in time.
	BackOutPauseEnded = "PauseEnded"
	// BackOutMessagesCame: a message came to a delay tier or a dead-letter queue.
	BackOutMessagesCame = "MessagesCame"
	// BackOutPublishersPastBindings: messages come to the queue past its bindings.
	BackOutPublishersPastBindings = "PublishersPastBindings"
	// BackOutNotProven: the queue could not be shown to be empty within spec.recreation.settleTimeout.
	BackOutNotProven = "NotProven"
	// BackOutRefused: the broker, or something about the queue, does not allow the recreation; the message says what.
	BackOutRefused = "Refused"
	// BackOutStatusLost: the status was lost before the old queue was deleted.
	BackOutStatusLost = "StatusLost"
	// BackOutDeleted: the ConsumerQueue is being deleted.
	BackOutDeleted = "Deleted"
)

// ApproveRecreationAnnotation approves a recreation under recreatePolicy Migrate. Its value is the status.planHash that was seen.
const ApproveRecreationAnnotation = "messaging.warren.dev/approve-recreation"

// AbortRecreationAnnotation aborts a recreation. Its value is status.recreation.id.
const AbortRecreationAnnotation = "messaging.warren.dev/abort-recreation"
