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

// maxIntents limits the annotation, in bytes. The API server accepts 256 KiB of annotations.
const maxIntents = 32 << 10

// intents are the objects that Warren is about to declare for a new ConsumerQueue, and their location, as encoded in the annotation. Like
// topology.Intended, they do not prove ownership, because objects at the broker may belong to other clients.
type intents struct {
	// UID of the ConsumerQueue. A copy under another name, or from a backup, has another UID.
	UID     types.UID                `json:"uid"`
	Cluster vhost.Cluster            `json:"cluster"`
	VHost   string                   `json:"vhost"`
	Objects []v1alpha1.TopologyEntry `json:"objects"`
}

// AnnotateIntents writes the future owned objects among entries, and their location, into the annotation of a new ConsumerQueue.
// It returns false and changes nothing if the status was written before, or the annotation would become too large.
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
	metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.IntentsAnnotation, string(text))
	return true
}

// RestoreIntents completes a ConsumerQueue that was just read from the API server. If the annotation is valid, it adds the objects and
// their location to the status. It removes the annotation from the ConsumerQueue in memory in any case.
//
// The annotation is valid for the ConsumerQueue for which it was written, until the first write of the status. A lost status does
// not revive old intents: see isPristine and wasStatusWritten.
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

// isPristine reports whether a status is the API server's default. Only the CRD's default has a negative generation, and every
// status that Warren writes names the main queue. A zero status is not pristine, because a client has cleared it.
func isPristine(status v1alpha1.ConsumerQueueStatus) bool {
	return status.ObservedGeneration < 0 && status.QueueName == "" && len(status.Topology) == 0 &&
		!Recorded(status.Location).Cluster.Known()
}

// wasStatusWritten reports whether any client has written the status. It returns true if a client removed the status: managedFields then
// names that client as the writer of the default.
func wasStatusWritten(cq *v1alpha1.ConsumerQueue) bool {
	return slices.ContainsFunc(cq.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "status" })
}

// areIntents reports whether AnnotateIntents could have written these objects.
func areIntents(objects []v1alpha1.TopologyEntry) bool {
	kinds := []v1alpha1.ObjectKind{v1alpha1.KindExchange, v1alpha1.KindQueue, v1alpha1.KindBinding}
	foreign := func(object v1alpha1.TopologyEntry) bool {
		return object.Role == "" || !slices.Contains(kinds, object.Kind)
	}
	return len(objects) > 0 && len(objects) <= v1alpha1.MaxTopologyEntries && !slices.ContainsFunc(objects, foreign)
}
