package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MessageCounts is how many messages the queues of a topology held, by role. A number is absent where the topology has no such
// queue. Messages that a consumer has and has not acknowledged yet are included.
type MessageCounts struct {
	// main is how many messages the main queue held.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Main *int64 `json:"main,omitempty"`

	// delayed is how many messages waited in delay tiers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Delayed *int64 `json:"delayed,omitempty"`

	// deadLettered is how many messages the dead-letter queue held. Where several ConsumerQueues share the queue, each tells of
	// all messages in it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DeadLettered *int64 `json:"deadLettered,omitempty"`

	// stuck is how many of these messages are dead letters that RabbitMQ cannot route: the exchange, its binding or the target queue is
	// missing, the target queue is full or has no quorum, or the dead letters would run in a cycle. They stay in their queue, and no
	// consumer gets them. Dead letters count if they waited at two counts in a row, and also while the target queue cannot be counted. It
	// is absent if there are none. Queues that delay returned messages are left out.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Stuck *int64 `json:"stuck,omitempty"`

	// asOf is when the messages were counted. The numbers of now may differ within their order of magnitude.
	// +required
	AsOf metav1.Time `json:"asOf,omitempty,omitzero"`
}
