package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of status.topology and status.changes. The status counts further entries in topologyOmitted and changesOmitted.
const (
	MaxTopologyEntries = 256
	MaxChangeEntries   = 64
)

// MaxFinishedJobs is the limit of status.finishedJobs.
const MaxFinishedJobs = 32

// ConsumerQueueStatus compares the desired topology with the broker.
type ConsumerQueueStatus struct {
	// conditions are Ready, Drifted, RecreationRequired and, while they hold, Reconciling, Stalled and Suspended.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// queueName is the name of the main queue at the broker: spec.queue.name, or the name of this resource.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	QueueName string `json:"queueName,omitempty"`

	// rejectMode is how messages reach the delay tier with retry.strategy Reject. ByReason: a headers exchange routes rejected
	// messages to the delay tier, and other dead letters to the dead-letter queue. Straight: every dead letter of the main queue
	// goes to the delay tier. It is absent with other strategies.
	// +optional
	RejectMode RejectMode `json:"rejectMode,omitempty"`

	// connectionName is the BrokerConnection in use, including the default one.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ConnectionName string `json:"connectionName,omitempty"`

	// location is the vhost of the topology. Warren deletes nothing at another location.
	// +optional
	Location Location `json:"location,omitempty,omitzero"`

	// topology lists the exchanges, queues and bindings of this topology, and the state of each.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Topology []TopologyEntry `json:"topology,omitempty"`

	// topologyOmitted is the number of objects that topology leaves out.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TopologyOmitted int32 `json:"topologyOmitted,omitempty"`

	// changes are the differences between desired and observed; empty when in sync.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Changes []Change `json:"changes,omitempty"`

	// changesOmitted is the number of differences that changes leaves out.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ChangesOmitted int32 `json:"changesOmitted,omitempty"`

	// advisories describe configuration that is applied but risky. They do not affect Ready.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Advisories []Advisory `json:"advisories,omitempty"`

	// messages counts the messages in the queues of this topology. Warren writes it when a number becomes zero, stops being zero or
	// changes its order of magnitude, and together with any other change of the status. It is absent before the first count, while the
	// manager has --message-counts-interval=0, and while none of the queues exists.
	// +optional
	Messages *MessageCounts `json:"messages,omitempty"`

	// contract describes the ConfigMap that Warren wrote for spec.contract. It is absent without spec.contract, and before the first
	// write.
	// +optional
	Contract *ContractStatus `json:"contract,omitempty"`

	// recreation describes the recreation of a queue that is planned or under way, and the result of the last one. It is absent
	// before the first recreation.
	// +optional
	Recreation *RecreationStatus `json:"recreation,omitempty"`

	// planHash identifies the set of all changes, including the omitted ones. It is empty when in sync.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	PlanHash string `json:"planHash,omitempty"`

	// lastSyncedTime is when the topology last became in sync. Later checks do not change it.
	// +optional
	LastSyncedTime *metav1.Time `json:"lastSyncedTime,omitempty"`

	// lastHandledReconcileAt is the last value of the annotation messaging.warren.dev/requested-at that Warren acted on.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// finishedJobs are the latest finished Redrives and Purges of this ConsumerQueue, the newest last. A Redrive or Purge with the
	// same kind, name and spec as an entry does nothing. Dry runs are not listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	FinishedJobs []FinishedJob `json:"finishedJobs,omitempty"`
}

// RejectMode is how messages reach the delay tier with strategy Reject.
//
// +kubebuilder:validation:Enum=ByReason;Straight
type RejectMode string

// The values of RejectMode.
const (
	RejectByReason RejectMode = "ByReason"
	RejectStraight RejectMode = "Straight"
)

// FinishedJob is a Redrive or Purge that has finished, successfully or not.
type FinishedJob struct {
	// kind is Redrive, which moved messages, or Purge, which deleted them.
	// +kubebuilder:validation:Enum=Redrive;Purge
	// +required
	Kind string `json:"kind,omitempty"`

	// name of the resource, in the namespace of the ConsumerQueue. The resource itself may be gone.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// specHash is a hash of the spec without rate, suspend, cancel, ttlSecondsAfterFinished and requestedBy.
	// +kubebuilder:validation:MaxLength=80
	// +required
	SpecHash string `json:"specHash,omitempty"`

	// startTime is when the Redrive or Purge began to take messages. It is absent if it took none.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the Redrive or Purge first finished.
	// +required
	CompletionTime metav1.Time `json:"completionTime,omitzero"`
}

// ObjectKind is a kind of object at the broker.
//
// +kubebuilder:validation:Enum=Exchange;Queue;Binding
type ObjectKind string

// The values of ObjectKind.
const (
	KindExchange ObjectKind = "Exchange"
	KindQueue    ObjectKind = "Queue"
	KindBinding  ObjectKind = "Binding"
)

// Role is the purpose of an object in a topology.
//
// +kubebuilder:validation:Enum=Main;DelayTier;DeadLetter;Retry;Source
type Role string

// The values of Role.
const (
	// RoleMain is the main queue. The application consumes it.
	RoleMain Role = "Main"
	// RoleDelayTier is a queue in which messages wait, or its binding.
	RoleDelayTier Role = "DelayTier"
	// RoleDeadLetter is the dead-letter exchange, the dead-letter queue, or their binding.
	RoleDeadLetter Role = "DeadLetter"
	// RoleRetry is the exchange in front of the delay tiers.
	RoleRetry Role = "Retry"
	// RoleSource is an exchange that feeds the main queue, or its binding.
	RoleSource Role = "Source"
)

