package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RedriveSpec says which dead letters of a ConsumerQueue are moved, where to, and how fast. All but rate, suspend, cancel and
// ttlSecondsAfterFinished is fixed.
//
// +kubebuilder:validation:XValidation:rule="isSameRedrive(self, oldSelf)",message="only rate, suspend, cancel and ttlSecondsAfterFinished can be changed: create another Redrive"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancel) && oldSelf.cancel) || has(self.cancel) && self.cancel",fieldPath=".cancel",message="a cancelled Redrive stays cancelled: create another Redrive"
type RedriveSpec struct {
	// consumerQueueRef names the ConsumerQueue in this namespace whose dead-letter queue the messages are taken from.
	// +required
	ConsumerQueueRef LocalObjectReference `json:"consumerQueueRef,omitzero"`

	// destination is where the messages are moved to, the main queue if not given.
	// +optional
	Destination *RedriveDestination `json:"destination,omitempty"`

	// selector chooses the messages that are moved: those that match each of its fields. An empty selector chooses all messages.
	// +optional
	Selector *DeadLetterSelector `json:"selector,omitempty"`

	// maxMessages is how many messages are moved at most. A Redrive also reads no more messages than were ready when it began.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxMessages *int32 `json:"maxMessages,omitempty"`

	// rate is how many messages are moved each second, or Unlimited. It can be changed while the Redrive runs.
	// +kubebuilder:default=100
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 100000)",message="must be between 1 and 100000 messages a second, or Unlimited"
	// +optional
	Rate *intstr.IntOrString `json:"rate,omitempty"`

	// maxDestinationDepth is how many ready messages the destination may have, or Unlimited. Where it has more, the Redrive waits. For
	// destination.type Retry, the messages of the main queue count, too. Original has no such limit.
	// +kubebuilder:default=10000
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 2147483647)",message="must be at least 1, or Unlimited"
	// +optional
	MaxDestinationDepth *intstr.IntOrString `json:"maxDestinationDepth,omitempty"`

	// maxRedrives is how often a message may be moved in all, by this and former Redrives, or Unlimited.
	// +kubebuilder:default=3
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 2147483647)",message="must be at least 1, or Unlimited"
	// +optional
	MaxRedrives *intstr.IntOrString `json:"maxRedrives,omitempty"`

	// maxFailures ends the Redrive when so many messages could not be moved.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxFailures *int32 `json:"maxFailures,omitempty"`

	// removeHeaders are headers that messages lose, besides those of RabbitMQ and of Warren's consumers: the application's own count of
	// attempts.
	// +kubebuilder:default={"x-retry-count"}
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +optional
	RemoveHeaders []string `json:"removeHeaders,omitempty"`

	// requestedBy is who asked for the Redrive, the user name that the API server knows. It is written on each message.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`

	// reason is why somebody asked for the Redrive. It is written on each message.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Reason string `json:"reason,omitempty"`

	// dryRun counts the messages that would be moved, and moves none.
	// +kubebuilder:default=false
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// suspend stops the Redrive until suspend is taken back.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// cancel ends the Redrive. Messages that were moved stay moved.
	// +kubebuilder:default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// ttlSecondsAfterFinished is for how long the Redrive is kept after it has ended; for ever if not given.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RedriveDestination is where messages are moved to.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'ConsumerQueue') == has(self.consumerQueueRef)",message="consumerQueueRef belongs to type ConsumerQueue, which needs it"
// +kubebuilder:validation:XValidation:rule="self.type == 'Retry' || !has(self.delay)",message="delay belongs to type Retry: remove delay, or set type Retry"
type RedriveDestination struct {
	// type is Main: the main queue; Retry: a delay tier, so that the messages wait once more; Original: the exchange that each message was
	// published to first, which may lead to queues of others, too; or ConsumerQueue: the main queue of another ConsumerQueue.
	// +required
	Type RedriveDestinationType `json:"type,omitempty"`

	// delay is that of the tier, the first tier if not given.
	// +optional
	Delay Duration `json:"delay,omitempty"`

	// consumerQueueRef names a ConsumerQueue in this namespace with the same BrokerConnection.
	// +optional
	ConsumerQueueRef *LocalObjectReference `json:"consumerQueueRef,omitempty"`
}

// RedriveDestinationType says where messages are moved to.
//
// +kubebuilder:validation:Enum=Main;Retry;Original;ConsumerQueue
type RedriveDestinationType string

// The values of RedriveDestinationType.
const (
	RedriveToMain          RedriveDestinationType = "Main"
	RedriveToRetry         RedriveDestinationType = "Retry"
	RedriveToOriginal      RedriveDestinationType = "Original"
	RedriveToConsumerQueue RedriveDestinationType = "ConsumerQueue"
)

// RedriveStatus is how a Redrive fares.
type RedriveStatus struct {
	TransferStatus `json:",inline"`

	// destination is the queue that messages are moved to; empty for destination.type Original.
	// +optional
	Destination QueueName `json:"destination,omitempty"`

	// moved is how many messages were moved; with atMost, at least so many. In a dry run it is how many would be moved.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Moved *int64 `json:"moved,omitempty"`

	// failed is how many messages could not be moved. They stay in the dead-letter queue.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Failed *int64 `json:"failed,omitempty"`

	// failures are the first of the messages that could not be moved.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Failures []RedriveFailure `json:"failures,omitempty"`
}

// RedriveFailure is a message that could not be moved. Nothing of its headers or body is told.
type RedriveFailure struct {
	// id is a fingerprint, as in spec.selector.ids.
	// +kubebuilder:validation:MaxLength=16
	// +required
	ID string `json:"id,omitempty"`

	// reason says in a word why the message could not be moved.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason,omitempty"`

	// message says what the broker said.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// Redrive moves dead letters of a ConsumerQueue back, once.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=warren,shortName=rdr
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.status.destination`
// +kubebuilder:printcolumn:name="Moved",type=integer,JSONPath=`.status.moved`
// +kubebuilder:printcolumn:name="Of",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="By",type=string,priority=1,JSONPath=`.spec.requestedBy`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Redrive struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which dead letters are moved, where to, and how fast.
	// +required
	Spec RedriveSpec `json:"spec,omitzero"`

	// status is how far the Redrive is: what was moved, what stays, and why.
	// +kubebuilder:default:={"observedGeneration":-1, "conditions":{{"type":"Ready", "status":"Unknown", "reason":"Pending", "message":"not reconciled yet", "lastTransitionTime":"1970-01-01T00:00:00Z"}}}
	// +optional
	Status RedriveStatus `json:"status,omitempty"`
}

// RedriveList is a list of Redrives.
//
// +kubebuilder:object:root=true
type RedriveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Redrive `json:"items"`
}
