package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The most entries of status.topology and status.changes; what exceeds them is counted.
const (
	MaxTopologyEntries = 256
	MaxChangeEntries   = 64
)

// MaxFinishedJobs is how many entries status.finishedJobs has at most.
const MaxFinishedJobs = 32

// ConsumerQueueStatus compares the desired topology with the broker.
type ConsumerQueueStatus struct {
	// conditions are Ready, Drifted, RecreationRequired and, while they hold, Reconciling, Stalled and Suspended.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// queueName is what the main queue is called at the broker.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	QueueName string `json:"queueName,omitempty"`

	// rejectMode says how messages reach the delay tier under retry.strategy Reject. ByReason: a headers exchange routes rejected
	// messages to the delay tier, and other dead letters to the dead-letter queue. Straight: every dead letter of the main queue
	// goes to the delay tier. It is absent under other strategies.
	// +optional
	RejectMode RejectMode `json:"rejectMode,omitempty"`

	// connectionName is the BrokerConnection in use, also where the spec names none.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ConnectionName string `json:"connectionName,omitempty"`

	// location is where the topology is. Warren deletes nothing at another location.
	// +optional
	Location Location `json:"location,omitempty,omitzero"`

	// topology lists the exchanges, queues and bindings of this topology, and the state of each.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Topology []TopologyEntry `json:"topology,omitempty"`

	// topologyOmitted is how many objects the list of the topology leaves out.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TopologyOmitted int32 `json:"topologyOmitted,omitempty"`

	// changes is what differs between desired and observed; empty when in sync.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Changes []Change `json:"changes,omitempty"`

	// changesOmitted is how many changes the list leaves out.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ChangesOmitted int32 `json:"changesOmitted,omitempty"`

	// advisories are things that are as asked for, and yet a trap. They never touch Ready.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Advisories []Advisory `json:"advisories,omitempty"`

	// messages is how many messages the queues of this topology held when they were last counted. It is written when a number
	// becomes zero or is zero no more, or changes its order of magnitude, and whenever something else in the status changes.
	// Absent where messages are not counted.
	// +optional
	Messages *MessageCounts `json:"messages,omitempty"`

	// contract says what was written into the ConfigMap of spec.contract; absent before that, and without spec.contract.
	// +optional
	Contract *ContractStatus `json:"contract,omitempty"`

	// recreation is the recreation of a queue that is planned or under way, and how the last one ended; absent before the first one.
	// +optional
	Recreation *RecreationStatus `json:"recreation,omitempty"`

	// planHash identifies the set of all changes, including the omitted ones. It is empty when in sync.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	PlanHash string `json:"planHash,omitempty"`

	// lastSyncedTime is when the topology last became in sync, not when it was last looked at.
	// +optional
	LastSyncedTime *metav1.Time `json:"lastSyncedTime,omitempty"`

	// lastHandledReconcileAt echoes the annotation messaging.warren.dev/requested-at that was last acted on.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// finishedJobs are the last Redrives and Purges of this ConsumerQueue that finished, the newest last. A Redrive or Purge with the same
	// kind, name and spec as one of them does nothing. Dry runs are not listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	FinishedJobs []FinishedJob `json:"finishedJobs,omitempty"`
}

// RejectMode is how messages reach the delay tier under strategy Reject.
//
// +kubebuilder:validation:Enum=ByReason;Straight
type RejectMode string

// The values of RejectMode.
const (
	RejectByReason RejectMode = "ByReason"
	RejectStraight RejectMode = "Straight"
)

