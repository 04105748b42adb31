package consumerqueue

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// handoverTTL is for how long a release is: longer than a cache takes to hear that the resource is gone, and than a deletion
// goes on after it.
const handoverTTL = time.Hour

// handover remembers what ConsumerQueues that are being deleted have left to others, so that of several that are deleted
// at the same time and share an object exactly one, the last, deletes it.
type handover struct {
	mu    sync.Mutex
	of    map[client.ObjectKey]handedOver
	swept time.Time
}

// handedOver is what one resource left, with the name of whom it was left to.
type handedOver struct {
	uid        types.UID
	when       time.Time
	assignedTo map[vhost.ID]string
}

func newHandover() *handover { return &handover{of: map[client.ObjectKey]handedOver{}} }

// resolve decides, once for each resource, which of its objects are left to whom of those that are being deleted too, and
// returns who has an object then. From then on the resource is no longer one that others have to leave their objects to.
func (r *handover) resolve(cq *v1alpha1.ConsumerQueue, owned []v1alpha1.TopologyEntry, near peers) func(v1alpha1.TopologyEntry) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(cq)
	settled, done := r.of[key]
	if !done || settled.uid != cq.UID {
		settled = handedOver{uid: cq.UID, when: time.Now(), assignedTo: map[vhost.ID]string{}}
		staying := r.undecided(near)
		for _, entry := range owned {
			if other := staying.sharedWith(entry); other != "" {
				settled.assignedTo[topology.IDOf(entry)] = other
			}
		}
		r.of[key] = settled
	}
	living := near.active()
	return func(entry v1alpha1.TopologyEntry) string {
		if other := living.sharedWith(entry); other != "" {
			return other // who may have come since
		}
		return settled.assignedTo[topology.IDOf(entry)]
	}
}

// undecidedPeers are the neighbours that have not left theirs yet.
func (r *handover) undecidedPeers(near peers) peers {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.undecided(near)
}

// undecidedSharer finds out who else has an object and has not left it yet; as settle, without deciding anything.
func (r *handover) undecidedSharer(
	_ *v1alpha1.ConsumerQueue, _ []v1alpha1.TopologyEntry, near peers,
) func(v1alpha1.TopologyEntry) string {
	return r.undecidedPeers(near).sharedWith
}

// undecided is staying, called with the lock.
func (r *handover) undecided(near peers) peers {
	var staying peers
	for _, other := range near {
		if left, done := r.of[other.key]; !done || left.uid != other.uid {
			staying = append(staying, other)
		}
	}
	if time.Since(r.swept) > handoverTTL {
		maps.DeleteFunc(r.of, func(_ client.ObjectKey, left handedOver) bool { return time.Since(left.when) > handoverTTL })
		r.swept = time.Now()
	}
	return staying
}
