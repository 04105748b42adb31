package v1alpha1

// RetrySpec defines how a failed message waits before its next attempt.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.policy) && self.policy == 'None') || !(has(self.maxAttempts) || has(self.strategy) || has(self.delayTiers) || has(self.exchange) || has(self.returnTo) || has(self.redeliveryDelay))",message="retry.policy None takes no other retry fields: remove them, or remove policy"
// +kubebuilder:validation:XValidation:rule="!(has(self.strategy) && self.strategy == 'Requeue') || !(has(self.delayTiers) || has(self.exchange) || has(self.returnTo))",message="strategy Requeue has no delay tiers: remove delayTiers, exchange and returnTo; redeliveryDelay delays redeliveries on RabbitMQ 4.3 and newer"
// +kubebuilder:validation:XValidation:rule="!has(self.redeliveryDelay) || (has(self.policy) && self.policy == 'None') || (has(self.strategy) && self.strategy == 'Requeue')",message="redeliveryDelay is only for strategy Requeue: use delayTiers, or set strategy to Requeue"
// +kubebuilder:validation:XValidation:rule="!(has(self.strategy) && self.strategy == 'Reject') || !has(self.delayTiers) || size(self.delayTiers) == 1",message="strategy Reject has exactly one delay tier: remove the others, or use strategy Publish"
// +kubebuilder:validation:XValidation:rule="has(self.exchange) || !has(self.delayTiers) || self.delayTiers.all(t, !has(t.routingKey))",message="routingKey of a delay tier needs retry.exchange: set retry.exchange, or remove routingKey"
type RetrySpec struct {
	// policy is MaxAttempts, the default, or None. With None there are no retry objects.
	// +optional
	Policy RetryPolicy `json:"policy,omitempty"`

	// maxAttempts is how many times a message is delivered in total. A message that fails its last attempt goes to the dead-letter
	// queue. If not given, Publish uses each delay tier once: it is the number of delay tiers plus one. For Reject and Requeue it is
	// 5. Consumers count the attempts; with strategy Requeue the broker counts them.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxAttempts *int32 `json:"maxAttempts,omitempty"`

	// strategy is how a failed message is delayed before its next attempt. Publish (the default): the consumer publishes a copy to a
	// delay tier, then acknowledges. Reject: the consumer rejects the message, and the broker moves it to the single delay tier.
	// Requeue: the consumer requeues the message by basic.reject, and the broker dead-letters it after maxAttempts.
	// +optional
	Strategy RetryStrategy `json:"strategy,omitempty"`

	// delayTiers are the queues in which messages wait, by ascending delay. If not given, they are 30s, 5m and 30m for Publish, and
	// 30s for Reject. Reject has exactly one tier, Requeue none.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.exists(tier, !isDuration(tier.delay)) || delaysAscend(self)",message="delays must ascend, each longer than the one before"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.queueName) || self.exists_one(u, has(u.queueName) && u.queueName == t.queueName))",message="two delay tiers have the same queue name: choose another queueName"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.routingKey) || self.exists_one(u, has(u.routingKey) && u.routingKey == t.routingKey))",message="two delay tiers have the same routing key, so a message would wait in both: choose another routingKey"
	// +optional
	DelayTiers []DelayTier `json:"delayTiers,omitempty"`

	// exchange is the exchange in front of the delay tiers. Warren declares it and binds each tier to it. If not given, consumers
	// publish to the tiers through the default exchange, by queue name.
	// +optional
	Exchange *RetryExchange `json:"exchange,omitempty"`

	// returnTo is the route of a message after its delay. If not given, the message returns to the main queue through the default
	// exchange.
	// +optional
	ReturnTo *ReturnRoute `json:"returnTo,omitempty"`

	// redeliveryDelay delays redeliveries in the broker itself, for strategy Requeue on RabbitMQ 4.3 and newer.
	// +optional
	RedeliveryDelay *RedeliveryDelay `json:"redeliveryDelay,omitempty"`
}

// DelayTier is a queue in which messages wait for a fixed time before they return.
type DelayTier struct {
	// delay is how long a message waits.
	// +required
	Delay Duration `json:"delay,omitempty"`

	// queueName is the tier's queue at the broker; <main queue>.retry.<delay> if not given, such as orders.retry.30s.
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
	// name of the exchange at the broker. Names that begin with amq. are reserved for the broker.
	// +required
	Name ExchangeName `json:"name,omitempty"`

	// type of the exchange: direct, or topic, which allows wildcards in the routing keys of the delay tiers; direct if not given.
	// +kubebuilder:validation:Enum=direct;topic
	// +optional
	Type ExchangeType `json:"type,omitempty"`

	// sharedWith names other namespaces whose ConsumerQueues may use this exchange as their retry exchange. ConsumerQueues of this
	// namespace need no consent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	SharedWith []NamespaceName `json:"sharedWith,omitempty"`
}

// ReturnRoute is an exchange and a routing key. Warren declares the exchange only if an entry of spec.bindings has its name and a
// type.
type ReturnRoute struct {
	// exchange that receives messages after their delay. It must exist and route them to the main queue.
	// +required
	Exchange ExchangeName `json:"exchange,omitempty"`

	// routingKey of returning messages. If not given, they retain the key with which they entered the delay tier.
	// +optional
	RoutingKey *RoutingKey `json:"routingKey,omitempty"`
}

// RedeliveryDelay is how long the broker waits before it redelivers: min times the number of deliveries, at most max.
//
// +kubebuilder:validation:XValidation:rule="!isDuration(self.min) || !isDuration(self.max) || lengthOf(self.min) <= lengthOf(self.max)",message="min must not be above max"
type RedeliveryDelay struct {
	// min is the wait after the first failure.
	// +required
	Min Duration `json:"min,omitempty"`

	// max is the longest wait, regardless of the number of failures.
	// +required
	Max Duration `json:"max,omitempty"`
}

// RetryPolicy enables or disables retries.
//
// +kubebuilder:validation:Enum=MaxAttempts;None
type RetryPolicy string

// The values of RetryPolicy.
const (
	RetryPolicyMaxAttempts RetryPolicy = "MaxAttempts"
	RetryPolicyNone        RetryPolicy = "None"
)

// RetryStrategy is how a failed message is delayed before its next attempt.
//
// +kubebuilder:validation:Enum=Publish;Reject;Requeue
type RetryStrategy string

// The values of RetryStrategy.
const (
	RetryStrategyPublish RetryStrategy = "Publish"
	RetryStrategyReject  RetryStrategy = "Reject"
	RetryStrategyRequeue RetryStrategy = "Requeue"
)
