package controller

import (
	"slices"
	"unique"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// compact reduces the memory of a cached ConsumerQueue. A decoder allocates a new string for each word, and slices with spare capacity.
func compact(cq *v1alpha1.ConsumerQueue) {
	intern(&cq.Kind, &cq.APIVersion, &cq.Namespace)
	for i := range cq.Finalizers {
		intern(&cq.Finalizers[i])
	}
	status := &cq.Status
	at := &status.Location
	intern(&status.ConnectionName, &at.VHost, &at.ClusterName, &at.ClusterID, &at.ClusterEndpoint)
	status.Conditions, status.Topology = slices.Clone(status.Conditions), slices.Clone(status.Topology)
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		intern(&condition.Type, &condition.Reason, &condition.Message)
		intern(&condition.Status)
	}
	names := map[string]string{cq.Name: cq.Name, status.QueueName: status.QueueName}
	for i := range status.Topology {
		entry := &status.Topology[i]
		intern(&entry.Kind)
		intern(&entry.Role)
		intern(&entry.State)
		intern(&entry.Origin)
		for _, name := range []*string{&entry.Name, &entry.Source, &entry.Destination, &entry.RoutingKey} {
			if _, known := names[*name]; !known {
				names[*name] = *name
			}
			*name = names[*name]
		}
	}
}

// intern makes all resources share one copy of a common word.
func intern[word ~string](words ...*word) {
	for _, w := range words {
		*w = word(unique.Make(string(*w)).Value())
	}
}
