package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContractSpec defines where consumers find the contract: the queue, the retry strategy, the delay tiers, and the destination of
// parked messages.
type ContractSpec struct {
	// configMap names the ConfigMap in this namespace into which Warren writes the contract, laid out as a service binding. Warren
	// needs a permission that it does not have by default; see docs/consumer/kubernetes.md.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	ConfigMap string `json:"configMap,omitempty"`
}

// ContractStatus describes the contract that consumers have.
type ContractStatus struct {
	// configMap names the ConfigMap that Warren wrote last. It can differ from spec.contract.
	// +kubebuilder:validation:MaxLength=253
	// +required
	ConfigMap string `json:"configMap,omitempty"`

	// hash of the ConfigMap's data. A consumer has this contract once its pod's copy of the ConfigMap has this hash.
	// +kubebuilder:validation:MaxLength=80
	// +required
	Hash string `json:"hash,omitempty"`

	// lastUpdateTime is when Warren wrote this contract into the ConfigMap. Objects that have left the spec stay at the broker for
	// three more minutes, so that every consumer reads the new contract first. They stay longer if Warren restarts.
	// +required
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}
