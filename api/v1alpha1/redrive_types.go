package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RedriveSpec defines which dead letters of a ConsumerQueue are moved, their destination and the rate. Only rate, suspend, cancel
// and ttlSecondsAfterFinished can be changed.
//
// +kubebuilder:validation:XValidation:rule="isSameRedrive(self, oldSelf)",message="only rate, suspend, cancel and ttlSecondsAfterFinished can be changed: create another Redrive"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancel) && oldSelf.cancel) || has(self.cancel) && self.cancel",fieldPath=".cancel",message="a cancelled Redrive stays cancelled: create another Redrive"
type RedriveSpec struct {
	// consumerQueueRef names the ConsumerQueue in this namespace from whose dead-letter queue messages are moved.
	// +required
	ConsumerQueueRef LocalObjectReference `json:"consumerQueueRef,omitzero"`

	// destination of the messages; the main queue if not given.
	// +optional
	Destination *RedriveDestination `json:"destination,omitempty"`

	// selector chooses the messages that are moved. A message must match all fields. An empty selector chooses all messages.
	// +optional
	Selector *DeadLetterSelector `json:"selector,omitempty"`

	// maxMessages is the largest number of messages that are moved; no limit if not given. A Redrive also examines no more messages than
	// the dead-letter queue held when it began.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxMessages *int32 `json:"maxMessages,omitempty"`

	// rate is the number of messages that are moved per second, or Unlimited. It can be changed while the Redrive runs.
	// +kubebuilder:default=100
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 100000)",message="must be between 1 and 100000 messages a second, or Unlimited"
	// +optional
	Rate *intstr.IntOrString `json:"rate,omitempty"`

	// maxDestinationDepth is the largest number of ready messages in the destination, or Unlimited. The Redrive waits when the
	// destination has this many, until a tenth of them is gone. For destination.type Retry, the messages of the main queue also count.
	// For Original, the limit does not apply.
	// +kubebuilder:default=10000
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 2147483647)",message="must be at least 1, or Unlimited"
	// +optional
	MaxDestinationDepth *intstr.IntOrString `json:"maxDestinationDepth,omitempty"`

	// maxRedrives is how often a message may be moved in total, by this and earlier Redrives, or Unlimited. The Redrive skips messages that
	// have reached this number.
	// +kubebuilder:default=3
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 2147483647)",message="must be at least 1, or Unlimited"
	// +optional
	MaxRedrives *intstr.IntOrString `json:"maxRedrives,omitempty"`

	// maxFailures limits the number of messages that could not be moved. The Redrive ends when it reaches this number.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxFailures *int32 `json:"maxFailures,omitempty"`

	// removeHeaders names further headers that the Redrive removes from messages. It always removes the headers of RabbitMQ, and the
	// headers in which Warren's consumers count attempts and describe failures. If your application counts attempts in another header,
	// name that header here.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +optional
	RemoveHeaders []string `json:"removeHeaders,omitempty"`

	// requestedBy is the user who requested the Redrive, as the API server names the user. The Redrive writes it into each message. Trust
	// it only with Warren's ValidatingAdmissionPolicy: config/admission, or requestedByPolicy.enabled of the Helm chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`

	// reason is why the user requested the Redrive. The Redrive writes it into each message.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Reason string `json:"reason,omitempty"`

	// dryRun counts the messages that would be moved, and moves none.
	// +kubebuilder:default=false
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// suspend pauses the Redrive while it is true.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// cancel ends the Redrive, which cannot be continued. Messages that were moved stay moved.
	// +kubebuilder:default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// ttlSecondsAfterFinished is how many seconds after its end Warren deletes the Redrive. If not given, Warren does not delete it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RedriveDestination is the destination of moved messages.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'ConsumerQueue') == has(self.consumerQueueRef)",message="type ConsumerQueue requires consumerQueueRef, and no other type takes it"
// +kubebuilder:validation:XValidation:rule="self.type == 'Retry' || !has(self.delay)",message="delay requires type Retry: remove delay, or set type Retry"
type RedriveDestination struct {
	// type of the destination. Main is the main queue. Retry is a delay tier, in which the messages wait again. Original is the
	// exchange that each message was first published to, which may also lead to other queues. ConsumerQueue is the main queue of
	// another ConsumerQueue.
	// +required
	Type RedriveDestinationType `json:"type,omitempty"`

	// delay of the delay tier; the first tier if not given.
	// +optional
	Delay Duration `json:"delay,omitempty"`

	// consumerQueueRef names a ConsumerQueue in this namespace with the same BrokerConnection.
	// +optional
	ConsumerQueueRef *LocalObjectReference `json:"consumerQueueRef,omitempty"`
}

// RedriveDestinationType is a kind of destination.
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

// RedriveStatus is the progress and outcome of a Redrive.
type RedriveStatus struct {
	JobStatus `json:",inline"`

	// destination is the queue that messages are moved to; empty for destination.type Original.
	// +optional
	Destination QueueName `json:"destination,omitempty"`

	// moved is the number of moved messages. With atMost, it is a lower bound. In a dry run it is the number of messages that would
	// be moved.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Moved *int64 `json:"moved,omitempty"`

	// failed is the number of messages that could not be moved. They stay in the dead-letter queue.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Failed *int64 `json:"failed,omitempty"`

	// failures are the first messages that could not be moved.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Failures []RedriveFailure `json:"failures,omitempty"`
}

// RedriveFailure is a message that could not be moved. It contains no headers and no body.
type RedriveFailure struct {
	// id of the message, as in spec.selector.ids.
	// +kubebuilder:validation:MaxLength=16
	// +required
	ID string `json:"id,omitempty"`

	// reason is the cause in one word.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason,omitempty"`

	// message describes why the message could not be moved, for example the answer of the broker.
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

	// spec defines which dead letters are moved, their destination and the rate.
	// +required
	Spec RedriveSpec `json:"spec,omitzero"`

	// status is the progress of the Redrive: the moved, failed and skipped messages, and its outcome.
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
