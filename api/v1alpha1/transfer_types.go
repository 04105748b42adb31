package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unlimited is the value of the fields of a Redrive or a Purge that otherwise hold a number.
const Unlimited = "Unlimited"

// DeadLetterSelector chooses dead letters: those that match each field that is given.
type DeadLetterSelector struct {
	// ids are fingerprints: a hash of content, headers and origin. Messages that are alike in all of these share one.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:items:Pattern=`^[a-z2-7]{16}$`
	// +optional
	IDs []string `json:"ids,omitempty"`

	// reasons are why messages came to the dead-letter queue. Parked are those that a consumer published there.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +optional
	Reasons []DeadLetterReason `json:"reasons,omitempty"`

	// headers are requirements, all of which hold for a selected message.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Headers []HeaderRequirement `json:"headers,omitempty"`

	// diedAfter selects messages that died later. A message that died several times in one queue has the time of the first.
	// A parked message has the time of its header x-failure-time.
	// +optional
	DiedAfter *metav1.Time `json:"diedAfter,omitempty"`

	// diedBefore selects messages that died earlier, by the same time. Messages that do not tell when they died are selected by neither.
	// +optional
	DiedBefore *metav1.Time `json:"diedBefore,omitempty"`

	// expression is a CEL expression over headers, properties, reason, origin, age, size, redrives and body, such as
	// body.order.country == "DE" && size < 65536. The body is parsed as JSON.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Expression string `json:"expression,omitempty"`

	// unknownOrigin selects, of a dead-letter queue that several ConsumerQueues share, also the messages that do not tell which queue they
	// come from. They may be those of the others. status.unknownOrigin counts them.
	// +kubebuilder:default=false
	// +optional
	UnknownOrigin bool `json:"unknownOrigin,omitempty"`
}

// DeadLetterReason says why a message came to the dead-letter queue.
//
// +kubebuilder:validation:Enum=Rejected;Expired;MaxLength;DeliveryLimit;Parked
type DeadLetterReason string

// HeaderRequirement compares a header with values.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="values belong to the operators In and NotIn, which need at least one"
type HeaderRequirement struct {
	// name of the header, in the same case as the message has it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Name string `json:"name,omitempty"`

	// operator compares the header: In, NotIn, Exists or DoesNotExist.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	// +required
	Operator string `json:"operator,omitempty"`

	// values to compare with. Numbers and truth values of the header are compared as text.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +optional
	Values []string `json:"values,omitempty"`
}

// TransferStatus is what the status of a Redrive has in common with that of a Purge.
type TransferStatus struct {
	// conditions are Ready and, while they hold, Reconciling, Stalled and Suspended. When the job has ended, Complete or Failed is True.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// source is the dead-letter queue.
	// +optional
	Source QueueName `json:"source,omitempty"`

	// location is where the queues are. A job never goes on at another location.
	// +optional
	Location Location `json:"location,omitempty,omitzero"`

	// total is how many messages are looked at, at most: those that were ready at the beginning, and those that other consumers held.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Total *int64 `json:"total,omitempty"`

	// examined is how many messages were looked at.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Examined *int64 `json:"examined,omitempty"`

	// skipped counts the messages that stay in the dead-letter queue, by the reason.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Skipped map[string]int64 `json:"skipped,omitempty"`

	// unknownOrigin is how many of the messages that were moved, or that match a Purge, do not tell which queue they come from, in a
	// dead-letter queue that several ConsumerQueues share.
	// +kubebuilder:validation:Minimum=0
	// +optional
	UnknownOrigin *int64 `json:"unknownOrigin,omitempty"`

	// atMost is how many messages may have been moved or deleted. It is written before that is done, so after a crash the true number is
	// between moved, or deleted, and atMost. It is absent when that number is exact.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AtMost *int64 `json:"atMost,omitempty"`

	// startTime is when the first message was about to be taken.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when all ended, well or badly. From then on no message is taken.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}
