package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// releases remembers what ConsumerQueues that are being deleted have left to others, so that of several that are deleted
// at the same time and share an object exactly one, the last, deletes it.
type releases struct {
	mu sync.Mutex
	of map[client.ObjectKey]release
}

// release is what one resource left, with the name of whom it was left to.
type release struct {
	uid  types.UID
	left map[identity]string
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
		settled = release{uid: cq.UID, left: map[identity]string{}}
		staying := r.staying(near)
		for _, entry := range owned {
			if other := staying.sharer(entry); other != "" {
				settled.left[identityOf(entry)] = other
			}
		}
		r.of[key] = settled
	}
	living := slices.DeleteFunc(slices.Clone(near), func(other neighbour) bool { return other.terminating })
	return func(entry v1alpha1.TopologyEntry) string {
		if other := living.sharer(entry); other != "" {
			return other // who may have come since
		}
		return settled.left[identityOf(entry)]
	}
}

// staying are the neighbours that have not left theirs yet. It is called with the lock.
func (r *releases) staying(near neighbours) neighbours {
	var staying neighbours
	for _, other := range near {
		if left, done := r.of[other.key]; !done || left.uid != other.uid {
			staying = append(staying, other)
		}
	}
	return staying
}

func (r *releases) forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, key)
}
