package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus: Reconciling and Stalled are present only while they are True, and
// never both. Complete and Failed have the meaning that they have for a batch/v1 Job: a Redrive or Purge that has ended has one of
// them.
const (
	ConditionReady              = "Ready"
	ConditionReconciling        = "Reconciling"
	ConditionStalled            = "Stalled"
	ConditionDrifted            = "Drifted"
	ConditionRecreationRequired = "RecreationRequired"
	ConditionSuspended          = "Suspended"
	ConditionComplete           = "Complete"
	ConditionFailed             = "Failed"
)

// Reasons of conditions. The reasons of a ConsumerQueue come first.
const (
	// ReasonPending: not reconciled yet.
	ReasonPending = "Pending"
	// ReasonInSync: the broker matches the spec.
	ReasonInSync = "InSync"
	// ReasonCorrecting: objects are missing, and Warren declares them.
	ReasonCorrecting = "Correcting"
	// ReasonRepeatedlyDeleted: another system keeps deleting an object, so Warren declares it only once per five minutes.
	ReasonRepeatedlyDeleted = "RepeatedlyDeleted"
	// ReasonQueueNotStarted: RabbitMQ cannot start new quorum queues, or does not answer their declarations.
	ReasonQueueNotStarted = "QueueNotStarted"
	// ReasonDrifted: the broker differs from the spec.
	ReasonDrifted = "Drifted"
	// ReasonRecreationRequired: an object differs in a property that RabbitMQ cannot change without deleting the object.
	ReasonRecreationRequired = "RecreationRequired"
	// ReasonBrokerUpgraded: an object has the arguments that Warren would declare for this spec on an older RabbitMQ.
	ReasonBrokerUpgraded = "BrokerUpgraded"
	// ReasonRecreationPending: Warren will recreate a queue. The old queue works until then.
	ReasonRecreationPending = "RecreationPending"
	// ReasonWaitingUntilEmpty: a recreation waits until its queue has at most spec.recreation.maxReadyMessages ready messages, or
	// none.
	ReasonWaitingUntilEmpty = "WaitingUntilEmpty"
	// ReasonWaitingForConsumers: a recreation waits until the consumers of its queue are gone.
	ReasonWaitingForConsumers = "WaitingForConsumers"
	// ReasonRecreating: a queue is being recreated.
	ReasonRecreating = "Recreating"
	// ReasonApprovalNeeded: a recreation waits for the annotation approve-recreation.
	ReasonApprovalNeeded = "ApprovalNeeded"
	// ReasonApprovalStale: the annotation approve-recreation names another plan than the current one.
	ReasonApprovalStale = "ApprovalStale"
	// ReasonRecreationBlocked: a queue cannot be recreated; the message says why.
	ReasonRecreationBlocked = "RecreationBlocked"
	// ReasonRecreationAborted: a recreation was aborted, and waits for the annotation abort-recreation to be removed.
	ReasonRecreationAborted = "RecreationAborted"
	// ReasonExchangeMissing: an exchange that Warren does not declare does not exist.
	ReasonExchangeMissing = "ExchangeMissing"
	// ReasonReturnRouteMissing: retry.returnTo does not lead to the main queue.
	ReasonReturnRouteMissing = "ReturnRouteMissing"
	// ReasonContractNotWritten: the topology is in sync, and Warren cannot write the ConfigMap of spec.contract.
	ReasonContractNotWritten = "ContractNotWritten"
	// ReasonConnectionNotReady: the BrokerConnection or its Secret is missing or not usable.
	ReasonConnectionNotReady = "ConnectionNotReady"
	// ReasonBrokerUnreachable: the broker does not answer.
	ReasonBrokerUnreachable = "BrokerUnreachable"
	// ReasonPermissionDenied: the broker's user lacks a permission.
	ReasonPermissionDenied = "PermissionDenied"
	// ReasonConflict: another ConsumerQueue holds an object, and specifies it differently or exclusively, or its namespace does not share
	// it.
	ReasonConflict = "Conflict"
	// ReasonTerminating: the resource is being deleted, together with its topology if deletionPolicy allows it.
	ReasonTerminating = "Terminating"
	// ReasonUnsupportedByBroker: the broker's version lacks the feature of a field, or refuses an argument.
	ReasonUnsupportedByBroker = "UnsupportedByBroker"
	// ReasonUnsafeTopology: on this broker the topology would lose or block messages.
	ReasonUnsafeTopology = "UnsafeTopology"
	// ReasonSuspended: spec.suspend is true, here or on the BrokerConnection.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSpec: the spec is invalid in a way that the API server cannot detect. For example, AMQP cannot carry its
	// arguments.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonConnected: a BrokerConnection reaches its broker, over AMQP and the management API.
	ReasonConnected = "Connected"
	// ReasonConnecting: Warren makes the first connection.
	ReasonConnecting = "Connecting"
	// ReasonClusterMismatch: AMQP and the management API lead to two brokers.
	ReasonClusterMismatch = "ClusterMismatch"
	// ReasonSecretNotFound: a referenced Secret does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: a referenced Secret lacks a key, or a key's value cannot be used.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonClusterNotReady: the referenced RabbitmqCluster does not exist or has no default user yet.
	ReasonClusterNotReady = "ClusterNotReady"
	// ReasonVHostNotFound: the broker has no such vhost, or hides it from the user.
	ReasonVHostNotFound = "VHostNotFound"
	// ReasonAuthenticationFailed: the broker refuses user and password.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonResponseTooLarge: an answer of the management API exceeds its limit.
	ReasonResponseTooLarge = "ResponseTooLarge"
	// ReasonTooManyConnections: the namespace has too many BrokerConnections, and Warren connects only the oldest of them.
	ReasonTooManyConnections = "TooManyConnections"

	// ReasonQueued: another Redrive or Purge, or a request of the dead-letter API, uses the dead-letter queue; or the namespace has
	// no free slot for another Redrive or Purge.
	ReasonQueued = "Queued"
	// ReasonMoving: the Redrive moves messages.
	ReasonMoving = "Moving"
	// ReasonCounting: the Purge counts the messages that match.
	ReasonCounting = "Counting"
	// ReasonTooManyToHold: more messages stay in the queue than one connection can hold while the others are moved.
	ReasonTooManyToHold = "TooManyToHold"
	// ReasonTooSlow: Warren may hold messages for a limited time, and examining all of them takes longer.
	ReasonTooSlow = "TooSlow"
	// ReasonIncomplete: the job has ended, but not for all messages. Some failed or were not seen, another consumer may hold some, or
	// another job has taken some.
	ReasonIncomplete = "Incomplete"
	// ReasonDeleting: the Purge deletes messages.
	ReasonDeleting = "Deleting"
	// ReasonSourceMissing: the dead-letter queue does not exist, or the ConsumerQueue does not hold it yet.
	ReasonSourceMissing = "SourceMissing"
	// ReasonDestinationMissing: the destination queue does not exist.
	ReasonDestinationMissing = "DestinationMissing"
	// ReasonDestinationFull: the destination queue refuses messages.
	ReasonDestinationFull = "DestinationFull"
	// ReasonNothingDelivered: the dead-letter queue has messages, and the broker delivers none of them.
	ReasonNothingDelivered = "NothingDelivered"
	// ReasonNothingConfirmed: the broker confirms none of the moved messages.
	ReasonNothingConfirmed = "NothingConfirmed"
	// ReasonDestinationBusy: the destination queue has about spec.maxDestinationDepth ready messages.
	ReasonDestinationBusy = "DestinationBusy"
	// ReasonBlocked: the broker blocks all publishers.
	ReasonBlocked = "Blocked"
	// ReasonCompleted: the job has examined all messages, and has moved or deleted the matching ones.
	ReasonCompleted = "Completed"
	// ReasonDryRun: the job has examined all messages, and has moved or deleted none.
	ReasonDryRun = "DryRun"
	// ReasonCancelled: spec.cancel was set.
	ReasonCancelled = "Cancelled"
	// ReasonAlreadyFinished: a Redrive or Purge with this name and spec finished before, so this one did nothing.
	ReasonAlreadyFinished = "AlreadyFinished"
	// ReasonMoreThanExpected: more messages match than spec.expectedAtMost, and none was deleted.
	ReasonMoreThanExpected = "MoreThanExpected"
	// ReasonInterrupted: the manager stopped, or lost its connection, while the Purge deleted messages. The number of deleted messages
	// is known only as a range: from status.deleted to status.atMost.
	ReasonInterrupted = "Interrupted"
	// ReasonTooManyFailures: spec.maxFailures messages could not be moved.
	ReasonTooManyFailures = "TooManyFailures"
	// ReasonUnreadableMessage: the broker cannot deliver a message of the dead-letter queue.
	ReasonUnreadableMessage = "UnreadableMessage"
	// ReasonWaitedTooLong: the destination accepted no message for ten minutes. A dead-letter queue with a delivery limit may
	// delete messages that are held longer.
	ReasonWaitedTooLong = "WaitedTooLong"
	// ReasonUnknownReturn: the broker returned a message that the Redrive had not published.
	ReasonUnknownReturn = "UnknownReturn"
	// ReasonConsumerQueueNotFound: there is no such ConsumerQueue.
	ReasonConsumerQueueNotFound = "ConsumerQueueNotFound"
	// ReasonConsumerQueueNotReady: Warren has not compared the ConsumerQueue with the broker yet.
	ReasonConsumerQueueNotReady = "ConsumerQueueNotReady"
	// ReasonConsumerQueueGone: the ConsumerQueue was deleted after the Redrive or Purge had begun.
	ReasonConsumerQueueGone = "ConsumerQueueGone"
	// ReasonConnectionChanged: the BrokerConnection leads to another vhost or cluster than when the Redrive or Purge began.
	ReasonConnectionChanged = "ConnectionChanged"
	// ReasonSourceChanged: the ConsumerQueue has another dead-letter queue than when the Redrive or Purge began.
	ReasonSourceChanged = "SourceChanged"
	// ReasonNoDeadLetterQueue: the ConsumerQueue has no dead-letter queue.
	ReasonNoDeadLetterQueue = "NoDeadLetterQueue"
	// ReasonSourceIsStream: the dead-letter queue is a stream, which retains messages that were read.
	ReasonSourceIsStream = "SourceIsStream"
	// ReasonDeliveryLimited: the dead-letter queue may lose messages that a job examines and leaves.
	ReasonDeliveryLimited = "DeliveryLimited"
	// ReasonInvalidSelector: spec.selector is invalid.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonInvalidDestination: spec.destination names no existing destination.
	ReasonInvalidDestination = "InvalidDestination"
	// ReasonDestinationDropsMessages: the destination queue drops its oldest messages when it is full.
	ReasonDestinationDropsMessages = "DestinationDropsMessages"
)

