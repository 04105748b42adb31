package vhost

import (
	"encoding/json"
	"fmt"
)

// Cluster identifies a RabbitMQ cluster. The name alone does not: the RabbitMQ cluster operator names each cluster after its
// resource, so clusters in several namespaces often have the same name.
//
// An identity with an ID is strong, one without is weak. Which question is asked of two identities depends on what follows
// from the answer: MayBe where something is kept, Is where something is done.
type Cluster struct {
	// ID is a hash of the random id that the cluster gave itself when it was made; empty where the user may not read it.
	ID string `json:"id,omitempty"`
	// Name is the cluster's name. It can be changed.
	Name string `json:"name,omitempty"`
	// Endpoint is host:port of the AMQP URI that leads to the cluster.
	Endpoint string `json:"endpoint,omitempty"`
}

// Strong says whether the ID is known.
func (c Cluster) Strong() bool { return c.ID != "" }

// Known is false for the identity of no cluster.
func (c Cluster) Known() bool { return c.ID != "" || c.Name != "" }

// MayBe says whether two identities may be of one cluster: then nothing is taken away from whoever is at the other.
func (c Cluster) MayBe(other Cluster) bool {
	if c.Strong() && other.Strong() {
		return c.ID == other.ID
	}
	return c.Name != "" && c.Name == other.Name
}

// Is says whether two identities are surely of one cluster. Clusters of one name that are reached at one endpoint are taken
// for one where an ID is not known.
func (c Cluster) Is(other Cluster) bool {
	if c.Strong() && other.Strong() {
		return c.ID == other.ID
	}
	return c.MayBe(other) && c.Endpoint != "" && c.Endpoint == other.Endpoint
}

// Keeping returns the identity with the ID that is recorded of the same cluster, for a user who may not read the ID any more.
func (c Cluster) Keeping(recorded Cluster) Cluster {
	if c.ID == "" && c.Is(recorded) {
		c.ID = recorded.ID
	}
	return c
}

// Key is the identity as one text, as calls carry it that must not reach another cluster.
func (c Cluster) Key() string {
	if !c.Known() {
		return ""
	}
	text, _ := json.Marshal(c) // of strings
	return string(text)
}

// ClusterOf returns the identity of a Key. Any other text gives the identity of no cluster.
func ClusterOf(key string) Cluster {
	read := Cluster{}
	if err := json.Unmarshal([]byte(key), &read); err != nil {
		return Cluster{}
	}
	return read
}

// String names the cluster for people.
func (c Cluster) String() string {
	if c.Endpoint == "" {
		return fmt.Sprintf("%q", c.Name)
	}
	return fmt.Sprintf("%q at %s", c.Name, c.Endpoint)
}
