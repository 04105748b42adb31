package consumerqueue

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// peer is another ConsumerQueue that has to do with the same objects at what may be the same place.
type peer struct {
	ownership.Candidate
	key client.ObjectKey
	uid types.UID
	// foreign: it is in another namespace, which those who read of it may not know of.
	foreign bool
	// near says how sure it is that the place is the same.
	near nearness
	// terminating: it is being deleted, and takes nothing new.
	terminating bool
}

// displayName is what messages call it.
func (n peer) displayName() string {
	if n.foreign {
		return "a ConsumerQueue in another namespace"
	}
	return "ConsumerQueue " + n.Name
}

// holds says whether an object is a neighbour's, or can become so just as it is: it must be left to that. A neighbour that
// wants it otherwise is helped more if it goes.
func (n peer) holds(entry v1alpha1.TopologyEntry) bool {
	id := topology.IDOf(entry)
	owns := slices.ContainsFunc(n.Owned, func(owned v1alpha1.TopologyEntry) bool { return topology.IDOf(owned) == id })
	return owns || (!n.terminating && entry.Shape != "" && entry.Shape == n.Desired.HashOf(id))
}

// needs says whether a neighbour has an object and a use for it. Of several that have lost theirs each goes on trying to
// delete it, and one that is being deleted leaves it to those: would each leave it to another, nobody would delete it.
func (n peer) needs(entry v1alpha1.TopologyEntry) bool {
	unknown := len(n.Desired.Queues) == 0 // what it wants
	return !n.terminating && n.holds(entry) && (unknown || n.Desired.Wants(topology.IDOf(entry)))
}

// peers are all of them, sorted by name.
type peers []peer

// peersOf finds the ConsumerQueues of a place that want or own one of this one's objects, whichever connection leads
// them there.
func (r *Reconciler) peersOf(
	ctx context.Context, cq *v1alpha1.ConsumerQueue, here location, version vhost.Version,
) (peers, error) {
	found := map[client.ObjectKey]*v1alpha1.ConsumerQueue{}
	for _, object := range ownershipKeysOf(cq).conflictKeys() {
		list := &v1alpha1.ConsumerQueueList{}
		err := r.client.List(ctx, list, client.MatchingFields{IndexClaim: object}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list ConsumerQueues that have to do with %s: %w", object, err)
		}
		for i := range list.Items {
			found[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
		}
	}
	delete(found, client.ObjectKeyFromObject(cq))
	var near peers
	for _, other := range found {
		released := !other.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(other, v1alpha1.TopologyFinalizer)
		if nearness := r.nearness(ctx, other, here); !released && nearness != elsewhere {
			n := peerFrom(other, version)
			n.near, n.foreign = nearness, other.Namespace != cq.Namespace
			near = append(near, n)
		}
	}
	slices.SortFunc(near, func(a, b peer) int { return strings.Compare(a.Name, b.Name) })
	return near, nil
}

// peerFrom reads what matters of a ConsumerQueue at the same place, for a reader in its namespace. One that is being
// deleted has no right but to what it owns.
func peerFrom(cq *v1alpha1.ConsumerQueue, version vhost.Version) peer {
	n := peer{
		Candidate: candidateFrom(cq, version), key: client.ObjectKeyFromObject(cq), uid: cq.UID,
		near: same, terminating: !cq.DeletionTimestamp.IsZero(),
	}
	if n.terminating {
		n.Created = time.Unix(math.MaxInt32, 0)
	}
	return n
}

func candidateFrom(cq *v1alpha1.ConsumerQueue, version vhost.Version) ownership.Candidate {
	desired, _ := topology.Desired(cq, version) // what cannot become a topology claims nothing
	return ownership.Candidate{
		Name: client.ObjectKeyFromObject(cq).String(), Created: cq.CreationTimestamp.Time,
		Desired: desired, Owned: topology.Owned(cq.Status.Topology),
	}
}

// wantedBindings returns a function that says whether another ConsumerQueue wants a binding. It looks bindings up: there can
// be tens of thousands to ask about.
func (n peers) wantedBindings() func(vhost.ID) bool {
	wanted := map[vhost.ID]bool{}
	for _, other := range n {
		if other.near == unplaced {
			continue
		}
		for _, binding := range other.Desired.Bindings {
			wanted[binding.ID()] = true
		}
	}
	return func(id vhost.ID) bool { return wanted[id] }
}

// sharedWith is what messages call the first neighbour that has an object, or is to have it; empty if there is none.
func (n peers) sharedWith(entry v1alpha1.TopologyEntry) string {
	for _, other := range n {
		if other.near != unplaced && other.holds(entry) {
			return other.displayName()
		}
	}
	return ""
}

// anyNeeds says whether any neighbour keeps an object.
func (n peers) anyNeeds(entry v1alpha1.TopologyEntry) bool {
	return slices.ContainsFunc(n, func(other peer) bool { return other.near != unplaced && other.needs(entry) })
}

// active are those that are not being deleted.
func (n peers) active() peers {
	return slices.DeleteFunc(slices.Clone(n), func(other peer) bool { return other.terminating })
}

// candidates are the neighbours that are as near as that, or nearer.
func (n peers) candidates(near nearness) []ownership.Candidate {
	var claimants []ownership.Candidate
	for _, other := range n {
		if other.near >= near {
			claimants = append(claimants, other.Candidate)
		}
	}
	return claimants
}

// findConflict finds a conflict that a ConsumerQueue loses; only with those that are surely at the same place. Where it would win
// only because a neighbour is not known to hold what both want, or to be here, the neighbour is read from the API server: the
// cache may not have heard of it yet.
func (r *Reconciler) findConflict(
	ctx context.Context, own ownership.Candidate, near peers, here location, version vhost.Version,
) (*ownership.Conflict, error) {
	if conflict := ownership.FindConflict(own, near.candidates(same)); conflict != nil {
		return conflict, nil
	}
	uncertain := ownership.NeedsLiveRead(own, near.candidates(unplaced))
	var read []ownership.Candidate
	for _, other := range near {
		if !slices.Contains(uncertain, other.Name) || other.near == perhaps {
			continue
		}
		now := &v1alpha1.ConsumerQueue{}
		err := r.live.Get(ctx, other.key, now)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get ConsumerQueue %s: %w", other.Name, err)
		}
		if r.nearness(ctx, now, here) == same {
			read = append(read, peerFrom(now, version).Candidate)
		}
	}
	return ownership.FindConflict(own, read), nil
}

