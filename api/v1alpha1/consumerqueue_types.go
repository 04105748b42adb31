package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ConsumerQueueSpec describes the topology of one consumer: the main queue, how failed messages wait and return, and
// where messages go that are given up. Everything has a default: an empty spec is a full topology.
//
// +kubebuilder:validation:XValidation:rule="!hasStrategy(self, 'Requeue') || !(has(self.queue) && has(self.queue.deliveryLimit))",message="queue.deliveryLimit follows from retry.maxAttempts with retry.strategy Requeue: remove queue.deliveryLimit and set retry.maxAttempts"
// +kubebuilder:validation:XValidation:rule="!hasStrategy(self, 'Requeue') || !isDeadLetterDisabled(self)",message="retry.strategy Requeue needs dead-lettering: with deadLetter.policy Disabled the broker would drop what it gives up; remove deadLetter.policy"
// +kubebuilder:validation:XValidation:rule="!deadLettersToTier(self) || !(has(self.queue) && has(self.queue.messageTTL))",message="queue.messageTTL loses or jams what expires with retry.strategy Reject where retry.exchange or deadLetter.exchange is given or dead-lettering is disabled: remove queue.messageTTL, or remove both exchanges"
// +kubebuilder:validation:XValidation:rule="!deadLettersToTier(self) || !limitsAtMostOnce(self)",message="queue.maxLength and queue.maxLengthBytes with deadLetterStrategy AtMostOnce lose what exceeds them with retry.strategy Reject where retry.exchange or deadLetter.exchange is given or dead-lettering is disabled: use AtLeastOnce, or remove the limits or both exchanges"
// +kubebuilder:validation:XValidation:rule="!deadLettersToTier(self) || !(has(self.queue) && has(self.queue.deliveryLimit) && type(self.queue.deliveryLimit) == int)",message="a numeric queue.deliveryLimit loses messages with retry.strategy Reject where retry.exchange or deadLetter.exchange is given or dead-lettering is disabled: use Unlimited, or remove both exchanges"
// +kubebuilder:validation:XValidation:rule="!dropHeadDefeatsAtLeastOnce(self)",message="queue.overflow DropHead defeats at-least-once dead-lettering: use RejectPublish, or deadLetterStrategy AtMostOnce"
type ConsumerQueueSpec struct {
	// connectionRef names the BrokerConnection in this namespace, "default" if not given. It cannot be changed.
	// +optional
	ConnectionRef *ConnectionReference `json:"connectionRef,omitempty"`

	// queue is the main queue, the one that the application consumes.
	// +optional
	Queue *QueueSpec `json:"queue,omitempty"`

	// bindings are the exchanges and routing keys from which the main queue gets its messages.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a.exchange.name != b.exchange.name || !has(a.exchange.type) || !has(b.exchange.type) || a.exchange.type == b.exchange.type))",message="the same exchange is given with two types: give it one"
	// +optional
	Bindings []SourceBinding `json:"bindings,omitempty"`

	// retry says how a message that failed comes to wait before it is tried again.
	// +optional
	Retry *RetrySpec `json:"retry,omitempty"`

	// deadLetter says where messages go that are given up.
	// +optional
	DeadLetter *DeadLetterSpec `json:"deadLetter,omitempty"`

	// deadLetterStrategy says how safely queues of this topology dead-letter. AtLeastOnce keeps a message in its
	// queue until the next queue has confirmed it, and refuses publishes to a full queue; AtMostOnce may lose it.
	// +kubebuilder:default=AtLeastOnce
	// +optional
	DeadLetterStrategy DeadLetterStrategy `json:"deadLetterStrategy,omitempty"`

	// driftPolicy says what happens when exchanges, queues or bindings are missing at the broker: Correct declares them
	// again, Report only says so.
	// +kubebuilder:default=Correct
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// recreatePolicy says what may be done when a change of arguments needs a queue to be recreated. Manual: it is
	// reported and nothing is touched.
	// +kubebuilder:default=Manual
	// +optional
	RecreatePolicy RecreatePolicy `json:"recreatePolicy,omitempty"`

	// deletionPolicy says what happens to the topology when this resource is deleted.
	// +kubebuilder:default=DeleteIfEmpty
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// suspend stops all reads and writes at the broker for this resource.
	// +kubebuilder:default=false
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// ConnectionReference names a BrokerConnection in the same namespace.
type ConnectionReference struct {
	// name of a BrokerConnection in the same namespace as the ConsumerQueue.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}

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

// Limit is a number of things or bytes that RabbitMQ takes as a limit.
//
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=2147483647
type Limit int64

// Arguments are arguments of a queue or binding by name; their values are integers (32 bit) or strings of at most 1024
// bytes. Validation counts characters, for it cannot count the bytes of so many values; topology.Desired counts bytes.
//
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0 && size(bytes(k)) <= 255)",message="names of arguments must be 1 to 255 bytes"
// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) != int || (int(self[k]) >= -2147483648 && int(self[k]) <= 2147483647))",message="integers must be between -2147483648 and 2147483647"
// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) != string || size(self[k]) <= 1024)",message="strings must be at most 1024 bytes"
type Arguments map[string]intstr.IntOrString

// The words of queue.deliveryLimit that are not numbers.
const (
	DeliveryLimitUnlimited     = "Unlimited"
	DeliveryLimitBrokerDefault = "BrokerDefault"
)

// QueueSettings are the settings that a main queue and a dead-letter queue have in common.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deliveryLimit) || isDeliveryLimit(self.deliveryLimit)",fieldPath=".deliveryLimit",message="must be a number from 0 to 2147483647, Unlimited, or BrokerDefault"
// +kubebuilder:validation:XValidation:rule="!has(self.maxLengthBytes) || isNumberOfBytes(self.maxLengthBytes)",fieldPath=".maxLengthBytes",message="must be a whole number of bytes, such as 1073741824, 500M or 1Gi"
type QueueSettings struct {
	// messageTTL is how long a message may wait before it expires (x-message-ttl).
	// +optional
	MessageTTL Duration `json:"messageTTL,omitempty"`

	// deliveryLimit is how many times a message may be returned to the queue before it is dead-lettered or dropped
	// (x-delivery-limit): a number, Unlimited, or BrokerDefault, which leaves the argument out. The default depends on
	// the queue's role: a dead-letter queue has Unlimited; a main queue BrokerDefault where it dead-letters to a
	// dead-letter queue, Unlimited where it has nowhere to give up to, and retry.maxAttempts - 1 for the strategy
	// Requeue.
	// +optional
	DeliveryLimit *intstr.IntOrString `json:"deliveryLimit,omitempty"`

	// maxLength is how many messages the queue holds at most (x-max-length).
	// +optional
	MaxLength *Limit `json:"maxLength,omitempty"`

	// maxLengthBytes is how many bytes of messages the queue holds at most, such as 1Gi (x-max-length-bytes).
	// +optional
	MaxLengthBytes *resource.Quantity `json:"maxLengthBytes,omitempty"`

	// overflow says what happens when the queue is full (x-overflow): RejectPublish refuses new messages, DropHead drops
	// or dead-letters the oldest. A dead-letter queue with a maximum length has RejectPublish by default.
	// +optional
	Overflow Overflow `json:"overflow,omitempty"`

	// initialGroupSize is how many replicas the queue is declared with (x-quorum-initial-group-size).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	InitialGroupSize *int32 `json:"initialGroupSize,omitempty"`

	// leaderLocator says on which node the queue's leader is placed when it is declared (x-queue-leader-locator).
	// +optional
	LeaderLocator LeaderLocator `json:"leaderLocator,omitempty"`

	// consumerTimeout is how long a consumer may take to acknowledge a message (x-consumer-timeout).
	// +optional
	ConsumerTimeout Duration `json:"consumerTimeout,omitempty"`

	// arguments are any further arguments that begin with x-. Those that have a field here, or that Warren sets by
	// itself, are refused.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.startsWith('x-'))",message="names of queue arguments begin with x-"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['x-message-ttl', 'x-delivery-limit', 'x-max-length', 'x-max-length-bytes', 'x-overflow', 'x-single-active-consumer', 'x-quorum-initial-group-size', 'x-queue-leader-locator', 'x-consumer-timeout']))",message="this argument has a field of its own: use messageTTL, deliveryLimit, maxLength, maxLengthBytes, overflow, singleActiveConsumer, initialGroupSize, leaderLocator or consumerTimeout"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'x-queue-type' && !k.startsWith('x-dead-letter-') && !k.startsWith('x-delayed-retry-'))",message="x-queue-type, x-dead-letter-* and x-delayed-retry-* follow from the spec: use deadLetter, deadLetterStrategy and retry"
	// +kubebuilder:validation:XValidation:rule="!('x-expires' in self)",message="x-expires makes the broker delete the queue with its messages when nobody uses it: remove it"
	// +kubebuilder:validation:XValidation:rule="!('x-max-priority' in self)",message="quorum queues do not take x-max-priority: remove it"
	// +optional
	Arguments Arguments `json:"arguments,omitempty"`
}

// QueueSpec is the main queue.
type QueueSpec struct {
	// name of the main queue, the resource's name if not given. It cannot be changed.
	// +optional
	Name QueueName `json:"name,omitempty"`

	QueueSettings `json:",inline"`

	// singleActiveConsumer lets only one consumer at a time get messages (x-single-active-consumer).
	// +optional
	SingleActiveConsumer *bool `json:"singleActiveConsumer,omitempty"`
}

// DeadLetterQueueSpec is the dead-letter queue.
type DeadLetterQueueSpec struct {
	// name of the dead-letter queue, <main queue>.dlq if not given.
	// +optional
	Name QueueName `json:"name,omitempty"`

	QueueSettings `json:",inline"`
}

// SourceBinding binds the main queue to an exchange, once for each routing key.
type SourceBinding struct {
	// exchange that the main queue gets messages from.
	// +required
	Exchange SourceExchange `json:"exchange,omitzero"`

	// routingKeys to bind with, one empty key if none is given.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	RoutingKeys []RoutingKey `json:"routingKeys,omitempty"`

	// arguments of the binding, as a headers exchange needs them.
	// +optional
	Arguments Arguments `json:"arguments,omitempty"`
}

// SourceExchange is an exchange that the main queue is bound to. Warren never deletes it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !self.name.startsWith('amq.')",message="exchanges that begin with amq. are the broker's own: leave type out to use one"
type SourceExchange struct {
	// name of the exchange at the broker, such as orders or amq.topic.
	// +required
	Name ExchangeName `json:"name,omitempty"`

	// type of the exchange. With it, Warren declares the exchange (durable) if it is missing. Without, it must exist.
	// +kubebuilder:validation:Enum=direct;fanout;topic;headers
	// +optional
	Type ExchangeType `json:"type,omitempty"`
}

// RetrySpec says how a message that failed comes to wait before it is tried again.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.policy) && self.policy == 'None') || !(has(self.maxAttempts) || has(self.strategy) || has(self.delayTiers) || has(self.exchange) || has(self.returnTo) || has(self.redeliveryDelay))",message="retry.policy None takes no other retry fields: remove them, or remove policy"
// +kubebuilder:validation:XValidation:rule="!(has(self.strategy) && self.strategy == 'Requeue') || !(has(self.delayTiers) || has(self.exchange) || has(self.returnTo))",message="strategy Requeue has no delay tiers: remove delayTiers, exchange and returnTo; redeliveryDelay delays redeliveries on RabbitMQ 4.3"
// +kubebuilder:validation:XValidation:rule="!has(self.redeliveryDelay) || (has(self.policy) && self.policy == 'None') || (has(self.strategy) && self.strategy == 'Requeue')",message="redeliveryDelay is only for strategy Requeue: use delayTiers, or set strategy to Requeue"
// +kubebuilder:validation:XValidation:rule="!(has(self.strategy) && self.strategy == 'Reject') || !has(self.delayTiers) || size(self.delayTiers) == 1",message="strategy Reject has exactly one delay tier: remove the others, or use strategy Publish"
// +kubebuilder:validation:XValidation:rule="has(self.exchange) || !has(self.delayTiers) || self.delayTiers.all(t, !has(t.routingKey))",message="routingKey of a delay tier needs retry.exchange: set it, or remove routingKey"
type RetrySpec struct {
	// policy is MaxAttempts, or None: no retry objects.
	// +optional
	Policy RetryPolicy `json:"policy,omitempty"`

	// maxAttempts is how many times a message is delivered in all before it is given up, 5 if not given. Consumers
	// keep to it; with strategy Requeue the broker does.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxAttempts *int32 `json:"maxAttempts,omitempty"`

	// strategy says how a failed message comes to wait. Publish (the default): the consumer publishes a copy to a delay
	// tier, then acknowledges. Reject: the consumer rejects and the broker moves the message to the one delay tier.
	// Requeue: the consumer requeues by basic.reject, and the broker dead-letters after maxAttempts.
	// +optional
	Strategy RetryStrategy `json:"strategy,omitempty"`

	// delayTiers are the queues in which messages wait, by ascending delay: 30s, 5m, 30m for Publish and 30s for
	// Reject if not given. Reject has exactly one, Requeue none.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.exists(tier, !isDuration(tier.delay)) || delaysAscend(self)",message="delays must ascend, each longer than the one before"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.queueName) || self.exists_one(u, has(u.queueName) && u.queueName == t.queueName))",message="two delay tiers have the same queue name: choose another queueName"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.routingKey) || self.exists_one(u, has(u.routingKey) && u.routingKey == t.routingKey))",message="two delay tiers have the same routing key, so a message would wait in both: choose another routingKey"
	// +optional
	DelayTiers []DelayTier `json:"delayTiers,omitempty"`

	// exchange is declared, if given, and has each delay tier bound to it. Otherwise tiers are reached through the
	// default exchange by their queue names.
	// +optional
	Exchange *RetryExchange `json:"exchange,omitempty"`

	// returnTo is where a message goes when its delay is over: to the main queue, through the default exchange, if not
	// given.
	// +optional
	ReturnTo *ReturnRoute `json:"returnTo,omitempty"`

	// redeliveryDelay delays redeliveries by the broker itself, for strategy Requeue on RabbitMQ 4.3.
	// +optional
	RedeliveryDelay *RedeliveryDelay `json:"redeliveryDelay,omitempty"`
}

// DelayTier is a queue in which messages wait for a fixed time and from which they return.
type DelayTier struct {
	// delay is how long a message waits.
	// +required
	Delay Duration `json:"delay,omitempty"`

	// queueName is what the tier's queue is called at the broker, <main queue>.retry.<delay> if not given, such as
	// orders.retry.30s.
	// +optional
	QueueName QueueName `json:"queueName,omitempty"`

	// routingKey binds the tier's queue to retry.exchange; the queue's name if not given.
	// +optional
	RoutingKey *RoutingKey `json:"routingKey,omitempty"`
}

// RetryExchange is the exchange in front of the delay tiers.
//
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('amq.')",message="exchanges that begin with amq. are the broker's own: choose another name"
type RetryExchange struct {
	// name of the exchange at the broker; not one of its own, which begin with amq.
	// +required
	Name ExchangeName `json:"name,omitempty"`

	// type of the exchange: direct, or topic, where the routing keys of the delay tiers may have wildcards; direct if not
	// given.
	// +kubebuilder:validation:Enum=direct;topic
	// +optional
	Type ExchangeType `json:"type,omitempty"`
}

// ReturnRoute is an exchange and a routing key. Warren does not declare the exchange; a binding with a type may.
type ReturnRoute struct {
	// exchange that messages are published to when their delay is over. It must exist and lead them to the main queue.
	// +required
	Exchange ExchangeName `json:"exchange,omitempty"`

	// routingKey that messages return with. If not given they keep the key that they came to the delay tier with.
	// +optional
	RoutingKey *RoutingKey `json:"routingKey,omitempty"`
}

// RedeliveryDelay is how long the broker waits before it redelivers: min times the number of deliveries, at most max.
//
// +kubebuilder:validation:XValidation:rule="!isDuration(self.min) || !isDuration(self.max) || duration(self.min) <= duration(self.max)",message="min must not be above max"
type RedeliveryDelay struct {
	// min is the wait after the first failure.
	// +required
	Min Duration `json:"min,omitempty"`

	// max is the longest wait, however often a message has failed.
	// +required
	Max Duration `json:"max,omitempty"`
}

// DeadLetterSpec says where messages go that are given up.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.policy) && self.policy == 'Disabled') || !(has(self.exchange) || has(self.routingKey) || has(self.queue))",message="deadLetter.policy Disabled takes no other deadLetter fields: remove them, or remove policy"
// +kubebuilder:validation:XValidation:rule="!has(self.routingKey) || (has(self.exchange) && has(self.exchange.type) && self.exchange.type != 'fanout')",message="deadLetter.routingKey has no meaning for a fanout exchange: remove it, or set deadLetter.exchange with type direct or topic"
type DeadLetterSpec struct {
	// policy is Enabled, or Disabled: no dead-letter exchange and queue, what is given up is dropped.
	// +optional
	Policy DeadLetterPolicy `json:"policy,omitempty"`

	// exchange is the dead-letter exchange, <main queue>.dlx of type fanout if not given.
	// +optional
	Exchange *DeadLetterExchange `json:"exchange,omitempty"`

	// routingKey binds the dead-letter queue to a direct or topic exchange; the queue's name if not given.
	// +optional
	RoutingKey *RoutingKey `json:"routingKey,omitempty"`

	// queue is the dead-letter queue, <main queue>.dlq if not given.
	// +optional
	Queue *DeadLetterQueueSpec `json:"queue,omitempty"`
}

// DeadLetterExchange is the exchange that dead letters go through.
//
// +kubebuilder:validation:XValidation:rule="!has(self.name) || !self.name.startsWith('amq.')",message="exchanges that begin with amq. are the broker's own: choose another name"
type DeadLetterExchange struct {
	// name of the exchange, <main queue>.dlx if not given.
	// +optional
	Name ExchangeName `json:"name,omitempty"`

	// type of the exchange: fanout brings every dead letter to the queue, direct and topic those with a routing key that
	// fits; fanout if not given.
	// +kubebuilder:validation:Enum=fanout;direct;topic
	// +optional
	Type ExchangeType `json:"type,omitempty"`
}

// ExchangeType is a type of exchange, in RabbitMQ's words.
type ExchangeType string

// The exchange types that RabbitMQ always has.
const (
	ExchangeDirect  ExchangeType = "direct"
	ExchangeFanout  ExchangeType = "fanout"
	ExchangeTopic   ExchangeType = "topic"
	ExchangeHeaders ExchangeType = "headers"
)

// Overflow says what happens when a queue is full.
//
// +kubebuilder:validation:Enum=RejectPublish;DropHead
type Overflow string

// The values of Overflow.
const (
	OverflowRejectPublish Overflow = "RejectPublish"
	OverflowDropHead      Overflow = "DropHead"
)

// LeaderLocator says on which node a queue's leader is placed.
//
// +kubebuilder:validation:Enum=Balanced;ClientLocal
type LeaderLocator string

// The values of LeaderLocator.
const (
	LeaderLocatorBalanced    LeaderLocator = "Balanced"
	LeaderLocatorClientLocal LeaderLocator = "ClientLocal"
)

// RetryPolicy says whether there is a retry.
//
// +kubebuilder:validation:Enum=MaxAttempts;None
type RetryPolicy string

// The values of RetryPolicy.
const (
	RetryPolicyMaxAttempts RetryPolicy = "MaxAttempts"
	RetryPolicyNone        RetryPolicy = "None"
)

// RetryStrategy says how a failed message comes to wait.
//
// +kubebuilder:validation:Enum=Publish;Reject;Requeue
type RetryStrategy string

// The values of RetryStrategy.
const (
	RetryStrategyPublish RetryStrategy = "Publish"
	RetryStrategyReject  RetryStrategy = "Reject"
	RetryStrategyRequeue RetryStrategy = "Requeue"
)

// DeadLetterPolicy says whether there is a dead-letter queue.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type DeadLetterPolicy string

// The values of DeadLetterPolicy.
const (
	DeadLetterPolicyEnabled  DeadLetterPolicy = "Enabled"
	DeadLetterPolicyDisabled DeadLetterPolicy = "Disabled"
)

// DeadLetterStrategy says how safely queues dead-letter.
//
// +kubebuilder:validation:Enum=AtLeastOnce;AtMostOnce
type DeadLetterStrategy string

// The values of DeadLetterStrategy.
const (
	DeadLetterAtLeastOnce DeadLetterStrategy = "AtLeastOnce"
	DeadLetterAtMostOnce  DeadLetterStrategy = "AtMostOnce"
)

// DriftPolicy says what happens to drift.
//
// +kubebuilder:validation:Enum=Correct;Report
type DriftPolicy string

// The values of DriftPolicy.
const (
	DriftPolicyCorrect DriftPolicy = "Correct"
	DriftPolicyReport  DriftPolicy = "Report"
)

// RecreatePolicy says what may be done when recreation is required.
//
// +kubebuilder:validation:Enum=Manual
type RecreatePolicy string

// RecreatePolicyManual reports and touches nothing.
const RecreatePolicyManual RecreatePolicy = "Manual"

// DeletionPolicy says what happens to the topology when its resource is deleted.
//
// +kubebuilder:validation:Enum=DeleteIfEmpty;Retain;Delete
type DeletionPolicy string

// The values of DeletionPolicy.
const (
	// DeletionPolicyDeleteIfEmpty deletes what is provably empty and nobody else needs.
	DeletionPolicyDeleteIfEmpty DeletionPolicy = "DeleteIfEmpty"
	// DeletionPolicyRetain touches nothing.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete deletes what nobody else needs, messages included.
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// The queue's name and the connection are what makes the topology this one:
// +kubebuilder:validation:XValidation:rule="mainQueueName(self) == mainQueueName(oldSelf)",fieldPath=".spec.queue",message="the name of the main queue cannot be changed: create another ConsumerQueue for another queue"
// +kubebuilder:validation:XValidation:rule="connectionName(self) == connectionName(oldSelf)",fieldPath=".spec.connectionRef",message="the connection cannot be changed: create another ConsumerQueue for another connection"
//
// +kubebuilder:validation:XValidation:rule="namesQueue(self.spec) || !self.metadata.name.startsWith('amq.')",fieldPath=".spec.queue",message="the resource's name is that of the main queue, and names that begin with amq. are reserved by the broker: give queue.name"
//
// Names that follow from the main queue's must fit, and all names must differ:
// +kubebuilder:validation:XValidation:rule="defaultDeadLetterNamesFit(self)",fieldPath=".spec.deadLetter",message="the name <main queue>.dlx or <main queue>.dlq exceeds 255 bytes: give deadLetter.exchange.name and deadLetter.queue.name, or a shorter queue.name"
// +kubebuilder:validation:XValidation:rule="defaultTierNamesFit(self)",fieldPath=".spec.retry",message="the name <main queue>.retry.<delay> exceeds 255 bytes: give delayTiers with queueName, or a shorter queue.name"
// +kubebuilder:validation:XValidation:rule="deadLetterQueueIsNotMain(self)",fieldPath=".spec.deadLetter.queue.name",message="the dead-letter queue and the main queue have the same name: choose another"
// +kubebuilder:validation:XValidation:rule="namedTiersAreNeitherMainNorDeadLetter(self)",fieldPath=".spec.retry.delayTiers",message="a delay tier has the name of the main queue or the dead-letter queue: choose another queueName"
// +kubebuilder:validation:XValidation:rule="deadLetterQueueIsNoTier(self)",fieldPath=".spec.deadLetter.queue.name",message="the dead-letter queue has the name of a delay tier: choose another"
// +kubebuilder:validation:XValidation:rule="namedTiersAreNotDefaultTiers(self)",fieldPath=".spec.retry.delayTiers",message="two delay tiers have the same queue name: choose another queueName"
// +kubebuilder:validation:XValidation:rule="givenKeysAreNotDefaultKeys(self)",fieldPath=".spec.retry.delayTiers",message="two delay tiers have the same routing key, so a message would wait in both: choose another routingKey"
// +kubebuilder:validation:XValidation:rule="deadLetterExchangeIsNoOther(self)",fieldPath=".spec.deadLetter",message="the dead-letter exchange must be another than retry.exchange and those of bindings: choose another deadLetter.exchange.name"
// +kubebuilder:validation:XValidation:rule="retryExchangeIsNoSource(self.spec)",fieldPath=".spec.retry.exchange",message="the retry exchange must be another than those of bindings: choose another name"

// ConsumerQueue is one consumer's topology at a RabbitMQ broker: its main queue, delay tiers, dead-letter exchange and
// dead-letter queue, all quorum queues, kept as described and compared with the broker in status.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cqueue,categories=warren
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.status.queueName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Drifted",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Recreate",type=string,JSONPath=`.status.conditions[?(@.type=="RecreationRequired")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Connection",type=string,priority=1,JSONPath=`.status.connectionName`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ConsumerQueue struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired topology: the main queue, how failed messages wait and return, and where messages go that are
	// given up. It may be empty.
	// +required
	Spec ConsumerQueueSpec `json:"spec"`

	// status compares the desired topology with the broker: what is in sync, and what differs.
	// +kubebuilder:default:={"observedGeneration":-1, "conditions":{{"type":"Ready", "status":"Unknown", "reason":"Pending", "message":"not reconciled yet", "lastTransitionTime":"1970-01-01T00:00:00Z"}, {"type":"Drifted", "status":"Unknown", "reason":"Pending", "message":"not reconciled yet", "lastTransitionTime":"1970-01-01T00:00:00Z"}, {"type":"RecreationRequired", "status":"Unknown", "reason":"Pending", "message":"not reconciled yet", "lastTransitionTime":"1970-01-01T00:00:00Z"}}}
	// +optional
	Status ConsumerQueueStatus `json:"status,omitempty"`
}

// ConsumerQueueList is a list of ConsumerQueues.
//
// +kubebuilder:object:root=true
type ConsumerQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ConsumerQueue `json:"items"`
}

// QueueName is the main queue's effective name.
func (c *ConsumerQueue) QueueName() string {
	if c.Spec.Queue != nil && c.Spec.Queue.Name != "" {
		return string(c.Spec.Queue.Name)
	}
	return c.Name
}

// ConnectionName is the effective name of the BrokerConnection.
func (c *ConsumerQueue) ConnectionName() string {
	if c.Spec.ConnectionRef != nil {
		return c.Spec.ConnectionRef.Name
	}
	return DefaultConnectionName
}
