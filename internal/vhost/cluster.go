package vhost

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Cluster identifies a RabbitMQ cluster. The name alone does not suffice: the RabbitMQ cluster operator names each cluster after its
// resource, so clusters in several namespaces often have the same name.
//
// An identity with an ID is strong; an identity without an ID is weak. Use MayBe before retaining something, and Is before
// changing something.
type Cluster struct {
	// ID is a hash of the random ID that RabbitMQ generated when the cluster was created. It is empty if the user may not read the ID.
	ID string `json:"id,omitempty"`
	// Name is the cluster's name. RabbitMQ can change it.
	Name string `json:"name,omitempty"`
	// Endpoint is host:port of the AMQP URI of the cluster.
	Endpoint string `json:"endpoint,omitempty"`
}

// HashedClusterID returns the ID of the cluster for which RabbitMQ generated this random id. The random id itself must not appear in
// Kubernetes. The result is empty for an empty id.
func HashedClusterID(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// Strong reports whether the ID is known.
func (c Cluster) Strong() bool { return c.ID != "" }

// Known returns false for an empty identity.
func (c Cluster) Known() bool { return c.ID != "" || c.Name != "" }

// MayBe reports whether two identities could be the same cluster. If so, Warren removes nothing that belongs to the other
// identity.
func (c Cluster) MayBe(other Cluster) bool {
	if c.Strong() && other.Strong() {
		return c.ID == other.ID
	}
	return c.Name != "" && c.Name == other.Name
}

// Is reports whether two identities are certainly the same cluster. If an ID is unknown, clusters with the same name and endpoint
// are the same.
func (c Cluster) Is(other Cluster) bool {
	if c.Strong() && other.Strong() {
		return c.ID == other.ID
	}
	return c.MayBe(other) && c.Endpoint != "" && c.Endpoint == other.Endpoint
}

// Keeping returns the identity, with the recorded ID if both are the same cluster and the user may no longer read the ID.
func (c Cluster) Keeping(recorded Cluster) Cluster {
	if c.ID == "" && c.Is(recorded) {
		c.ID = recorded.ID
	}
	return c
}

// Key encodes the identity as a string. A call with this key fails on another cluster. An empty identity has the empty key.
func (c Cluster) Key() string {
	if !c.Known() {
		return ""
	}
	text, _ := json.Marshal(c) // marshalling strings cannot fail
	return string(text)
}

// ClusterOf decodes a Key. Any other string gives an empty identity.
func ClusterOf(key string) Cluster {
	read := Cluster{}
	if err := json.Unmarshal([]byte(key), &read); err != nil {
		return Cluster{}
	}
	return read
}

// String formats the identity for messages.
func (c Cluster) String() string {
	if c.Endpoint == "" {
		return fmt.Sprintf("%q", c.Name)
	}
	return fmt.Sprintf("%q at %s", c.Name, c.Endpoint)
}
