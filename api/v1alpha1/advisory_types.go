package v1alpha1

// AdvisoryCode names a kind of risk.
//
// +kubebuilder:validation:Enum=ShadowedByPolicy;ReturnRouteFansOut;Orphaned;FewMembers;Fenced;SentinelLeft;SharedVHost;DeliveryLimitBelowAttempts;UnsupportedByNewerBroker;DeadLettersCanBeLost;DeadLettersExpire;DeadLettersDropped;DeadLettersDelayed;SharedDeadLetterQueue;SharedWithoutConsent;DeadLetterQueueConsumed;RedriveImpossible
type AdvisoryCode string

// The values of AdvisoryCode.
const (
	// AdvisoryShadowedByPolicy: a policy changes the behaviour of a queue of this topology.
	AdvisoryShadowedByPolicy AdvisoryCode = "ShadowedByPolicy"
	// AdvisoryReturnRouteFansOut: the return route leads to further queues, so each retry is copied there.
	AdvisoryReturnRouteFansOut AdvisoryCode = "ReturnRouteFansOut"
	// AdvisoryOrphaned: an exchange, a queue or bindings to an exchange have left the spec and cannot be removed yet.
	AdvisoryOrphaned AdvisoryCode = "Orphaned"
	// AdvisoryFewMembers: a quorum queue has fewer members than initialGroupSize (3 by default) or the target group size requests.
	AdvisoryFewMembers AdvisoryCode = "FewMembers"
	// AdvisoryFenced: a queue refuses publishes because of a policy that Warren created to delete or recreate queues.
	AdvisoryFenced AdvisoryCode = "Fenced"
	// AdvisorySentinelLeft: a queue may still hold a message that Warren published to delete or recreate queues.
	AdvisorySentinelLeft AdvisoryCode = "SentinelLeft"
	// AdvisorySharedVHost: another instance of Warren works on this vhost, so Warren removes nothing.
	AdvisorySharedVHost AdvisoryCode = "SharedVHost"
	// AdvisoryDeliveryLimitBelowAttempts: the broker may dead-letter a message before its attempts are used up.
	AdvisoryDeliveryLimitBelowAttempts AdvisoryCode = "DeliveryLimitBelowAttempts"
	// AdvisoryUnsupportedByNewerBroker: a newer RabbitMQ refuses a setting of the spec.
	AdvisoryUnsupportedByNewerBroker AdvisoryCode = "UnsupportedByNewerBroker"
	// AdvisoryDeadLettersCanBeLost: the broker may delete dead letters that were browsed.
	AdvisoryDeadLettersCanBeLost AdvisoryCode = "DeadLettersCanBeLost"
	// AdvisoryDeadLettersExpire: the broker deletes dead letters after some time.
	AdvisoryDeadLettersExpire AdvisoryCode = "DeadLettersExpire"
	// AdvisoryDeadLettersDropped: the dead-letter queue drops its oldest dead letters when it is full.
	AdvisoryDeadLettersDropped AdvisoryCode = "DeadLettersDropped"
	// AdvisoryDeadLettersDelayed: RabbitMQ hides dead letters for some time after they were browsed.
	AdvisoryDeadLettersDelayed AdvisoryCode = "DeadLettersDelayed"
	// AdvisorySharedDeadLetterQueue: other ConsumerQueues use the same dead-letter queue.
	AdvisorySharedDeadLetterQueue AdvisoryCode = "SharedDeadLetterQueue"
	// AdvisorySharedWithoutConsent: ConsumerQueues of two namespaces share an object, and the namespace that holds it does not consent.
	AdvisorySharedWithoutConsent AdvisoryCode = "SharedWithoutConsent"
	// AdvisoryDeadLetterQueueConsumed: a consumer other than Warren reads the dead-letter queue.
	AdvisoryDeadLetterQueueConsumed AdvisoryCode = "DeadLetterQueueConsumed"
	// AdvisoryRedriveImpossible: the broker does not let Warren browse, move or delete dead letters.
	AdvisoryRedriveImpossible AdvisoryCode = "RedriveImpossible"
)

// AdvisoryReason gives the cause of an advisory in one word.
//
// +kubebuilder:validation:MaxLength=64
type AdvisoryReason string

// The values of AdvisoryReason. More may be added.
const (
	// AdvisoryReasonPolicy: a policy applies to the queue.
	AdvisoryReasonPolicy AdvisoryReason = "Policy"
	// AdvisoryReasonOperatorPolicy: an operator policy applies to the queue.
	AdvisoryReasonOperatorPolicy AdvisoryReason = "OperatorPolicy"
	// AdvisoryReasonPolicyMayApply: Warren cannot determine whether the pattern of a policy matches the queue.
	AdvisoryReasonPolicyMayApply AdvisoryReason = "PolicyMayApply"
	// AdvisoryReasonSharedVHost: another instance of Warren works on the vhost.
	AdvisoryReasonSharedVHost AdvisoryReason = "SharedVHost"
	// AdvisoryReasonRecreationPending: an object must be recreated first.
	AdvisoryReasonRecreationPending AdvisoryReason = "RecreationPending"
	// AdvisoryReasonReplacementPending: the replacement of the object does not exist yet.
	AdvisoryReasonReplacementPending AdvisoryReason = "ReplacementPending"
	// AdvisoryReasonDeadLetters: a queue dead-letters to the object or through it.
	AdvisoryReasonDeadLetters AdvisoryReason = "DeadLetters"
	// AdvisoryReasonInUse: something else at the broker uses the object.
	AdvisoryReasonInUse AdvisoryReason = "InUse"
	// AdvisoryReasonContractPending: consumers may not have read the new contract yet.
	AdvisoryReasonContractPending AdvisoryReason = "ContractPending"
	// AdvisoryReasonReportOnly: driftPolicy is Report.
	AdvisoryReasonReportOnly AdvisoryReason = "ReportOnly"
	// AdvisoryReasonNotEmpty: the queue holds messages or has consumers.
	AdvisoryReasonNotEmpty AdvisoryReason = "NotEmpty"
	// AdvisoryReasonCheckingEmpty: Warren is checking whether the queue is empty.
	AdvisoryReasonCheckingEmpty AdvisoryReason = "CheckingEmpty"
	// AdvisoryReasonDeletionFailed: Warren could not delete the queue; the message gives the error.
	AdvisoryReasonDeletionFailed AdvisoryReason = "DeletionFailed"
	// AdvisoryReasonArgument: an argument of the queue causes the risk.
	AdvisoryReasonArgument AdvisoryReason = "Argument"
	// AdvisoryReasonBrokerDefault: neither an argument nor a policy sets the value, and the broker's default causes the risk.
	AdvisoryReasonBrokerDefault AdvisoryReason = "BrokerDefault"
)

// Advisory describes configuration that is applied but risky.
type Advisory struct {
	// code names the kind of risk, such as ShadowedByPolicy.
	// +required
	Code AdvisoryCode `json:"code,omitempty"`

	// reason gives the cause, if this kind of risk has several.
	// +optional
	Reason AdvisoryReason `json:"reason,omitempty"`

	// name of the queue, exchange or vhost that is at risk.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`

	// message describes the risk and what to do about it.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}
