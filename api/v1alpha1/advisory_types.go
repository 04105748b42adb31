package v1alpha1

// AdvisoryCode names a kind of trap.
//
// +kubebuilder:validation:Enum=ShadowedByPolicy;ReturnRouteFansOut;Orphaned;FewMembers;Fenced;SentinelLeft;SharedVHost;DeliveryLimitBelowAttempts;UnsupportedByNewerBroker;DeadLettersCanBeLost;DeadLettersExpire;DeadLettersDropped;DeadLettersDelayed;SharedDeadLetterQueue;SharedWithoutConsent;DeadLetterQueueConsumed;RedriveImpossible
type AdvisoryCode string

// The values of AdvisoryCode.
const (
	// AdvisoryShadowedByPolicy: a policy changes what one of our queues does.
	AdvisoryShadowedByPolicy AdvisoryCode = "ShadowedByPolicy"
	// AdvisoryReturnRouteFansOut: the return route leads to further queues, so each retry is copied there.
	AdvisoryReturnRouteFansOut AdvisoryCode = "ReturnRouteFansOut"
	// AdvisoryOrphaned: an exchange or queue has left the spec and cannot be deleted yet.
	AdvisoryOrphaned AdvisoryCode = "Orphaned"
	// AdvisoryFewMembers: a quorum queue has fewer members than asked for.
	AdvisoryFewMembers AdvisoryCode = "FewMembers"
	// AdvisoryFenced: a queue refuses what is published, because of a policy that an operator put up to delete queues.
	AdvisoryFenced AdvisoryCode = "Fenced"
	// AdvisorySentinelLeft: a message that an operator published to delete queues may be left in a queue.
	AdvisorySentinelLeft AdvisoryCode = "SentinelLeft"
	// AdvisorySharedVHost: another operator works on this vhost, so nothing is removed.
	AdvisorySharedVHost AdvisoryCode = "SharedVHost"
	// AdvisoryDeliveryLimitBelowAttempts: the broker may give a message up before its attempts are used up.
	AdvisoryDeliveryLimitBelowAttempts AdvisoryCode = "DeliveryLimitBelowAttempts"
	// AdvisoryUnsupportedByNewerBroker: a newer RabbitMQ refuses what the spec asks for.
	AdvisoryUnsupportedByNewerBroker AdvisoryCode = "UnsupportedByNewerBroker"
	// AdvisoryDeadLettersCanBeLost: the broker may delete dead letters that are looked at.
	AdvisoryDeadLettersCanBeLost AdvisoryCode = "DeadLettersCanBeLost"
	// AdvisoryDeadLettersExpire: the broker takes dead letters away after some time.
	AdvisoryDeadLettersExpire AdvisoryCode = "DeadLettersExpire"
	// AdvisoryDeadLettersDropped: the dead-letter queue drops its oldest dead letters when it is full.
	AdvisoryDeadLettersDropped AdvisoryCode = "DeadLettersDropped"
	// AdvisoryDeadLettersDelayed: RabbitMQ hides dead letters for some time after they were looked at.
	AdvisoryDeadLettersDelayed AdvisoryCode = "DeadLettersDelayed"
	// AdvisorySharedDeadLetterQueue: other ConsumerQueues have the same dead-letter queue.
	AdvisorySharedDeadLetterQueue AdvisoryCode = "SharedDeadLetterQueue"
	// AdvisorySharedWithoutConsent: ConsumerQueues of two namespaces share an object, and the namespace that holds it does not consent.
	AdvisorySharedWithoutConsent AdvisoryCode = "SharedWithoutConsent"
	// AdvisoryDeadLetterQueueConsumed: somebody else than Warren consumes the dead-letter queue.
	AdvisoryDeadLetterQueueConsumed AdvisoryCode = "DeadLetterQueueConsumed"
	// AdvisoryRedriveImpossible: the broker refuses to have dead letters looked at, moved or deleted.
	AdvisoryRedriveImpossible AdvisoryCode = "RedriveImpossible"
)

// AdvisoryReason says in one word why there is an advisory.
//
// +kubebuilder:validation:MaxLength=64
type AdvisoryReason string

// Values of AdvisoryReason. Others may come.
const (
	// AdvisoryReasonPolicy: a policy holds for the queue.
	AdvisoryReasonPolicy AdvisoryReason = "Policy"
	// AdvisoryReasonOperatorPolicy: an operator policy holds for the queue.
	AdvisoryReasonOperatorPolicy AdvisoryReason = "OperatorPolicy"
	// AdvisoryReasonPolicyMayApply: Warren cannot tell whether the pattern of a policy matches the queue.
	AdvisoryReasonPolicyMayApply AdvisoryReason = "PolicyMayApply"
	// AdvisoryReasonSharedVHost: another operator works on the vhost.
	AdvisoryReasonSharedVHost AdvisoryReason = "SharedVHost"
	// AdvisoryReasonRecreationPending: an object must be recreated first.
	AdvisoryReasonRecreationPending AdvisoryReason = "RecreationPending"
	// AdvisoryReasonReplacementPending: what is wanted instead is not there yet.
	AdvisoryReasonReplacementPending AdvisoryReason = "ReplacementPending"
	// AdvisoryReasonDeadLetters: a queue dead-letters here.
	AdvisoryReasonDeadLetters AdvisoryReason = "DeadLetters"
	// AdvisoryReasonInUse: something else at the broker uses the object.
	AdvisoryReasonInUse AdvisoryReason = "InUse"
	// AdvisoryReasonContractPending: consumers may not have heard of the new contract yet.
	AdvisoryReasonContractPending AdvisoryReason = "ContractPending"
	// AdvisoryReasonReportOnly: driftPolicy is Report.
	AdvisoryReasonReportOnly AdvisoryReason = "ReportOnly"
	// AdvisoryReasonNotEmpty: the queue holds messages or has consumers.
	AdvisoryReasonNotEmpty AdvisoryReason = "NotEmpty"
	// AdvisoryReasonCheckingEmpty: Warren is finding out whether the queue is empty.
	AdvisoryReasonCheckingEmpty AdvisoryReason = "CheckingEmpty"
	// AdvisoryReasonDeletionFailed: the queue could not be deleted; the message says why.
	AdvisoryReasonDeletionFailed AdvisoryReason = "DeletionFailed"
	// AdvisoryReasonArgument: an argument of the queue sets what makes the trap.
	AdvisoryReasonArgument AdvisoryReason = "Argument"
	// AdvisoryReasonBrokerDefault: neither an argument nor a policy sets anything, and the default of the broker makes the trap.
	AdvisoryReasonBrokerDefault AdvisoryReason = "BrokerDefault"
)

// Advisory is something that is as asked for, and yet a trap.
type Advisory struct {
	// code names the kind of trap, such as ShadowedByPolicy.
	// +required
	Code AdvisoryCode `json:"code,omitempty"`

	// reason why the trap is there, where a trap can have several.
	// +optional
	Reason AdvisoryReason `json:"reason,omitempty"`

	// name of the queue, exchange or vhost that the trap concerns.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`

	// message says what to look out for.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}
