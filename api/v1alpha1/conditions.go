package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus: the latter two are present only while they are True,
// and never both.
const (
	ConditionReady              = "Ready"
	ConditionReconciling        = "Reconciling"
	ConditionStalled            = "Stalled"
	ConditionDrifted            = "Drifted"
	ConditionRecreationRequired = "RecreationRequired"
	ConditionSuspended          = "Suspended"
)

// Reasons of a condition; those of a ConsumerQueue first.
const (
	// ReasonPending: not reconciled yet.
	ReasonPending = "Pending"
	// ReasonInSync: the broker has exactly what the spec asks for.
	ReasonInSync = "InSync"
	// ReasonCorrecting: objects are missing and are being declared.
	ReasonCorrecting = "Correcting"
	// ReasonDrifted: the broker differs from the spec.
	ReasonDrifted = "Drifted"
	// ReasonRecreationRequired: an object differs in what cannot be changed without deleting it.
	ReasonRecreationRequired = "RecreationRequired"
	// ReasonBrokerUpgraded: an object is as this spec asks for it on an older RabbitMQ.
	ReasonBrokerUpgraded = "BrokerUpgraded"
	// ReasonExchangeMissing: an exchange that Warren does not declare does not exist.
	ReasonExchangeMissing = "ExchangeMissing"
	// ReasonReturnRouteMissing: retry.returnTo does not lead to the main queue.
	ReasonReturnRouteMissing = "ReturnRouteMissing"
	// ReasonContractNotWritten: the topology is in sync, and the ConfigMap of spec.contract cannot be written.
	ReasonContractNotWritten = "ContractNotWritten"
	// ReasonConnectionNotReady: the BrokerConnection or its Secret is missing or not usable.
	ReasonConnectionNotReady = "ConnectionNotReady"
	// ReasonBrokerUnreachable: the broker does not answer.
	ReasonBrokerUnreachable = "BrokerUnreachable"
	// ReasonPermissionDenied: the broker's user lacks a permission.
	ReasonPermissionDenied = "PermissionDenied"
	// ReasonConflict: another ConsumerQueue holds an object, and wants it otherwise or for itself.
	ReasonConflict = "Conflict"
	// ReasonTerminating: the resource is being deleted, and its topology as deletionPolicy says.
	ReasonTerminating = "Terminating"
	// ReasonUnsupportedByBroker: the broker's version lacks what a field asks for, or does not take an argument.
	ReasonUnsupportedByBroker = "UnsupportedByBroker"
	// ReasonUnsafeTopology: on this broker the topology would lose or jam messages.
	ReasonUnsafeTopology = "UnsafeTopology"
	// ReasonSuspended: spec.suspend is set, here or on the BrokerConnection.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSpec: the spec cannot be read, which only an object stored past validation can show; or AMQP cannot carry
	// its arguments.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonConnected: a BrokerConnection reaches its broker, over AMQP and the management API.
	ReasonConnected = "Connected"
	// ReasonConnecting: the first connection is being made.
	ReasonConnecting = "Connecting"
	// ReasonClusterMismatch: AMQP and the management API lead to two brokers.
	ReasonClusterMismatch = "ClusterMismatch"
	// ReasonSecretNotFound: a referenced Secret does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: a referenced Secret lacks a key, or a key's value cannot be used.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonClusterNotReady: the referenced RabbitmqCluster does not exist or has no default user yet.
	ReasonClusterNotReady = "ClusterNotReady"
	// ReasonVHostNotFound: the broker has no such vhost, or the user must not know of it.
	ReasonVHostNotFound = "VHostNotFound"
	// ReasonAuthenticationFailed: the broker refuses user and password.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonResponseTooLarge: an answer of the management API exceeds its limit.
	ReasonResponseTooLarge = "ResponseTooLarge"
)

// TopologyFinalizer keeps a ConsumerQueue that is being deleted until its topology has been dealt with.
const TopologyFinalizer = "messaging.warren.dev/topology"

// ConnectionFinalizer keeps a BrokerConnection that is being deleted for as long as ConsumerQueues that are deleted with it
// need it to clean up.
const ConnectionFinalizer = "messaging.warren.dev/connection"

// RequestedAtAnnotation asks for a look at the resource now; any new value does. The value that was last acted on is
// echoed in status.lastHandledReconcileAt.
const RequestedAtAnnotation = "messaging.warren.dev/requested-at"

// IntentsAnnotation is the operator's own. A new ConsumerQueue gets it together with its finalizer: it says which objects are about
// to be declared, and where. It has a meaning until the status is written for the first time; see
// docs/adr/0027-two-writes.md.
const IntentsAnnotation = "messaging.warren.dev/intents"

// ContractLabel is on the ConfigMaps of spec.contract. A ValidatingAdmissionPolicy lets the manager write no others; see
// config/contract.
const ContractLabel = "messaging.warren.dev/contract"
