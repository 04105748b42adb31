package ownership

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// The most bytes that intents may have, and all annotations of a resource together. The API server admits 256 KiB of annotations.
const (
	maxIntents     = 32 << 10
	maxAnnotations = 240 << 10
)

// intents are what a new ConsumerQueue is about to have declared, and where, in the form of the annotation. They never say more
// than that: what the broker has may be somebody else's, as with topology.Intended.
type intents struct {
	// UID is the ConsumerQueue's: a copy under another name, or out of a backup, has another one.
	UID     types.UID                `json:"uid"`
	Cluster vhost.Cluster            `json:"cluster"`
	VHost   string                   `json:"vhost"`
	Objects []v1alpha1.TopologyEntry `json:"objects"`
}

// AnnotateIntents writes into the annotation of a new ConsumerQueue which of the entries are to become its own at a location. It
// does nothing, and returns false, for a ConsumerQueue whose status was written before, and where the annotation would become too
// large.
func AnnotateIntents(cq *v1alpha1.ConsumerQueue, here Location, entries []v1alpha1.TopologyEntry) bool {
	if !isPristine(cq.Status) || !here.Cluster.Known() {
		return false
	}
	owned := topology.Owned(entries)
	for i, entry := range owned {
		owned[i] = topology.EntryOf(topology.IDOf(entry))
		owned[i].Role = entry.Role
	}
	text, err := json.Marshal(intents{UID: cq.UID, Cluster: here.Cluster, VHost: here.VHost, Objects: owned})
	if err != nil || len(text) > maxIntents {
		return false
	}
	others := 0
	for key, value := range cq.Annotations {
		others += len(key) + len(value)
	}
	if others+len(text) > maxAnnotations {
		return false
	}
	metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.IntentsAnnotation, string(text))
	return true
}

// RestoreIntents completes a ConsumerQueue right after it was read from the API server: where the annotation counts, its objects
// and their location become part of the status, as if they had been written there. It takes the annotation off what was read.
//
// The annotation counts for the ConsumerQueue that it was written for, until its status is written for the first time. A status
// that was lost brings no old intents back: see isPristine and wasStatusWritten.
func RestoreIntents(cq *v1alpha1.ConsumerQueue) (restored bool) {
	text, found := cq.Annotations[v1alpha1.IntentsAnnotation]
	if !found {
		return false
	}
	delete(cq.Annotations, v1alpha1.IntentsAnnotation)
	if !isPristine(cq.Status) || wasStatusWritten(cq) || len(text) > maxIntents {
		return false
	}
	read := intents{}
	if err := json.Unmarshal([]byte(text), &read); err != nil || read.UID != cq.UID || !read.Cluster.Known() || !areIntents(read.Objects) {
		return false
	}
	for _, object := range read.Objects {
		entry := topology.EntryOf(topology.IDOf(object))
		entry.Role, entry.State = object.Role, v1alpha1.StateUnknown
		if entry.Kind != v1alpha1.KindBinding {
			entry.Origin = v1alpha1.OriginDeclared
		}
		cq.Status.Topology = append(cq.Status.Topology, entry)
	}
	Location{Cluster: read.Cluster, VHost: read.VHost}.Record(&cq.Status.Location)
	return true
}

// isPristine says whether a status is as the API server makes it where there is none: only the CRD's default has a negative
// generation, and whatever Warren writes names the main queue. An empty status is one that somebody has emptied.
func isPristine(status v1alpha1.ConsumerQueueStatus) bool {
	return status.ObservedGeneration < 0 && status.QueueName == "" && len(status.Topology) == 0 &&
		!Recorded(status.Location).Cluster.Known()
}

// wasStatusWritten says whether anybody has written the status. Who takes the status away is said to have written what the API
// server puts in its place.
func wasStatusWritten(cq *v1alpha1.ConsumerQueue) bool {
	return slices.ContainsFunc(cq.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "status" })
}

// areIntents says whether objects are such as AnnotateIntents writes.
func areIntents(objects []v1alpha1.TopologyEntry) bool {
	kinds := []v1alpha1.ObjectKind{v1alpha1.KindExchange, v1alpha1.KindQueue, v1alpha1.KindBinding}
	foreign := func(object v1alpha1.TopologyEntry) bool {
		return object.Role == "" || !slices.Contains(kinds, object.Kind)
	}
	return len(objects) > 0 && len(objects) <= v1alpha1.MaxTopologyEntries && !slices.ContainsFunc(objects, foreign)
}
