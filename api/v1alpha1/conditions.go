package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus: the latter two are present only while they are True,
// and never both. Complete and Failed are those of a Job: a Redrive or Purge that has ended has one of them.
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

// Reasons of a condition; those of a ConsumerQueue first.
const (
	// ReasonPending: not reconciled yet.
	ReasonPending = "Pending"
	// ReasonInSync: the broker has exactly what the spec asks for.
	ReasonInSync = "InSync"
	// ReasonCorrecting: objects are missing and are being declared.
	ReasonCorrecting = "Correcting"
	// ReasonRepeatedlyDeleted: others delete an object again and again, so it is declared again only once per five minutes.
	ReasonRepeatedlyDeleted = "RepeatedlyDeleted"
	// ReasonQueueNotStarted: RabbitMQ cannot start new quorum queues, or leaves their declarations without an answer.
	ReasonQueueNotStarted = "QueueNotStarted"
	// ReasonDrifted: the broker differs from the spec.
	ReasonDrifted = "Drifted"
	// ReasonRecreationRequired: an object differs in what cannot be changed without deleting it.
	ReasonRecreationRequired = "RecreationRequired"
	// ReasonBrokerUpgraded: an object is as this spec asks for it on an older RabbitMQ.
	ReasonBrokerUpgraded = "BrokerUpgraded"
	// ReasonRecreationPending: Warren recreates a queue when its moment has come; the old queue works until then.
	ReasonRecreationPending = "RecreationPending"
	// ReasonWaitingUntilEmpty: a queue is recreated when it holds no message.
	ReasonWaitingUntilEmpty = "WaitingUntilEmpty"
	// ReasonWaitingForConsumers: a queue is recreated when its consumers are gone.
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

	// ReasonQueued: another Redrive or Purge, or a request of the dead-letter API, has the turn at the dead-letter queue, or the namespace
	// has no slot left for another Redrive or Purge.
	ReasonQueued = "Queued"
	// ReasonMoving: messages are being moved.
	ReasonMoving = "Moving"
	// ReasonCounting: the messages that a Purge is about are being counted.
	ReasonCounting = "Counting"
	// ReasonTooManyToHold: more messages stay in the queue than one connection can hold while the others are moved.
	ReasonTooManyToHold = "TooManyToHold"
	// ReasonTooSlow: messages may be held for a limited time, and looking at all of them takes longer.
	ReasonTooSlow = "TooSlow"
	// ReasonIncomplete: the job has ended, and messages failed or were not seen.
	ReasonIncomplete = "Incomplete"
	// ReasonDeleting: messages are being deleted.
	ReasonDeleting = "Deleting"
	// ReasonSourceMissing: the dead-letter queue does not exist, or is not the ConsumerQueue's yet.
	ReasonSourceMissing = "SourceMissing"
	// ReasonDestinationMissing: the queue that messages are moved to does not exist.
	ReasonDestinationMissing = "DestinationMissing"
	// ReasonDestinationFull: the queue that messages are moved to refuses them.
	ReasonDestinationFull = "DestinationFull"
	// ReasonNothingDelivered: the dead-letter queue has messages, and the broker delivers none of them.
	ReasonNothingDelivered = "NothingDelivered"
	// ReasonDestinationBusy: the queue that messages are moved to has more ready messages than spec.maxDestinationDepth.
	ReasonDestinationBusy = "DestinationBusy"
	// ReasonBlocked: the broker takes no messages from anybody.
	ReasonBlocked = "Blocked"
	// ReasonCompleted: all messages were looked at, and those moved or deleted that were to be.
	ReasonCompleted = "Completed"
	// ReasonDryRun: all messages were looked at, and none was moved or deleted.
	ReasonDryRun = "DryRun"
	// ReasonCancelled: spec.cancel was set.
	ReasonCancelled = "Cancelled"
	// ReasonAlreadyFinished: a Redrive or Purge with this name and spec has finished before, so this one did nothing.
	ReasonAlreadyFinished = "AlreadyFinished"
	// ReasonMoreThanExpected: more messages match than spec.expectedAtMost; none was deleted.
	ReasonMoreThanExpected = "MoreThanExpected"
	// ReasonInterrupted: the manager or its connection died while messages were deleted, so nobody knows how many are.
	ReasonInterrupted = "Interrupted"
	// ReasonTooManyFailures: spec.maxFailures messages could not be moved.
	ReasonTooManyFailures = "TooManyFailures"
	// ReasonUnreadableMessage: the broker cannot deliver a message of the dead-letter queue.
	ReasonUnreadableMessage = "UnreadableMessage"
	// ReasonWaitedTooLong: the destination took no message for so long that the dead-letter queue, which has a delivery limit, might have
	// deleted one.
	ReasonWaitedTooLong = "WaitedTooLong"
	// ReasonUnknownReturn: the broker returned a message that the Redrive had not published.
	ReasonUnknownReturn = "UnknownReturn"
	// ReasonConsumerQueueNotFound: there is no such ConsumerQueue.
	ReasonConsumerQueueNotFound = "ConsumerQueueNotFound"
	// ReasonConsumerQueueNotReady: the ConsumerQueue has not been compared with the broker yet.
	ReasonConsumerQueueNotReady = "ConsumerQueueNotReady"
	// ReasonConsumerQueueGone: the ConsumerQueue was deleted after the Redrive or Purge had begun.
	ReasonConsumerQueueGone = "ConsumerQueueGone"
	// ReasonConnectionChanged: the BrokerConnection leads to another vhost or cluster than when the Redrive or Purge began.
	ReasonConnectionChanged = "ConnectionChanged"
	// ReasonSourceChanged: the ConsumerQueue has another dead-letter queue than when the Redrive or Purge began.
	ReasonSourceChanged = "SourceChanged"
	// ReasonNoDeadLetterQueue: the ConsumerQueue has no dead-letter queue.
	ReasonNoDeadLetterQueue = "NoDeadLetterQueue"
	// ReasonSourceIsStream: the dead-letter queue is a stream, which keeps messages that were read.
	ReasonSourceIsStream = "SourceIsStream"
	// ReasonDeliveryLimited: the dead-letter queue may lose messages that are looked at and stay.
	ReasonDeliveryLimited = "DeliveryLimited"
	// ReasonInvalidSelector: spec.selector cannot be understood.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonInvalidDestination: there is no such place to move messages to.
	ReasonInvalidDestination = "InvalidDestination"
	// ReasonDestinationDropsMessages: the queue that messages would go to drops others when it is full.
	ReasonDestinationDropsMessages = "DestinationDropsMessages"
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

// CompletedAtAnnotation is on a Redrive or Purge that has finished, with the time in RFC 3339. A backup keeps annotations and no status:
// a Redrive or Purge that is restored with this annotation does nothing.
const CompletedAtAnnotation = "messaging.warren.dev/completed-at"

// ExcludeFromBackupLabel is a label of Velero, which leaves out objects that have it with the value "true".
const ExcludeFromBackupLabel = "velero.io/exclude-from-backup"
