package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecreatePolicy is what Warren does when a queue must be recreated.
//
// +kubebuilder:validation:Enum=Manual;WhenEmpty;Migrate
type RecreatePolicy string

// The values of RecreatePolicy.
const (
	// RecreatePolicyManual reports the change and leaves the queue as it is.
	RecreatePolicyManual RecreatePolicy = "Manual"
	// RecreatePolicyWhenEmpty recreates a queue as soon as it has no ready message and no consumer.
	RecreatePolicyWhenEmpty RecreatePolicy = "WhenEmpty"
	// RecreatePolicyMigrate also recreates a main queue that holds messages: Warren moves them to another queue and back.
	RecreatePolicyMigrate RecreatePolicy = "Migrate"
)

// RecreationSpec defines how queues are recreated under recreatePolicy WhenEmpty or Migrate.
type RecreationSpec struct {
	// approval is Required or Automatic; Required if not given. With Required, a recreation under Migrate waits for the annotation
	// messaging.warren.dev/approve-recreation. A recreation always waits for the annotation if Warren neither declared the queue nor ever
	// saw it in sync, or if only a broker upgrade requires the recreation.
	// +optional
	Approval RecreationApproval `json:"approval,omitempty"`

	// maxReadyMessages is the largest number of ready messages in the main queue when a recreation under Migrate begins; 100000 if
	// not given. While more are ready, the recreation waits.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	MaxReadyMessages *int32 `json:"maxReadyMessages,omitempty"`

	// settleTimeout is how long Warren tries to prove that the queue is empty; 2m if not given. If the proof fails, Warren restores the
	// old queue.
	// +kubebuilder:validation:XValidation:rule="!isDuration(self) || (lengthOf(self) >= 10000 && lengthOf(self) <= 600000)",message="must be between 10s and 10m"
	// +optional
	SettleTimeout Duration `json:"settleTimeout,omitempty"`

	// publishersPastBindings is what Warren does if clients publish to the queue by its name during a recreation. Refuse, the default,
	// restores the old queue. Accept moves these messages to the new queue. With Accept, a client that publishes without the mandatory flag
	// may lose messages in the milliseconds between the deletion and the declaration of the queue.
	// +optional
	PublishersPastBindings PublishersPastBindings `json:"publishersPastBindings,omitempty"`
}

// RecreationApproval is whether a recreation needs an approval.
//
// +kubebuilder:validation:Enum=Required;Automatic
type RecreationApproval string

// The values of RecreationApproval.
const (
	ApprovalRequired  RecreationApproval = "Required"
	ApprovalAutomatic RecreationApproval = "Automatic"
)

// PublishersPastBindings is what Warren does about messages that are published to a queue by its name while it is recreated.
//
// +kubebuilder:validation:Enum=Refuse;Accept
type PublishersPastBindings string

// The values of PublishersPastBindings.
const (
	PublishersRefuse PublishersPastBindings = "Refuse"
	PublishersAccept PublishersPastBindings = "Accept"
)

// RecreationPhase is the current step of a recreation.
//
// +kubebuilder:validation:Enum=Waiting;Diverting;Emptying;Swapping;GivingBack
type RecreationPhase string

// The values of RecreationPhase.
const (
	// RecreationWaiting: nothing has been written to the broker.
	RecreationWaiting RecreationPhase = "Waiting"
	// RecreationDiverting: Warren moves the bindings of the queue to the hold queue.
	RecreationDiverting RecreationPhase = "Diverting"
	// RecreationEmptying: Warren moves the messages of the queue to the backlog queue.
	RecreationEmptying RecreationPhase = "Emptying"
	// RecreationSwapping: behind a fence, Warren proves the queue empty, deletes it and declares it again.
	RecreationSwapping RecreationPhase = "Swapping"
	// RecreationGivingBack: Warren moves the messages of the backlog and hold queues, and the bindings, back to the queue.
	RecreationGivingBack RecreationPhase = "GivingBack"
)

