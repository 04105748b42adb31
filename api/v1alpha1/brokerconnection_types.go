package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultConnectionName is the BrokerConnection that a ConsumerQueue without connectionRef uses.
const DefaultConnectionName = "default"

// BrokerConnectionSpec defines how Warren reaches one vhost of a RabbitMQ cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.clusterRef)",message="set exactly one of secretRef (a Secret with username, password and URIs) and clusterRef (a RabbitmqCluster)"
type BrokerConnectionSpec struct {
	// secretRef names a Secret in this namespace with the keys username, password and amqpURI, and optionally managementURI (alias uri).
	// Without it, Warren uses the host of amqpURI with port 15672, or 15671 with TLS. The Secret can also be a default-user Secret of the
	// RabbitMQ cluster operator: Warren derives both URIs from its host, port and connection_string.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`

	// clusterRef names a RabbitmqCluster (rabbitmq.com/v1beta1) in this namespace, instead of a Secret. Warren connects as its
	// default user.
	// +optional
	ClusterRef *LocalObjectReference `json:"clusterRef,omitempty"`

	// amqpURI overrides the AMQP address, as amqp://host:port or amqps://host:port, without user and password.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^amqps?://[^/?#]+')",message="must be amqp://host:port or amqps://host:port"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not contain a user or password: put them into the Secret"
	// +optional
	AMQPURI string `json:"amqpURI,omitempty"`

	// managementURI overrides the address of the management API, as http://host:port or https://host:port, without user and
	// password. It may have a path prefix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^/?#]+')",message="must be http://host:port or https://host:port"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not contain a user or password: put them into the Secret"
	// +optional
	ManagementURI string `json:"managementURI,omitempty"`

	// vhost is the virtual host of the ConsumerQueues that use this connection. It cannot be changed.
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 255",message="must be at most 255 bytes"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="vhost cannot be changed: create another BrokerConnection for another vhost"
	// +optional
	VHost string `json:"vhost,omitempty"`

	// tls configures TLS for AMQP and the management API.
	// +optional
	TLS *TLSSpec `json:"tls,omitempty"`

	// resyncInterval is the interval at which Warren compares the vhost with the ConsumerQueues, at least 1s.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="!isDuration(self) || lengthOf(self) >= 1000",message="must be at least 1s"
	// +optional
	ResyncInterval Duration `json:"resyncInterval,omitempty"`

	// suspend closes the connection, and stops all reads and writes at the broker for its ConsumerQueues. If a ConsumerQueue is deleted
	// meanwhile, Warren retains its topology. A recreation stops in its phase, and in the phase Swapping its queue may refuse messages
	// until suspend is false again.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// TLSSpec configures TLS for AMQP and the management API.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.insecureSkipVerify) && self.insecureSkipVerify && has(self.caSecretRef))",message="insecureSkipVerify makes caSecretRef meaningless: remove one of them"
type TLSSpec struct {
	// caSecretRef names a Secret whose key ca.crt holds the certificates (PEM) of the authorities that sign the broker's
	// certificate. If not given, Warren trusts the system's authorities.
	// +optional
	CASecretRef *LocalObjectReference `json:"caSecretRef,omitempty"`

	// clientSecretRef names a Secret whose keys tls.crt and tls.key hold Warren's client certificate and its key (PEM).
	// +optional
	ClientSecretRef *LocalObjectReference `json:"clientSecretRef,omitempty"`

	// serverName is the expected name in the broker's certificate, if it differs from the host in the URI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServerName string `json:"serverName,omitempty"`

	// insecureSkipVerify disables the verification of the broker's certificate. Use it for development only.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// BrokerConnectionStatus is the state of the broker when Warren last read it.
type BrokerConnectionStatus struct {
	// conditions are Ready and, while they hold, Reconciling, Stalled and Suspended.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// brokerVersion is the lowest RabbitMQ version among the nodes of the cluster.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	BrokerVersion string `json:"brokerVersion,omitempty"`

	// location is the vhost that the AMQP connection was last proven to reach. Its vhost is empty with spec.tls.serverName, because
	// one address can then lead to several brokers.
	// +optional
	Location Location `json:"location,omitempty,omitzero"`

	// capabilities lists what the broker's version and the user's permissions allow.
	// +optional
	Capabilities *BrokerCapabilities `json:"capabilities,omitempty"`

	// lastHandledReconcileAt is the last value of the annotation messaging.warren.dev/requested-at that Warren acted on.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// consumerQueues is how many ConsumerQueues use this connection, including suspended ones.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ConsumerQueues *int32 `json:"consumerQueues,omitempty"`
}

// BrokerCapabilities lists what the broker's version and the user's permissions allow.
type BrokerCapabilities struct {
	// definitions is true if the user may read the vhost's definitions (tag administrator). Warren then reads the vhost in one
	// request.
	// +required
	Definitions bool `json:"definitions"`

	// events is true if Warren receives events about changes in the vhost, through the plugin rabbitmq_event_exchange. Otherwise
	// Warren finds changes once per resyncInterval.
	// +required
	Events bool `json:"events"`

	// eventsReason explains why no events arrive.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	EventsReason string `json:"eventsReason,omitempty"`

	// policies is true if the user may write policies (tag policymaker or administrator).
	// +required
	Policies bool `json:"policies"`

	// delayedRedelivery is true if the broker supports retry.redeliveryDelay (RabbitMQ 4.3 and newer).
	// +required
	DelayedRedelivery bool `json:"delayedRedelivery"`

	// statistics is true if the broker counts messages and lists connections. It is false with
	// management_agent.disable_metrics_collector. Warren can delete queues without statistics.
	// +optional
	Statistics *bool `json:"statistics,omitempty"`
}

// BrokerConnection defines how Warren reaches one vhost of a RabbitMQ cluster.
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

	// spec defines addresses, vhost, credentials and TLS.
	// +required
	Spec BrokerConnectionSpec `json:"spec"`

	// status reports whether Warren reaches the broker, the broker's version and its capabilities.
	// +kubebuilder:default:={"observedGeneration":-1, "conditions":{{"type":"Ready", "status":"Unknown", "reason":"Pending", "message":"not reconciled yet", "lastTransitionTime":"1970-01-01T00:00:00Z"}}}
	// +optional
	Status BrokerConnectionStatus `json:"status,omitempty"`
}

// IsProtected reports whether the BrokerConnection has its finalizer. Warren declares nothing through a connection without the
// finalizer: the connection and its Secret could disappear before its ConsumerQueues have cleaned up.
func (bc *BrokerConnection) IsProtected() bool {
	return slices.Contains(bc.Finalizers, ConnectionFinalizer)
}

// BrokerConnectionList is a list of BrokerConnections.
//
// +kubebuilder:object:root=true
type BrokerConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BrokerConnection `json:"items"`
}