// TopologyFinalizer keeps a deleted ConsumerQueue until Warren has deleted or retained its topology.
const TopologyFinalizer = "messaging.warren.dev/topology"

// ConnectionFinalizer keeps a deleted BrokerConnection while deleted ConsumerQueues need it to clean up.
const ConnectionFinalizer = "messaging.warren.dev/connection"

// RequestedAtAnnotation requests an immediate reconciliation whenever its value changes. status.lastHandledReconcileAt repeats the
// last value that Warren acted on.
const RequestedAtAnnotation = "messaging.warren.dev/requested-at"

// IntentsAnnotation is internal to Warren. A new ConsumerQueue gets it together with its finalizer. It lists the objects that
// Warren is about to declare, and their location. It is obsolete after the first write of the status; see ADR 0004.
const IntentsAnnotation = "messaging.warren.dev/intents"

// ContractLabel marks the ConfigMaps of spec.contract. A ValidatingAdmissionPolicy lets the manager write no others; see
// config/contract.
const ContractLabel = "messaging.warren.dev/contract"

// CompletedAtAnnotation marks a finished Redrive or Purge with its completion time (RFC 3339). A backup contains annotations but
// no status. A Redrive or Purge that is restored with this annotation does nothing.
const CompletedAtAnnotation = "messaging.warren.dev/completed-at"

// ExcludeFromBackupLabel is a label of Velero. Velero leaves out objects whose value is "true".
const ExcludeFromBackupLabel = "velero.io/exclude-from-backup"