// FinishedJob is a Redrive or a Purge that has finished, well or badly.
type FinishedJob struct {
	// kind says what the job did: a Redrive moved messages, a Purge deleted them.
	// +kubebuilder:validation:Enum=Redrive;Purge
	// +required
	Kind string `json:"kind,omitempty"`

	// name is that of the resource, in the namespace of the ConsumerQueue. The resource itself may be gone.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// specHash is a hash of the spec without rate, suspend, cancel, ttlSecondsAfterFinished and requestedBy.
	// +kubebuilder:validation:MaxLength=80
	// +required
	SpecHash string `json:"specHash,omitempty"`

	// completionTime is when the Redrive or Purge finished first.
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

// Role is what an object is for in a topology.
//
// +kubebuilder:validation:Enum=Main;DelayTier;DeadLetter;Retry;Source
type Role string

// The values of Role.
const (
	// RoleMain is the queue that the application consumes.
	RoleMain Role = "Main"
	// RoleDelayTier is a queue in which messages wait, or its binding.
	RoleDelayTier Role = "DelayTier"
	// RoleDeadLetter is the dead-letter exchange or queue, or their binding.
	RoleDeadLetter Role = "DeadLetter"
	// RoleRetry is the exchange in front of the delay tiers.
	RoleRetry Role = "Retry"
	// RoleSource is an exchange that the main queue is bound to, or that binding.
	RoleSource Role = "Source"
)

// ObjectState is how an object at the broker compares with what is desired.
//
// +kubebuilder:validation:Enum=InSync;Missing;RecreationRequired;Foreign;Orphaned;Unknown
type ObjectState string

// The values of ObjectState.
const (
	// StateInSync: as desired.
	StateInSync ObjectState = "InSync"
	// StateMissing: not at the broker.
	StateMissing ObjectState = "Missing"
	// StateRecreationRequired: differs in what cannot be changed.
	StateRecreationRequired ObjectState = "RecreationRequired"
	// StateForeign: a binding into one of our queues that no ConsumerQueue wants, or from our dead-letter or retry exchange to others.
	StateForeign ObjectState = "Foreign"
	// StateOrphaned: ours, no longer wanted, and not yet safe to delete.
	StateOrphaned ObjectState = "Orphaned"
	// StateUnknown: the broker could not be read.
	StateUnknown ObjectState = "Unknown"
)

// Origin says whether Warren declared an object or found it. An object that is yet to be declared has it already.
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

	// destination is the queue that a binding brings messages to; empty for other objects.
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

	// state of the object at the broker compared with what is desired, such as InSync or Missing.
	// +required
	State ObjectState `json:"state,omitempty"`

	// origin says whether Warren declared the exchange or queue, or found it. What Warren found is its to delete only if
	// it was in sync once, which is when it has a lastSyncedHash.
	// +optional
	Origin Origin `json:"origin,omitempty"`

	// lastSyncedHash is a hash of how the object was desired when it was last seen in sync, after the version of the hash, as
	// in v1:06967e3c5605e8ec; empty if the object never was in sync.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	LastSyncedHash string `json:"lastSyncedHash,omitempty"`
}

// Effect is what it takes to make a change.
//
// +kubebuilder:validation:Enum=Declare;Bind;Unbind;Delete;Recreate;None
type Effect string

// The values of Effect.
const (
	// EffectDeclare declares an exchange or queue.
	EffectDeclare Effect = "Declare"
	// EffectBind binds a queue to an exchange.
	EffectBind Effect = "Bind"
	// EffectUnbind takes away a binding that is not wanted any more.
	EffectUnbind Effect = "Unbind"
	// EffectDelete deletes an exchange or queue that is not wanted any more.
	EffectDelete Effect = "Delete"
	// EffectRecreate deletes the object and declares it again.
	EffectRecreate Effect = "Recreate"
	// EffectNone: Warren has nothing to do; somebody else has.
	EffectNone Effect = "None"
)

// Change is one difference between desired and observed.
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

	// destination is the queue that a binding brings messages to; empty for other objects.
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

	// path of what differs within the object, such as arguments.x-message-ttl; empty where the whole object is missing.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Path string `json:"path,omitempty"`

	// desired value; empty where there should be none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Desired string `json:"desired,omitempty"`

	// observed value; empty where there is none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Observed string `json:"observed,omitempty"`

	// effect is what it takes to make the change.
	// +required
	Effect Effect `json:"effect,omitempty"`

	// message says in a sentence what differs and what is to be done.
	// +kubebuilder:validation:MaxLength=131072
	// +optional
	Message string `json:"message,omitempty"`
}