// ObjectState compares an object at the broker with the desired one.
//
// +kubebuilder:validation:Enum=InSync;Missing;RecreationRequired;Foreign;Orphaned;Unknown
type ObjectState string

// The values of ObjectState.
const (
	// StateInSync: the object matches the spec.
	StateInSync ObjectState = "InSync"
	// StateMissing: the broker does not have the object.
	StateMissing ObjectState = "Missing"
	// StateRecreationRequired: the object differs in a property that RabbitMQ cannot change.
	StateRecreationRequired ObjectState = "RecreationRequired"
	// StateForeign: a binding that no ConsumerQueue specifies. It leads into a queue of Warren, or from a dead-letter or retry
	// exchange of Warren to another queue or to an exchange.
	StateForeign ObjectState = "Foreign"
	// StateOrphaned: Warren's object has left the spec, and is not safe to delete yet.
	StateOrphaned ObjectState = "Orphaned"
	// StateUnknown: Warren could not read the broker.
	StateUnknown ObjectState = "Unknown"
)

// Origin records whether Warren declared an object or found it. An object that Warren is about to declare already has an origin.
//
// +kubebuilder:validation:Enum=Declared;Adopted
type Origin string

// The values of Origin.
const (
	OriginDeclared Origin = "Declared"
	OriginAdopted  Origin = "Adopted"
)

// TopologyEntry is an exchange, queue or binding of a topology. An exchange or queue has a name; a binding has source,
// destination and routingKey.
type TopologyEntry struct {
	// kind of the object: Exchange, Queue or Binding.
	// +required
	Kind ObjectKind `json:"kind,omitempty"`

	// name of the exchange or queue at the broker; a binding has none.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`

	// source is the exchange that a binding gets messages from; empty for other objects.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Source string `json:"source,omitempty"`

	// destination is the queue or exchange at the end of a binding; empty for other objects.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Destination string `json:"destination,omitempty"`

	// routingKey of a binding, which may be the empty key; empty for other objects.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	RoutingKey string `json:"routingKey,omitempty"`

	// arguments of a binding as a JSON object; empty if there are none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Arguments string `json:"arguments,omitempty"`

	// role of the object in the topology; a foreign binding has none.
	// +optional
	Role Role `json:"role,omitempty"`

	// state of the object at the broker compared with the desired one, such as InSync or Missing.
	// +required
	State ObjectState `json:"state,omitempty"`

	// origin records whether Warren declared the exchange or queue, or found it. Warren deletes a found object only if it was in
	// sync once, which lastSyncedHash shows.
	// +optional
	Origin Origin `json:"origin,omitempty"`

	// lastSyncedHash is a hash of the desired object when it was last in sync. It begins with the version of the hash, as in
	// v1:06967e3c5605e8ec. It is empty if the object was never in sync.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	LastSyncedHash string `json:"lastSyncedHash,omitempty"`
}

// Effect is the action that removes a difference.
//
// +kubebuilder:validation:Enum=Declare;Bind;Unbind;Delete;Recreate;None
type Effect string

// The values of Effect.
const (
	// EffectDeclare declares an exchange or queue.
	EffectDeclare Effect = "Declare"
	// EffectBind binds a queue to an exchange.
	EffectBind Effect = "Bind"
	// EffectUnbind removes a binding that has left the spec.
	EffectUnbind Effect = "Unbind"
	// EffectDelete deletes an exchange or queue that has left the spec.
	EffectDelete Effect = "Delete"
	// EffectRecreate deletes the object and declares it again.
	EffectRecreate Effect = "Recreate"
	// EffectNone: Warren has nothing to do. The user or another system must act.
	EffectNone Effect = "None"
)

// Change is one difference between the desired and the observed topology.
type Change struct {
	// kind of the object: Exchange, Queue or Binding.
	// +required
	Kind ObjectKind `json:"kind,omitempty"`

	// name of the exchange or queue at the broker; a binding has none.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`

	// source is the exchange that a binding gets messages from; empty for other objects.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Source string `json:"source,omitempty"`

	// destination is the queue or exchange at the end of a binding; empty for other objects.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Destination string `json:"destination,omitempty"`

	// routingKey of a binding, which may be the empty key; empty for other objects.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	RoutingKey string `json:"routingKey,omitempty"`

	// arguments of a binding as a JSON object; empty if there are none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Arguments string `json:"arguments,omitempty"`

	// path of the property that differs, such as arguments.x-message-ttl; empty if the whole object is missing.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Path string `json:"path,omitempty"`

	// desired value; empty if there should be none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Desired string `json:"desired,omitempty"`

	// observed value; empty if there is none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Observed string `json:"observed,omitempty"`

	// effect is the action that removes the difference, such as Declare or Recreate. None: the user or another system must act.
	// +required
	Effect Effect `json:"effect,omitempty"`

	// message describes the difference and what to do about it.
	// +kubebuilder:validation:MaxLength=131072
	// +optional
	Message string `json:"message,omitempty"`
}
