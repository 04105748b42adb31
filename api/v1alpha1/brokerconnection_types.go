package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefaultConnectionName is the BrokerConnection that a ConsumerQueue uses when it names none.
const DefaultConnectionName = "default"

// BrokerConnectionSpec says how to reach one vhost of one RabbitMQ.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.clusterRef)",message="set exactly one of secretRef (a Secret with username, password and URIs) and clusterRef (a RabbitmqCluster)"
type BrokerConnectionSpec struct {
	// secretRef names a Secret in this namespace with the keys username, password, and either amqpURI and managementURI
	// (alias uri), or the keys of the default-user Secret of the RabbitMQ cluster operator (host, port,
	// connection_string), from which both URIs are derived.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`

	// clusterRef names, instead of a Secret, a RabbitmqCluster (rabbitmq.com/v1beta1) in this namespace. Its default
	// user is used.
	// +optional
	ClusterRef *LocalObjectReference `json:"clusterRef,omitempty"`

	// amqpURI overrides where AMQP is spoken, as amqp://host:port or amqps://host:port, without user and password.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^amqps?://[^/?#]+')",message="must be amqp://host:port or amqps://host:port"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not hold a user or password: put them into the Secret"
	// +optional
	AMQPURI string `json:"amqpURI,omitempty"`

	// managementURI overrides where the management API is, as http://host:port or https://host:port, without user and
	// password. A path prefix is honoured.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^/?#]+')",message="must be http://host:port or https://host:port"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not hold a user or password: put them into the Secret"
	// +optional
	ManagementURI string `json:"managementURI,omitempty"`

	// vhost is the virtual host that the ConsumerQueues of this connection live in. It cannot be changed.
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 255",message="must be at most 255 bytes"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vhost cannot be changed: create another BrokerConnection for another vhost"
	// +optional
	VHost string `json:"vhost,omitempty"`

	// tls says how the broker's certificate is checked and which one is shown to it.
	// +optional
	TLS *TLSSpec `json:"tls,omitempty"`

	// resyncInterval is how often the vhost is compared with what is desired, at least 1s.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="!isDuration(self) || lengthOf(self) >= 1000",message="must be at least 1s"
	// +optional
	ResyncInterval Duration `json:"resyncInterval,omitempty"`

	// suspend stops everything that uses this connection: nothing is read from or written to the broker.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// TLSSpec says how TLS connections are made, for AMQP and the management API alike.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.insecureSkipVerify) && self.insecureSkipVerify && has(self.caSecretRef))",message="insecureSkipVerify makes caSecretRef meaningless: remove one of them"
type TLSSpec struct {
	// caSecretRef names a Secret whose key ca.crt holds the certificates (PEM) that the broker's must be signed by.
	// Without it the system's are used.
	// +optional
	CASecretRef *LocalObjectReference `json:"caSecretRef,omitempty"`

	// clientSecretRef names a Secret whose keys tls.crt and tls.key (PEM) are shown to the broker.
	// +optional
	ClientSecretRef *LocalObjectReference `json:"clientSecretRef,omitempty"`

	// serverName is the name that the broker's certificate must have, where it isn't the host in the URI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServerName string `json:"serverName,omitempty"`

	// insecureSkipVerify turns the check of the broker's certificate off. For development only.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// BrokerConnectionStatus is what was last seen of the broker.
type BrokerConnectionStatus struct {
	// conditions are Ready and, while they hold, Reconciling, Stalled and Suspended.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// brokerVersion is RabbitMQ's version, the lowest of the cluster's nodes.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	BrokerVersion string `json:"brokerVersion,omitempty"`

	// location is where the AMQP connection was last shown to lead. Its vhost is the one into which the broker at clusterEndpoint has let
	// the connection. The vhost is empty with spec.tls.serverName, because one address can lead to several brokers then.
	// +optional
	Location Location `json:"location,omitempty,omitzero"`

	// capabilities are what the broker's version and the user's permissions allow.
	// +optional
	Capabilities *BrokerCapabilities `json:"capabilities,omitempty"`

	// lastHandledReconcileAt echoes the annotation messaging.warren.dev/requested-at that was last acted on.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// consumerQueues is how many ConsumerQueues use this connection.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ConsumerQueues *int32 `json:"consumerQueues,omitempty"`
}

// BrokerCapabilities are what the broker's version and the user's permissions allow.
type BrokerCapabilities struct {
	// definitions says that the user may read the vhost's definitions, so one request shows everything (tag administrator).
	// +required
	Definitions bool `json:"definitions"`

	// events says that the operator receives events about changes in the vhost at once, through the plugin rabbitmq_event_exchange.
	// Otherwise the operator finds the changes once per resyncInterval.
	// +required
	Events bool `json:"events"`

	// eventsReason says why no events arrive.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	EventsReason string `json:"eventsReason,omitempty"`

	// policies says that the user may write policies (tag policymaker or administrator).
	// +required
	Policies bool `json:"policies"`

	// delayedRedelivery says that the broker knows retry.redeliveryDelay (RabbitMQ 4.3).
	// +required
	DelayedRedelivery bool `json:"delayedRedelivery"`

	// statistics says that the broker counts messages and lists connections; it does not with
	// management_agent.disable_metrics_collector. Warren deletes queues without them.
	// +optional
	Statistics *bool `json:"statistics,omitempty"`
}

// BrokerConnection is how to reach one vhost of one RabbitMQ.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bc,categories=warren
// +kubebuilder:printcolumn:name="VHost",type=string,JSONPath=`.spec.vhost`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.brokerVersion`
// +kubebuilder:printcolumn:name="Queues",type=integer,JSONPath=`.status.consumerQueues`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Cluster",type=string,priority=1,JSONPath=`.status.location.clusterName`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type BrokerConnection struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how to reach the broker: addresses, vhost, credentials and TLS.
	// +required
	Spec BrokerConnectionSpec `json:"spec"`

	// status is what was last seen of the broker: whether it can be reached, its version, what it allows.
	// +kubebuilder:default:={"observedGeneration":-1, "conditions":{{"type":"Ready", "status":"Unknown", "reason":"Pending", "message":"not reconciled yet", "lastTransitionTime":"1970-01-01T00:00:00Z"}}}
	// +optional
	Status BrokerConnectionStatus `json:"status,omitempty"`
}

// BrokerConnectionList is a list of BrokerConnections.
//
// +kubebuilder:object:root=true
type BrokerConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BrokerConnection `json:"items"`
}
