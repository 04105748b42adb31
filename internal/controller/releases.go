package controller

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

// remembered is for how long a release is: longer than a cache takes to hear that the resource is gone, and than a deletion
// goes on after it.
const remembered = time.Hour

// releases remembers what ConsumerQueues that are being deleted have left to others, so that of several that are deleted
// at the same time and share an object exactly one, the last, deletes it.
type releases struct {
	mu    sync.Mutex
	of    map[client.ObjectKey]release
	swept time.Time
}

// release is what one resource left, with the name of whom it was left to.
type release struct {
	uid  types.UID
	when time.Time
	left map[vhost.ID]string
}

func newReleases() *releases { return &releases{of: map[client.ObjectKey]release{}} }

// settle decides, once for each resource, which of its objects are left to whom of those that are being deleted too, and
// returns who has an object then. From then on the resource is no longer one that others have to leave their objects to.
func (r *releases) settle(cq *v1alpha1.ConsumerQueue, owned []v1alpha1.TopologyEntry, near neighbours) func(v1alpha1.TopologyEntry) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(cq)
	settled, done := r.of[key]
	if !done || settled.uid != cq.UID {
		settled = release{uid: cq.UID, when: time.Now(), left: map[vhost.ID]string{}}
		staying := r.unsettled(near)
		for _, entry := range owned {
			if other := staying.sharer(entry); other != "" {
				settled.left[topology.IDOf(entry)] = other
			}
		}
		r.of[key] = settled
	}
	living := near.living()
	return func(entry v1alpha1.TopologyEntry) string {
		if other := living.sharer(entry); other != "" {
			return other // who may have come since
		}
		return settled.left[topology.IDOf(entry)]
	}
}

// staying are the neighbours that have not left theirs yet.
func (r *releases) staying(near neighbours) neighbours {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsettled(near)
}

// unsettledSharer finds out who else has an object and has not left it yet; as settle, without deciding anything.
func (r *releases) unsettledSharer(
	_ *v1alpha1.ConsumerQueue, _ []v1alpha1.TopologyEntry, near neighbours,
) func(v1alpha1.TopologyEntry) string {
	return r.staying(near).sharer
}

// unsettled is staying, called with the lock.
func (r *releases) unsettled(near neighbours) neighbours {
	var staying neighbours
	for _, other := range near {
		if left, done := r.of[other.key]; !done || left.uid != other.uid {
			staying = append(staying, other)
		}
	}
	if time.Since(r.swept) > remembered {
		maps.DeleteFunc(r.of, func(_ client.ObjectKey, left release) bool { return time.Since(left.when) > remembered })
		r.swept = time.Now()
	}
	return staying
}