// affectedPeers has those ConsumerQueues reconciled that another one concerns: they lost a conflict, which may be over;
// or they are about to delete what it may have come to want.
func (r *Reconciler) affectedPeers() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			r.enqueueAffectedPeers(ctx, e.Object.(*v1alpha1.ConsumerQueue), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*v1alpha1.ConsumerQueue), e.ObjectNew.(*v1alpha1.ConsumerQueue)
			if before.Generation != after.Generation || !slices.Equal(brokers.ObjectKeysOf(before), brokers.ObjectKeysOf(after)) {
				r.enqueueAffectedPeers(ctx, before, q)
				r.enqueueAffectedPeers(ctx, after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.enqueueAffectedPeers(ctx, e.Object.(*v1alpha1.ConsumerQueue), q)
		},
	}
}

func (r *Reconciler) enqueueAffectedPeers(
	ctx context.Context, cq *v1alpha1.ConsumerQueue, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	for _, object := range ownershipKeysOf(cq).conflictKeys() {
		list := &v1alpha1.ConsumerQueueList{}
		err := r.client.List(ctx, list, client.MatchingFields{IndexClaim: object}, client.UnsafeDisableDeepCopy)
		if err != nil {
			log.FromContext(ctx).Error(err, "List ConsumerQueues", "object", object)
			return
		}
		for i := range list.Items {
			if isWaitingOnPeers(&list.Items[i]) {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	}
}

func isWaitingOnPeers(cq *v1alpha1.ConsumerQueue) bool {
	orphans := slices.ContainsFunc(cq.Status.Topology, func(e v1alpha1.TopologyEntry) bool { return e.State == v1alpha1.StateOrphaned })
	return orphans || !cq.DeletionTimestamp.IsZero() || conditions.Ready(cq.Status.Conditions).Reason == v1alpha1.ReasonConflict
}
