package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContractSpec says where consumers find the contract: queue, retry strategy, delay tiers, and where to park what they give up.
type ContractSpec struct {
	// configMap is the name of the ConfigMap in this namespace that Warren writes the contract into, laid out as a service binding.
	// Warren needs a permission for that, which it is not given by default; see docs/consumer/kubernetes.md.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	ConfigMap string `json:"configMap,omitempty"`
}

// ContractStatus is the contract that consumers have.
type ContractStatus struct {
	// configMap names the ConfigMap that was written last, which spec.contract may not name any more.
	// +kubebuilder:validation:MaxLength=253
	// +required
	ConfigMap string `json:"configMap,omitempty"`

	// hash of the ConfigMap's data. Pods that consume have the contract once their copy of the ConfigMap has this hash.
	// +kubebuilder:validation:MaxLength=80
	// +required
	Hash string `json:"hash,omitempty"`

	// lastUpdateTime is when the ConfigMap was given this contract. What has left the spec stays at the broker for three minutes
	// more, or longer if the operator restarts, until every consumer knows.
	// +required
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}
