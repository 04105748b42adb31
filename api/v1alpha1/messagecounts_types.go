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

	// asOf is when the messages were counted. The numbers of now may differ within their order of magnitude.
	// +required
	AsOf metav1.Time `json:"asOf,omitempty,omitzero"`
}
