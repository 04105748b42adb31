package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MessageCounts counts the messages in the queues of a topology, by role. A number is absent if the topology has no such queue.
// Numbers include unacknowledged messages.
type MessageCounts struct {
	// main counts the messages in the main queue, ready and unacknowledged.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Main *int64 `json:"main,omitempty"`

	// delayed is the number of messages that wait in delay tiers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Delayed *int64 `json:"delayed,omitempty"`

	// deadLettered is the number of messages in the dead-letter queue. ConsumerQueues that share the queue all report the total.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DeadLettered *int64 `json:"deadLettered,omitempty"`

	// stuck counts the dead letters in the queues of this topology that RabbitMQ cannot route; absent if there are none. The exchange, its
	// binding or the target queue is missing, the target queue is full or has no quorum, or the route is a cycle. Such dead letters stay in
	// their queue, and no consumer receives them. Warren reports a dead letter as stuck if it waited at two consecutive counts. Warren
	// leaves out queues that delay returned messages, by an argument or a policy.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Stuck *int64 `json:"stuck,omitempty"`

	// asOf is when Warren counted the messages. Warren does not write each later count.
	// +required
	AsOf metav1.Time `json:"asOf,omitempty,omitzero"`
}
