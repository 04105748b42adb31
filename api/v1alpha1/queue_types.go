package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// QueueName is the name of a queue at the broker, 1 to 255 bytes.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 255",message="must be at most 255 bytes"
// +kubebuilder:validation:XValidation:rule="!self.startsWith('amq.')",message="names that begin with amq. are reserved by the broker: choose another"
// +kubebuilder:validation:XValidation:rule="!self.matches('[\\r\\n]')",message="must not hold line breaks: the broker strips them"
type QueueName string

// ExchangeName is the name of an exchange at the broker, 1 to 255 bytes.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 255",message="must be at most 255 bytes"
// +kubebuilder:validation:XValidation:rule="!self.matches('[\\r\\n]')",message="must not hold line breaks: the broker strips them"
type ExchangeName string

// RoutingKey is a routing or binding key, at most 255 bytes.
//
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 255",message="must be at most 255 bytes"
type RoutingKey string

// NamespaceName is the name of a Kubernetes namespace.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type NamespaceName string

// Limit is a number of messages or bytes, in the range that RabbitMQ accepts.
//
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=2147483647
type Limit int64

// Arguments are arguments of a queue or binding, by name. The values are integers (32 bit) or strings of at most 1024 bytes.
// Validation counts characters, because CEL cannot count the bytes of so many values; topology.Desired counts bytes.
//
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0 && size(bytes(k)) <= 255)",message="names of arguments must be 1 to 255 bytes"
// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) != int || (int(self[k]) >= -2147483648 && int(self[k]) <= 2147483647))",message="integers must be between -2147483648 and 2147483647"
// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) != string || size(self[k]) <= 1024)",message="strings must be at most 1024 bytes"
type Arguments map[string]intstr.IntOrString

// Values of queue.deliveryLimit that are not numbers.
const (
	DeliveryLimitUnlimited     = "Unlimited"
	DeliveryLimitBrokerDefault = "BrokerDefault"
)

// QueueSettings are the common settings of a main queue and a dead-letter queue.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deliveryLimit) || isDeliveryLimit(self.deliveryLimit)",fieldPath=".deliveryLimit",message="must be a number from 0 to 2147483647, Unlimited, or BrokerDefault"
// +kubebuilder:validation:XValidation:rule="!has(self.maxLengthBytes) || isNumberOfBytes(self.maxLengthBytes)",fieldPath=".maxLengthBytes",message="must be a whole number of bytes, such as 1073741824, 500M or 1Gi"
type QueueSettings struct {
	// messageTTL is how long a message may wait before it expires (x-message-ttl).
	// +optional
	MessageTTL Duration `json:"messageTTL,omitempty"`

	// deliveryLimit is how often a message may be returned to the queue before the broker dead-letters or drops it (x-delivery-limit). It
	// is a number, Unlimited, or BrokerDefault. BrokerDefault leaves the argument out: the limit is then 20 from RabbitMQ 4.0 on, and there
	// is none before. A dead-letter queue has Unlimited by default. The default of a main queue is retry.maxAttempts - 1 with
	// retry.strategy Requeue, BrokerDefault if it dead-letters to a dead-letter queue, and Unlimited otherwise.
	// +optional
	DeliveryLimit *intstr.IntOrString `json:"deliveryLimit,omitempty"`

	// maxLength is the largest number of messages in the queue (x-max-length).
	// +optional
	MaxLength *Limit `json:"maxLength,omitempty"`

	// maxLengthBytes is the largest size of all messages in the queue, such as 1Gi (x-max-length-bytes).
	// +optional
	MaxLengthBytes *resource.Quantity `json:"maxLengthBytes,omitempty"`

	// overflow is what the broker does when the queue is full (x-overflow). RejectPublish refuses new messages. DropHead drops or
	// dead-letters the oldest. The default is RejectPublish for a main queue that dead-letters with deadLetterStrategy AtLeastOnce, and for
	// a dead-letter queue with a maximum length. For other queues, RabbitMQ drops the oldest messages unless a policy says otherwise.
	// +optional
	Overflow Overflow `json:"overflow,omitempty"`

	// initialGroupSize is the number of replicas with which Warren declares the queue (x-quorum-initial-group-size).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	InitialGroupSize *int32 `json:"initialGroupSize,omitempty"`

	// leaderLocator chooses the node of the queue's leader when the queue is declared (x-queue-leader-locator).
	// +optional
	LeaderLocator LeaderLocator `json:"leaderLocator,omitempty"`

	// consumerTimeout is how long a consumer may take to acknowledge a message (x-consumer-timeout). It requires RabbitMQ 3.12 or newer.
	// +optional
	ConsumerTimeout Duration `json:"consumerTimeout,omitempty"`

	// arguments are further arguments, which begin with x-. Arguments that have a field here, and arguments that Warren sets, are
	// refused.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.startsWith('x-'))",message="names of queue arguments begin with x-"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['x-message-ttl', 'x-delivery-limit', 'x-max-length', 'x-max-length-bytes', 'x-overflow', 'x-single-active-consumer', 'x-quorum-initial-group-size', 'x-queue-leader-locator', 'x-consumer-timeout']))",message="this argument has a field of its own: use messageTTL, deliveryLimit, maxLength, maxLengthBytes, overflow, singleActiveConsumer, initialGroupSize, leaderLocator or consumerTimeout"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'x-queue-type' && !k.startsWith('x-dead-letter-') && !k.startsWith('x-delayed-retry-'))",message="x-queue-type, x-dead-letter-* and x-delayed-retry-* follow from the spec: use deadLetter, deadLetterStrategy and retry"
	// +kubebuilder:validation:XValidation:rule="!('x-expires' in self)",message="x-expires makes the broker delete an unused queue with its messages: remove x-expires"
	// +kubebuilder:validation:XValidation:rule="!('x-max-priority' in self)",message="quorum queues do not take x-max-priority: remove it"
	// +optional
	Arguments Arguments `json:"arguments,omitempty"`
}

// QueueSpec is the main queue.
type QueueSpec struct {
	// name of the main queue; the resource's name if not given. It cannot be changed.
	// +optional
	Name QueueName `json:"name,omitempty"`

	QueueSettings `json:",inline"`

	// singleActiveConsumer restricts delivery to one consumer at a time (x-single-active-consumer).
	// +optional
	SingleActiveConsumer bool `json:"singleActiveConsumer,omitempty"`
}

// Overflow is what the broker does when a queue is full.
//
// +kubebuilder:validation:Enum=RejectPublish;DropHead
type Overflow string

// The values of Overflow.
const (
	OverflowRejectPublish Overflow = "RejectPublish"
	OverflowDropHead      Overflow = "DropHead"
)

// LeaderLocator chooses the node of a queue's leader.
//
// +kubebuilder:validation:Enum=Balanced;ClientLocal
type LeaderLocator string

// The values of LeaderLocator.
const (
	LeaderLocatorBalanced    LeaderLocator = "Balanced"
	LeaderLocatorClientLocal LeaderLocator = "ClientLocal"
)