// RecreationStatus is the recreation that is planned or under way, and how the last one ended.
type RecreationStatus struct {
	// id identifies the recreation. The names of the hold and backlog queues and of their exchanges contain it. It is empty if no
	// recreation is planned.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	ID string `json:"id,omitempty"`

	// queue is the queue to recreate: the main queue, a delay tier or the dead-letter queue. It is empty if no recreation is
	// planned.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Queue string `json:"queue,omitempty"`

	// phase is the current step: Waiting, Diverting, Emptying, Swapping or GivingBack. It is empty if no recreation is planned.
	// +optional
	Phase RecreationPhase `json:"phase,omitempty"` //nolint:kubeapilinter // a restarted manager continues at this phase

	// approvedPlanHash is the status.planHash that was approved. The approval also applies to the other queues of the same
	// generation.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	ApprovedPlanHash string `json:"approvedPlanHash,omitempty"`

	// approvedGeneration is metadata.generation when the plan was approved. The approval applies to a later generation only while its
	// status.planHash is the same.
	// +optional
	ApprovedGeneration int64 `json:"approvedGeneration,omitempty"`

	// newArguments are the arguments of the new queue as a JSON object. They are fixed when the recreation is planned.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	NewArguments string `json:"newArguments,omitempty"`

	// bindings are all bindings that the queue had when the recreation began, including foreign ones.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Bindings []RecordedBinding `json:"bindings,omitempty"`

	// deleteSent is true once a queue.delete may have reached the broker. The recreation can no longer be aborted then.
	// +optional
	DeleteSent bool `json:"deleteSent,omitempty"`

	// backOutReason is why Warren restores the old queue; empty unless it does.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	BackOutReason string `json:"backOutReason,omitempty"`

	// backOutMessage describes why Warren restores the old queue, and names the object that is the cause.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	BackOutMessage string `json:"backOutMessage,omitempty"`

	// attempts is how often this recreation failed: the broker refused it, the queue was not proven empty, or clients published to
	// it by its name. After three attempts, Warren stops with the reason RecreationBlocked. A changed spec, a new approval and an
	// abort reset the count.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// attemptsGeneration is the metadata.generation for which attempts counts. The count does not apply to a later generation.
	// +optional
	AttemptsGeneration int64 `json:"attemptsGeneration,omitempty"`

	// runs is how often a manager began to work on this recreation. A manager that began earlier stops its work.
	// +optional
	Runs int64 `json:"runs,omitempty"`

	// emptiedTime is when the queue was first empty. Later messages, except those of delay tiers, were published to the queue by
	// its name.
	// +optional
	EmptiedTime *metav1.Time `json:"emptiedTime,omitempty"`

	// remaining is the number of ready messages that Warren still has to move: out of the queue, and later back from the backlog
	// and hold queues.
	// +optional
	Remaining int64 `json:"remaining,omitempty"`

	// moved is the number of messages that were moved, in both directions.
	// +optional
	Moved int64 `json:"moved,omitempty"`

	// pastBindings is the number of messages that were published to the queue by its name while no exchange was bound to it.
	// +optional
	PastBindings int64 `json:"pastBindings,omitempty"`

	// hold is the queue to which the bindings lead during the recreation. It is empty for a delay tier without bindings.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Hold string `json:"hold,omitempty"`

	// backlog is the queue to which the messages are moved. It is empty if hold is empty.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Backlog string `json:"backlog,omitempty"`

	// consumersMayStart is true when consumers of the queue can be started again.
	// +optional
	ConsumersMayStart bool `json:"consumersMayStart,omitempty"`

	// pause is the pause that Warren requests from the consumers, through the ConfigMap of spec.contract; absent if it requests none.
	// +optional
	Pause *ConsumerPause `json:"pause,omitempty"`

	// pauses is how often consumers were asked to pause for this recreation. After three pauses, Warren waits until you stop the
	// consumers.
	// +optional
	Pauses int32 `json:"pauses,omitempty"`

	// lastResult is how the last recreation ended: it completed, or Warren restored the old queue. It is absent before the first
	// recreation.
	// +optional
	LastResult *RecreationResult `json:"lastResult,omitempty"`
}

