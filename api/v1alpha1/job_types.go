package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unlimited is the value of a number field of a Redrive or Purge that has no limit.
const Unlimited = "Unlimited"

// DeadLetterSelector chooses dead letters. A dead letter must match all fields that are given.
type DeadLetterSelector struct {
	// ids of messages. An ID is a hash of exchange, routing key, properties, headers and body, without the delivery counts of RabbitMQ.
	// Identical messages share an ID.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:items:Pattern=`^[a-z2-7]{16}$`
	// +optional
	IDs []string `json:"ids,omitempty"`

	// reasons why messages came to the dead-letter queue. Parked: a consumer published the message there.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +optional
	Reasons []DeadLetterReason `json:"reasons,omitempty"`

	// headers are requirements. A message must meet all of them. Their values together have at most 65536 bytes.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.map(h, has(h.values) ? h.values.map(v, size(bytes(v))).sum() : 0).sum() <= 65536",message="the values of all headers together must have at most 65536 bytes: create several Redrives or Purges"
	// +optional
	Headers []HeaderRequirement `json:"headers,omitempty"`

	// diedAfter selects messages that died later than this time. A message that died several times in one queue has the time of its
	// first death there. A parked message has the time of its header x-failure-time.
	// +optional
	DiedAfter *metav1.Time `json:"diedAfter,omitempty"`

	// diedBefore selects messages that died earlier than this time. diedAfter and diedBefore never select a message whose time of
	// death is unknown.
	// +optional
	DiedBefore *metav1.Time `json:"diedBefore,omitempty"`

	// expression is a CEL expression over headers, properties, reason, origin, age, size, redrives and body, such as
	// body.order.country == "DE" && size < 65536. Warren parses the body as JSON.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Expression string `json:"expression,omitempty"`

	// unknownOrigin also selects messages whose queue of origin is unknown, in a dead-letter queue that several ConsumerQueues
	// share. They may belong to other ConsumerQueues. status.unknownOrigin counts them.
	// +kubebuilder:default=false
	// +optional
	UnknownOrigin bool `json:"unknownOrigin,omitempty"`
}

// DeadLetterReason is why a message came to the dead-letter queue.
//
// +kubebuilder:validation:Enum=Rejected;Expired;MaxLength;DeliveryLimit;Parked
type DeadLetterReason string

// HeaderRequirement compares a header with values.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="operators In and NotIn require values, and no other operator takes them: add values, or remove them"
type HeaderRequirement struct {
	// name of the header, in the same case as in the message. Use expression for a name that has =, or begins or ends with !.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!self.contains('=') && !self.startsWith('!') && !self.endsWith('!')",message="the name of a header must not have =, nor begin or end with !: select the header with expression"
	// +required
	Name string `json:"name,omitempty"`

	// operator compares the header: In, NotIn, Exists or DoesNotExist. NotIn also selects messages without the header.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	// +required
	Operator string `json:"operator,omitempty"`

	// values to compare with. Numbers and booleans of the header are compared as text.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +optional
	Values []string `json:"values,omitempty"`
}

// JobStatus is the common part of the statuses of a Redrive and a Purge.
type JobStatus struct {
	// conditions are Ready and, while they hold, Reconciling, Stalled and Suspended. When the job has ended, Complete or Failed is True.
	// Complete is also True for a cancelled job, with the reason Cancelled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// source is the dead-letter queue.
	// +optional
	Source QueueName `json:"source,omitempty"`

	// consumerQueueUID is the UID of the ConsumerQueue when the job began. A job does not continue after its ConsumerQueue was deleted
	// and created again.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ConsumerQueueUID string `json:"consumerQueueUID,omitempty"`

	// location of the queues. A job never continues at another location.
	// +optional
	Location Location `json:"location,omitempty,omitzero"`

	// total is the largest number of messages that the job examines: the messages that were ready or held by other consumers when it
	// began.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Total *int64 `json:"total,omitempty"`

	// examined is the number of messages that the job has examined.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Examined *int64 `json:"examined,omitempty"`

	// skipped counts the messages that stay in the dead-letter queue, by reason: NotSelected, NotEvaluated, Undated, MaxRedrives, CameBack,
	// OtherOrigin, NoOrigin or TooLarge.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Skipped map[string]int64 `json:"skipped,omitempty"`

	// evaluationError is the error of the expression on the first message that status.skipped counts as NotEvaluated. It contains no values
	// of the message.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// unknownOrigin is how many of the moved or matching messages have an unknown queue of origin, in a dead-letter queue that
	// several ConsumerQueues share.
	// +kubebuilder:validation:Minimum=0
	// +optional
	UnknownOrigin *int64 `json:"unknownOrigin,omitempty"`

	// atMost is the largest number of messages that may have been moved or deleted. Warren writes it before it moves or deletes
	// them, because a crash can hide the exact number. It is absent if moved or deleted is exact.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AtMost *int64 `json:"atMost,omitempty"`

	// startTime is when the job began to read messages.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the job ended, successfully or not. Afterwards it reads no message.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}
