package v1alpha1

// Location is a vhost of a RabbitMQ cluster.
type Location struct {
	// clusterName is the name of the RabbitMQ cluster. Clusters in several Kubernetes namespaces often have the same name.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// clusterID is a hash of the ID that the RabbitMQ cluster gave itself. It distinguishes clusters of the same name. It is empty
	// if Warren could never read the ID, for which the user needs the tag policymaker or administrator.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ClusterID string `json:"clusterID,omitempty"`

	// clusterEndpoint is host:port of the AMQP address. It distinguishes clusters of the same name if clusterID is empty.
	// +kubebuilder:validation:MaxLength=1100
	// +optional
	ClusterEndpoint string `json:"clusterEndpoint,omitempty"`

	// vhost is the virtual host in the RabbitMQ cluster.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	VHost string `json:"vhost,omitempty"`
}

// LocalObjectReference names an object in the same namespace.
type LocalObjectReference struct {
	// name of an object in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}
