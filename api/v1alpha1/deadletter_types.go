package v1alpha1

// DeadLetterQueueSpec is the dead-letter queue.
type DeadLetterQueueSpec struct {
	// name of the dead-letter queue; <main queue>.dlq if not given.
	// +optional
	Name QueueName `json:"name,omitempty"`

	QueueSettings `json:",inline"`

	// sharedWith names other namespaces whose ConsumerQueues may use this queue as their dead-letter queue. These namespaces can
	// read, move and delete its dead letters. ConsumerQueues of this namespace need no consent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	SharedWith []NamespaceName `json:"sharedWith,omitempty"`
}

// DeadLetterSpec defines the destination of dead letters.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.policy) && self.policy == 'Disabled') || !(has(self.exchange) || has(self.routingKey) || has(self.queue))",message="deadLetter.policy Disabled takes no other deadLetter fields: remove them, or remove policy"
// +kubebuilder:validation:XValidation:rule="!has(self.routingKey) || (has(self.exchange) && has(self.exchange.type) && self.exchange.type in ['direct', 'topic'])",message="deadLetter.routingKey has no meaning for a fanout or headers exchange: remove it, or set deadLetter.exchange with type direct or topic"
type DeadLetterSpec struct {
	// policy is Enabled, the default, or Disabled. With Disabled there is no dead-letter exchange and no dead-letter queue, and the broker
	// drops dead letters.
	// +optional
	Policy DeadLetterPolicy `json:"policy,omitempty"`

	// exchange is the dead-letter exchange; <main queue>.dlx if not given.
	// +optional
	Exchange *DeadLetterExchange `json:"exchange,omitempty"`

	// routingKey binds the dead-letter queue to a direct or topic exchange; the queue's name if not given.
	// +optional
	RoutingKey *RoutingKey `json:"routingKey,omitempty"`

	// queue is the dead-letter queue; <main queue>.dlq if not given.
	// +optional
	Queue *DeadLetterQueueSpec `json:"queue,omitempty"`
}

// DeadLetterExchange is the exchange that dead letters pass through.
//
// +kubebuilder:validation:XValidation:rule="!has(self.name) || !self.name.startsWith('amq.')",message="exchanges that begin with amq. are the broker's own: choose another name"
type DeadLetterExchange struct {
	// name of the exchange; <main queue>.dlx if not given.
	// +optional
	Name ExchangeName `json:"name,omitempty"`

	// type of the exchange. fanout routes every dead letter to the dead-letter queue; direct and topic route dead letters with a matching
	// routing key. headers routes rejected messages to the delay tier and other dead letters to the dead-letter queue. headers requires
	// retry.strategy Reject without retry.exchange, and RabbitMQ 4.0 or newer. A headers exchange cannot be shared. If not given, the type
	// is headers if these requirements are met, and fanout otherwise.
	// +kubebuilder:validation:Enum=fanout;direct;topic;headers
	// +optional
	Type ExchangeType `json:"type,omitempty"`

	// sharedWith names other namespaces whose ConsumerQueues may use this exchange as their dead-letter exchange. ConsumerQueues of
	// this namespace need no consent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	SharedWith []NamespaceName `json:"sharedWith,omitempty"`
}

// DeadLetterPolicy enables or disables the dead-letter queue.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type DeadLetterPolicy string

// The values of DeadLetterPolicy.
const (
	DeadLetterPolicyEnabled  DeadLetterPolicy = "Enabled"
	DeadLetterPolicyDisabled DeadLetterPolicy = "Disabled"
)

// DeadLetterStrategy is the guarantee with which queues dead-letter.
//
// +kubebuilder:validation:Enum=AtLeastOnce;AtMostOnce
type DeadLetterStrategy string

// The values of DeadLetterStrategy.
const (
	DeadLetterAtLeastOnce DeadLetterStrategy = "AtLeastOnce"
	DeadLetterAtMostOnce  DeadLetterStrategy = "AtMostOnce"
)
