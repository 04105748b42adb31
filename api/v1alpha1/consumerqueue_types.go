package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConsumerQueueSpec describes the topology of one consumer: the main queue, the retry of failed messages, and the destination of
// dead letters. All fields have defaults: an empty spec is a full topology.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.queue) && has(self.queue.deliveryLimit)) || !hasStrategy(self, 'Requeue')",message="queue.deliveryLimit follows from retry.maxAttempts with retry.strategy Requeue: remove queue.deliveryLimit and set retry.maxAttempts"
// +kubebuilder:validation:XValidation:rule="!isDeadLetterDisabled(self) || !hasStrategy(self, 'Requeue')",message="retry.strategy Requeue needs dead-lettering: with deadLetter.policy Disabled the broker would drop messages that reach the limit; remove deadLetter.policy"
// +kubebuilder:validation:XValidation:rule="!(has(self.queue) && has(self.queue.messageTTL)) || !deadLettersToTier(self)",message="queue.messageTTL loses or blocks expired messages with retry.strategy Reject where retry.exchange is given, deadLetter.exchange.type is not headers, or dead-lettering is disabled: remove queue.messageTTL, or dead-letter through an exchange of type headers, without retry.exchange"
// +kubebuilder:validation:XValidation:rule="!limitsAtMostOnce(self) || !deadLettersToTier(self)",message="queue.maxLength and queue.maxLengthBytes with deadLetterStrategy AtMostOnce lose the messages that exceed them with retry.strategy Reject where retry.exchange is given, deadLetter.exchange.type is not headers, or dead-lettering is disabled: use AtLeastOnce, remove the limits, or dead-letter through an exchange of type headers, without retry.exchange"
// +kubebuilder:validation:XValidation:rule="!(has(self.queue) && has(self.queue.deliveryLimit) && type(self.queue.deliveryLimit) == int) || !deadLettersToTier(self)",message="a numeric queue.deliveryLimit loses messages with retry.strategy Reject where retry.exchange is given, deadLetter.exchange.type is not headers, or dead-lettering is disabled: use Unlimited, or dead-letter through an exchange of type headers, without retry.exchange"
// +kubebuilder:validation:XValidation:rule="!(hasDeadLetterExchangeType(self) && self.deadLetter.exchange.type == 'headers') || (hasStrategy(self, 'Reject') && !has(self.retry.exchange))",message="deadLetter.exchange.type headers routes rejected messages to the delay tier: it needs retry.strategy Reject without retry.exchange; use another type"
// +kubebuilder:validation:XValidation:rule="!dropHeadDefeatsAtLeastOnce(self)",message="queue.overflow DropHead defeats at-least-once dead-lettering: use RejectPublish, or deadLetterStrategy AtMostOnce"
// +kubebuilder:validation:XValidation:rule="!has(self.recreation) || (has(self.recreatePolicy) && self.recreatePolicy != 'Manual')",message="recreation has no meaning with recreatePolicy Manual, which recreates no queue: set recreatePolicy to WhenEmpty or Migrate, or remove recreation"
// +kubebuilder:validation:XValidation:rule="!has(self.recreation) || !(has(self.recreatePolicy) && self.recreatePolicy == 'WhenEmpty') || !(has(self.recreation.approval) || has(self.recreation.maxReadyMessages))",message="recreation.approval and recreation.maxReadyMessages have no meaning with recreatePolicy WhenEmpty, which waits until the queue is empty: remove them, or set recreatePolicy to Migrate"
type ConsumerQueueSpec struct {
	// connectionRef names the BrokerConnection in this namespace. It is "default" if not given, and cannot be changed.
	// +optional
	ConnectionRef *LocalObjectReference `json:"connectionRef,omitempty"`

	// queue is the main queue. The application consumes it.
	// +optional
	Queue *QueueSpec `json:"queue,omitempty"`

	// bindings are the exchanges and routing keys that feed the main queue.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a.exchange.name != b.exchange.name || !has(a.exchange.type) || !has(b.exchange.type) || a.exchange.type == b.exchange.type))",message="bindings give one exchange two types: use the same exchange.type"
	// +optional
	Bindings []SourceBinding `json:"bindings,omitempty"`

	// retry defines how a failed message waits before its next attempt.
	// +optional
	Retry *RetrySpec `json:"retry,omitempty"`

	// deadLetter defines the destination of messages that are out of attempts, rejected or expired.
	// +optional
	DeadLetter *DeadLetterSpec `json:"deadLetter,omitempty"`

	// deadLetterStrategy is the guarantee with which queues of this topology dead-letter. With AtLeastOnce, a queue retains a
	// message until the next queue has confirmed it, and refuses publishes while it is full. AtMostOnce may lose messages.
	// +kubebuilder:default=AtLeastOnce
	// +optional
	DeadLetterStrategy DeadLetterStrategy `json:"deadLetterStrategy,omitempty"`

	// contract names a ConfigMap in which Warren publishes this topology to the application's consumers. Without it, you configure
	// the consumers yourself.
	// +optional
	Contract *ContractSpec `json:"contract,omitempty"`

	// driftPolicy is what Warren does if the broker differs from the spec. Correct declares missing exchanges, queues and bindings, and
	// removes objects that left the spec. Report writes nothing to the broker: Warren declares no object, not even the first time, and
	// recreates no queue. When the resource is deleted, Report retains objects that Warren found, unless deletionPolicy is Delete.
	// +kubebuilder:default=Correct
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// recreatePolicy is what Warren does if a changed argument requires a queue to be recreated. Manual reports the change and
	// leaves the queue as it is. WhenEmpty recreates a queue as soon as it has no ready message and no consumer. Migrate also recreates
	// a main queue that holds messages, once its consumers are gone: Warren moves the messages to another queue and back.
	// +kubebuilder:default=Manual
	// +optional
	RecreatePolicy RecreatePolicy `json:"recreatePolicy,omitempty"`

	// recreation defines how queues are recreated under recreatePolicy WhenEmpty or Migrate.
	// +optional
	Recreation *RecreationSpec `json:"recreation,omitempty"`

	// deletionPolicy is what Warren does with the topology when this resource is deleted. DeleteIfEmpty deletes the topology if the main
	// queue and the delay tiers are proven empty and have no consumers, and otherwise retains all of it. It also retains a dead-letter
	// queue with messages. Retain leaves everything at the broker. Delete also deletes messages. Warren never deletes objects that other
	// clients or ConsumerQueues need.
	// +kubebuilder:default=DeleteIfEmpty
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// suspend stops all reads and writes at the broker for this resource. A running phase of a recreation ends first, and the phase
	// Swapping in any case. If the resource is deleted while it is suspended, Warren retains the topology at the broker.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// SourceBinding binds the main queue to an exchange, once for each routing key.
type SourceBinding struct {
	// exchange from which the main queue receives messages.
	// +required
	Exchange SourceExchange `json:"exchange,omitzero"`

	// routingKeys of the bindings; one empty key if not given.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	RoutingKeys []RoutingKey `json:"routingKeys,omitempty"`

	// arguments of the binding, as needed by a headers exchange.
	// +optional
	Arguments Arguments `json:"arguments,omitempty"`
}

// SourceExchange is an exchange that feeds the main queue. Warren never deletes it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !self.name.startsWith('amq.')",message="exchanges that begin with amq. are the broker's own: leave type out to use one"
type SourceExchange struct {
	// name of the exchange at the broker, such as orders or amq.topic.
	// +required
	Name ExchangeName `json:"name,omitempty"`

	// type of the exchange. With a type, Warren declares the exchange (durable) if it is missing. Without a type, the exchange must
	// exist.
	// +kubebuilder:validation:Enum=direct;fanout;topic;headers
	// +optional
	Type ExchangeType `json:"type,omitempty"`
}

// ExchangeType is a type of exchange, as RabbitMQ names it.
type ExchangeType string

// The exchange types that RabbitMQ always has.
const (
	ExchangeDirect  ExchangeType = "direct"
	ExchangeFanout  ExchangeType = "fanout"
	ExchangeTopic   ExchangeType = "topic"
	ExchangeHeaders ExchangeType = "headers"
)

// DriftPolicy is what Warren does about drift.
//
// +kubebuilder:validation:Enum=Correct;Report
type DriftPolicy string

// The values of DriftPolicy.
const (
	DriftPolicyCorrect DriftPolicy = "Correct"
	DriftPolicyReport  DriftPolicy = "Report"
)

// DeletionPolicy is what Warren does with the topology of a deleted resource.
//
// +kubebuilder:validation:Enum=DeleteIfEmpty;Retain;Delete
type DeletionPolicy string

// The values of DeletionPolicy.
const (
	// DeletionPolicyDeleteIfEmpty deletes the topology if its main queue and delay tiers are proven empty, and otherwise retains it.
	DeletionPolicyDeleteIfEmpty DeletionPolicy = "DeleteIfEmpty"
	// DeletionPolicyRetain leaves everything at the broker.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete deletes all objects that nothing else uses, including their messages.
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// The queue's name and the connection identify the topology:
// +kubebuilder:validation:XValidation:rule="mainQueueName(self) == mainQueueName(oldSelf)",fieldPath=".spec.queue",message="the name of the main queue cannot be changed: create another ConsumerQueue for another queue"
// +kubebuilder:validation:XValidation:rule="connectionName(self) == connectionName(oldSelf)",fieldPath=".spec.connectionRef",message="the connection cannot be changed: create another ConsumerQueue for another connection"
//
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.startsWith('amq.') || namesQueue(self.spec)",fieldPath=".spec.queue",message="the resource's name is that of the main queue, and names that begin with amq. are reserved by the broker: give queue.name"
//
// Names derived from the main queue's name must fit, and all names must differ:
// +kubebuilder:validation:XValidation:rule="defaultDeadLetterNamesFit(self)",fieldPath=".spec.deadLetter",message="the name <main queue>.dlx or <main queue>.dlq exceeds 255 bytes: give deadLetter.exchange.name and deadLetter.queue.name, or a shorter queue.name"
// +kubebuilder:validation:XValidation:rule="defaultTierNamesFit(self)",fieldPath=".spec.retry",message="the name <main queue>.retry.<delay> exceeds 255 bytes: give delayTiers with queueName, or a shorter queue.name"
// +kubebuilder:validation:XValidation:rule="deadLetterQueueIsNotMain(self)",fieldPath=".spec.deadLetter.queue.name",message="the dead-letter queue and the main queue have the same name: choose another deadLetter.queue.name"
// +kubebuilder:validation:XValidation:rule="namedTiersAreNeitherMainNorDeadLetter(self)",fieldPath=".spec.retry.delayTiers",message="a delay tier has the name of the main queue or the dead-letter queue: choose another queueName"
// +kubebuilder:validation:XValidation:rule="deadLetterQueueIsNoTier(self)",fieldPath=".spec.deadLetter.queue.name",message="the dead-letter queue has the name of a delay tier: choose another deadLetter.queue.name"
// +kubebuilder:validation:XValidation:rule="namedTiersAreNotDefaultTiers(self)",fieldPath=".spec.retry.delayTiers",message="two delay tiers have the same queue name: choose another queueName"
// +kubebuilder:validation:XValidation:rule="givenKeysAreNotDefaultKeys(self)",fieldPath=".spec.retry.delayTiers",message="two delay tiers have the same routing key, so a message would wait in both: choose another routingKey"
// +kubebuilder:validation:XValidation:rule="deadLetterExchangeIsNoOther(self)",fieldPath=".spec.deadLetter",message="the dead-letter exchange must differ from retry.exchange and from the exchanges of bindings: choose another deadLetter.exchange.name"
// +kubebuilder:validation:XValidation:rule="retryExchangeIsNoSource(self.spec)",fieldPath=".spec.retry.exchange",message="the retry exchange must differ from the exchanges of bindings: choose another name"

// ConsumerQueue is the topology of one consumer at a RabbitMQ broker: its main queue, delay tiers, dead-letter exchange and
// dead-letter queue. All queues are quorum queues. Warren declares them and reports in status how they compare with the spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cqueue,categories=warren
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.status.queueName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Dead",type=integer,JSONPath=`.status.messages.deadLettered`
// +kubebuilder:printcolumn:name="Drifted",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Recreate",type=string,JSONPath=`.status.conditions[?(@.type=="RecreationRequired")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Connection",type=string,priority=1,JSONPath=`.status.connectionName`
// +kubebuilder:printcolumn:name="Advisory",type=string,priority=1,JSONPath=`.status.advisories[0].code`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ConsumerQueue struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired topology: the main queue, the retry of failed messages, and the destination of dead letters. It may be
	// empty.
	// +required
	Spec ConsumerQueueSpec `json:"spec"`

	// status compares the desired topology with the broker.
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

// QueueName returns the main queue's effective name.
func (c *ConsumerQueue) QueueName() string {
	if c.Spec.Queue != nil && c.Spec.Queue.Name != "" {
		return string(c.Spec.Queue.Name)
	}
	return c.Name
}

// ConnectionName returns the effective name of the BrokerConnection.
func (c *ConsumerQueue) ConnectionName() string {
	if c.Spec.ConnectionRef != nil {
		return c.Spec.ConnectionRef.Name
	}
	return DefaultConnectionName
}