// ConsumerPause asks the consumers of the main queue to stop consuming.
type ConsumerPause struct {
	// until is when the consumers resume, even if the ConfigMap still asks for the pause.
	// +required
	Until metav1.Time `json:"until,omitzero"`

	// ended is true when the pause is over. The ConfigMap may still ask for it for a moment.
	// +optional
	Ended bool `json:"ended,omitempty"`
}

// EndPause marks the pause as ended, so that the consumers resume. It does nothing if there is no pause.
func (r *RecreationStatus) EndPause() {
	if r.Pause != nil {
		r.Pause = &ConsumerPause{Until: r.Pause.Until, Ended: true}
	}
}

// IsUnderWay reports whether a recreation has begun to write to the broker and has not ended.
func (r *RecreationStatus) IsUnderWay() bool {
	return r != nil && r.Phase != "" && r.Phase != RecreationWaiting
}

// MayBeAborted reports whether an abort still has an effect. It has none once the queue may have been deleted, or gets its messages back.
func (r *RecreationStatus) MayBeAborted() bool {
	return r != nil && !r.DeleteSent && r.Phase != RecreationGivingBack
}

// RecordedBinding is a binding that the queue had when its recreation began.
type RecordedBinding struct {
	// source is the exchange that the binding gets messages from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +required
	Source string `json:"source,omitempty"`

	// routingKey with which the queue was bound; empty for the empty key, for example of a fanout exchange.
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
	// RecreationBackedOut: Warren restored the old queue, with its messages and bindings.
	RecreationBackedOut RecreationOutcome = "BackedOut"
)

// RecreationResult is how a recreation ended, and when.
type RecreationResult struct {
	// id is the status.recreation.id that this recreation had while it was under way.
	// +kubebuilder:validation:MaxLength=16
	// +required
	ID string `json:"id,omitempty"`

	// queue of the recreation: the main queue, a delay tier or the dead-letter queue.
	// +kubebuilder:validation:MaxLength=255
	// +required
	Queue string `json:"queue,omitempty"`

	// result is Completed or BackedOut.
	// +required
	Result RecreationOutcome `json:"result,omitempty"`

	// reason is why Warren restored the old queue, in one word; empty if the recreation completed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes why Warren restored the old queue; empty if the recreation completed.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// time when the recreation completed, or when the old queue had its messages and bindings again.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// Reasons to restore the old queue.
const (
	// BackOutAborted: the annotation abort-recreation named the recreation, recreatePolicy became Manual, or the spec was reverted.
	BackOutAborted = "Aborted"
	// BackOutConsumersCameBack: a client began to consume the queue.
	BackOutConsumersCameBack = "ConsumersCameBack"
	// BackOutDeadLetterSourceInUse: another queue that dead-letters to the queue at most once has messages or consumers.
	BackOutDeadLetterSourceInUse = "DeadLetterSourceInUse"
	// BackOutPauseEnded: the consumers were asked to pause, and the recreation could not begin in time.
	BackOutPauseEnded = "PauseEnded"
	// BackOutMessagesCame: a delay tier without bindings received a message.
	BackOutMessagesCame = "MessagesCame"
	// BackOutPublishersPastBindings: clients publish to the queue by its name.
	BackOutPublishersPastBindings = "PublishersPastBindings"
	// BackOutNotProven: Warren could not prove the queue empty within spec.recreation.settleTimeout.
	BackOutNotProven = "NotProven"
	// BackOutRefused: the broker refuses the recreation, or the queue does not allow it; the message gives the reason.
	BackOutRefused = "Refused"
	// BackOutStatusLost: the status was lost. The queue may be the old or the new one.
	BackOutStatusLost = "StatusLost"
	// BackOutDeleted: the ConsumerQueue is being deleted.
	BackOutDeleted = "Deleted"
)

// ApproveRecreationAnnotation approves a recreation. Its value is status.planHash.
const ApproveRecreationAnnotation = "messaging.warren.dev/approve-recreation"

// AbortRecreationAnnotation aborts a recreation. Its value is status.recreation.id.
const AbortRecreationAnnotation = "messaging.warren.dev/abort-recreation"
