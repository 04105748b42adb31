package ownership

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Peer is another ConsumerQueue that names the same object and may be at the same location.
type Peer struct {
	Candidate

	key client.ObjectKey
	// foreign is true if the peer is in another namespace. Messages must not name it.
	foreign     bool
	near        Nearness
	terminating bool
	// view is the view in which the ConsumerQueue is a peer.
	view View
}

// mayShare reports whether the ConsumerQueue that owns the view shares an object with a peer of another namespace.
func (p Peer) mayShare(id vhost.ID) bool {
	return slices.Contains(p.view.consents[id], v1alpha1.NamespaceName(p.namespace()))
}

// CandidateOf returns a ConsumerQueue as a Candidate. A deleted ConsumerQueue has a right only to the objects that it owns.
func CandidateOf(cq *v1alpha1.ConsumerQueue, version vhost.Version) Candidate {
	desired, _ := topology.Desired(cq, version) // a refused spec claims nothing
	created := cq.CreationTimestamp.Time
	if !cq.DeletionTimestamp.IsZero() {
		created = time.Unix(math.MaxInt32, 0)
	}
	return Candidate{
		Name: client.ObjectKeyFromObject(cq).String(), Created: created,
		Desired: desired, Owned: topology.OwnedView(cq.Status.Topology), Consents: topology.ConsentsOf(cq),
	}
}

// displayName returns the peer's name in messages.
func (p Peer) displayName() string {
	if p.foreign {
		return "a ConsumerQueue in another namespace"
	}
	return "ConsumerQueue " + p.Name
}

// holds reports whether the peer owns the object of an entry, or needs the object exactly in its current form. A peer that needs other
// settings benefits from the deletion of the object. A peer of another namespace without consent holds only objects that it has had in
// sync, because naming an object must not be enough to keep it. If the peer may have had the object at another broker, it does not hold an
// object that the ConsumerQueue of the view certainly has.
func (p Peer) holds(entry v1alpha1.TopologyEntry) bool {
	id := topology.IDOf(entry)
	if p.foreign && !p.mayShare(id) {
		return p.tenure(id) >= having && (p.doubt == certain || !p.view.own().certainlyHas(id))
	}
	owns := slices.ContainsFunc(p.Owned, func(owned v1alpha1.TopologyEntry) bool { return topology.IDOf(owned) == id })
	return owns || (!p.terminating && entry.LastSyncedHash != "" && entry.LastSyncedHash == p.Desired.HashOf(id))
}

// needs reports whether the peer holds an object and still uses it. If peers that no longer use the object deferred to each other, it would
// never be deleted.
func (p Peer) needs(entry v1alpha1.TopologyEntry) bool {
	unknown := len(p.Desired.Queues) == 0 // its spec is refused
	return !p.terminating && p.holds(entry) && (unknown || p.Desired.Wants(topology.IDOf(entry)))
}

// Locate returns the location to which the connection of a ConsumerQueue leads. For a ConsumerQueue of another namespace it is
// the location of the view if that was proven, and the zero Location otherwise.
type Locate func(*v1alpha1.ConsumerQueue) Location

// View is the index from the perspective of one ConsumerQueue, its location and its broker's version.
type View struct {
	index   *Index
	self    *v1alpha1.ConsumerQueue
	here    Location
	version vhost.Version
	locate  Locate
	// address is where the connection opened the vhost; see OpenedAt.
	address string
	// consents of the ConsumerQueue itself.
	consents topology.Consents
	// activeOnly excludes ConsumerQueues that are being deleted. leftOut excludes the ConsumerQueues for which it returns true.
	activeOnly bool
	leftOut    func(client.ObjectKey, types.UID) bool
}

// View returns the view of a ConsumerQueue.
func (x *Index) View(self *v1alpha1.ConsumerQueue, here Location, version vhost.Version, locate Locate) View {
	return View{index: x, self: self, here: here, version: version, locate: locate, consents: topology.ConsentsOf(self)}
}

// OpenedAt returns a view that compares the address at which the connection opened the vhost with the addresses in the statuses of other
// namespaces. With an empty address, the view accepts all of them; see rabbit.Place.
func (v View) OpenedAt(address string) View {
	v.address = address
	return v
}

// Active excludes the peers that are being deleted.
func (v View) Active() View {
	v.activeOnly = true
	return v
}

// leaveOut excludes the peers for which the function returns true. A second call replaces the first.
func (v View) leaveOut(these func(client.ObjectKey, types.UID) bool) View {
	v.leftOut = these
	return v
}

// Wants reports whether a peer needs an object, in any form.
func (v View) Wants(id vhost.ID) bool {
	for p := range v.peers(func() []client.ObjectKey { return v.index.wants[markOf(id)] }) {
		if p.near != Unplaced && p.Desired.Wants(id) {
			return true
		}
	}
	return false
}

// AnyNeeds reports whether any peer needs an object.
func (v View) AnyNeeds(entry v1alpha1.TopologyEntry) bool {
	for p := range v.Active().holders(topology.IDOf(entry)) {
		if p.near != Unplaced && p.needs(entry) {
			return true
		}
	}
	return false
}

// SharedWith returns the name, for messages, of the first peer that holds an object; empty if there is none. Active peers come
// first.
func (v View) SharedWith(entry v1alpha1.TopologyEntry) string {
	for p := range v.holders(topology.IDOf(entry)) {
		if p.near != Unplaced && p.holds(entry) {
			return p.displayName()
		}
	}
	return ""
}

// FindConflict returns a conflict that the ConsumerQueue loses, or an object for which it lacks consent. It considers only peers whose
// location is certainly the same. If the ConsumerQueue would win only because a peer's holding or location is unknown, it reads the peer
// from the API server, because the cache may be stale.
func (v View) FindConflict(ctx context.Context, own Candidate, live client.Reader) (*Conflict, error) {
	own.doubt = v.doubtOf(v.self)
	disputing := v.disputing()
	if conflict := FindConflict(own, candidatesOf(disputing, Same)); conflict != nil {
		return conflict, nil
	}
	uncertain := NeedsLiveRead(own, candidatesOf(disputing, Unplaced))
	var read []Candidate
	for _, other := range disputing {
		if !slices.Contains(uncertain, other.Name) || other.near == Perhaps {
			continue
		}
		now, near, err := v.read(ctx, other.key, live)
		if err != nil {
			return nil, err
		}
		if near == Same {
			read = append(read, v.withoutForgeable(now, CandidateOf(now, v.version)))
		}
	}
	if conflict := FindConflict(own, read); conflict != nil {
		return conflict, nil
	}
	return v.findMissingConsent(ctx, own, live)
}

// read reads a peer from the API server. It returns nil and Elsewhere if the peer is gone.
func (v View) read(ctx context.Context, key client.ObjectKey, live client.Reader) (*v1alpha1.ConsumerQueue, Nearness, error) {
	now := &v1alpha1.ConsumerQueue{}
	err := live.Get(ctx, key, now)
	if apierrors.IsNotFound(err) {
		return nil, Elsewhere, nil
	}
	if err != nil {
		return nil, Elsewhere, fmt.Errorf("get ConsumerQueue %s: %w", key, err)
	}
	RestoreIntents(now)
	return now, v.nearness(now), nil
}

func candidatesOf(peers []Peer, near Nearness) []Candidate {
	var candidates []Candidate
	for _, p := range peers {
		if p.near >= near {
			candidates = append(candidates, p.Candidate)
		}
	}
	return candidates
}

// disputing returns the peers that claim a subject in another form, sorted by name.
func (v View) disputing() []Peer {
	keys := v.index.disputing(v.index.ClaimsOf(v.self))
	return slices.Collect(v.peers(func() []client.ObjectKey { return keys }))
}

// disputing returns the ConsumerQueues that claim a subject in another form, sorted by name.
func (x *Index) disputing(claims Claims) []client.ObjectKey {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []client.ObjectKey
	for about, form := range claims {
		for _, other := range x.claims[about] {
			if other.form != form {
				found = append(found, other.members...)
			}
		}
	}
	slices.SortFunc(found, compareKeys)
	return slices.Compact(found)
}

// ClaimsOf returns the claims of a ConsumerQueue. It computes them if the spec is newer than the index.
func (x *Index) ClaimsOf(cq *v1alpha1.ConsumerQueue) Claims {
	x.mu.RLock()
	known := x.records[client.ObjectKeyFromObject(cq)]
	x.mu.RUnlock()
	if known != nil && known.cq.UID == cq.UID && known.cq.Generation == cq.Generation {
		return known.claims
	}
	claims, _ := claimsOf(cq)
	return claims
}

// holders yields the peers that own or need an object, active ones first. It may yield other ConsumerQueues, because two objects can have
// the same mark.
func (v View) holders(id vhost.ID) iter.Seq[Peer] {
	object := markOf(id)
	return func(yield func(Peer) bool) {
		for p := range v.peers(func() []client.ObjectKey { return v.index.active[object] }) {
			if !yield(p) {
				return
			}
		}
		if v.activeOnly {
			return
		}
		for p := range v.peers(func() []client.ObjectKey { return v.index.leaving[object] }) {
			if !yield(p) {
				return
			}
		}
	}
}

// peers yields the peers in a set of ConsumerQueues, ordered by name.
func (v View) peers(set func() []client.ObjectKey) iter.Seq[Peer] {
	return func(yield func(Peer) bool) {
		for one := range v.index.each(set) {
			if p, here := v.peer(one); here && !yield(p) {
				return
			}
		}
	}
}

// peer returns the peer of a record. It returns false for the ConsumerQueue of the view itself, and for ConsumerQueues that are
// elsewhere, have released all their objects, or are excluded from the view.
func (v View) peer(of *record) (Peer, bool) {
	key := client.ObjectKeyFromObject(of.cq)
	switch {
	case key == client.ObjectKeyFromObject(v.self), of.released(), v.activeOnly && of.isLeaving():
		return Peer{}, false
	case v.leftOut != nil && v.leftOut(key, of.cq.UID):
		return Peer{}, false
	}
	near := v.nearness(of.cq)
	if near == Elsewhere {
		return Peer{}, false
	}
	return Peer{
		Candidate: v.withoutForgeable(of.cq, of.candidate(v.version)), key: key, view: v,
		foreign: v.isForeign(of.cq), near: near, terminating: of.isLeaving(),
	}, true
}

func (v View) isForeign(cq *v1alpha1.ConsumerQueue) bool { return cq.Namespace != v.self.Namespace }

// nearness returns how near a ConsumerQueue is to the location of the view. The status of a ConsumerQueue in another namespace
// proves nothing: its content may come from another tenant's broker or from forged intents. See ADR 0015.
func (v View) nearness(cq *v1alpha1.ConsumerQueue) Nearness {
	if v.isForeign(cq) {
		return v.locate(cq).nearnessTo(v.here)
	}
	return NearnessTo(v.here, cq.Status, v.locate(cq))
}

// own returns the ConsumerQueue of the view with the objects in its status.
func (v View) own() Candidate {
	return Candidate{Owned: topology.OwnedView(v.self.Status.Topology), doubt: v.doubtOf(v.self)}
}

// doubtOf returns why the inventory of a ConsumerQueue may not apply to this location in a dispute with another namespace. Equal cluster
// IDs do not suffice, because the broker of another tenant can return any cluster ID.
func (v View) doubtOf(cq *v1alpha1.ConsumerQueue) doubt {
	recorded := Recorded(cq.Status.Location)
	switch {
	case v.address == "", recorded.Cluster.Endpoint == v.address && v.here.IsIn(recorded):
		return certain
	case v.isForeign(cq):
		return recordedElsewhere
	case client.ObjectKeyFromObject(cq) == client.ObjectKeyFromObject(v.self) && recorded.Cluster.Known():
		return moved
	}
	return certain
}

// withoutForgeable removes objects that a ConsumerQueue of another namespace owns only by intent and does not specify. A tenant can forge
// intents, so an intent must grant no more rights than a spec.
func (v View) withoutForgeable(cq *v1alpha1.ConsumerQueue, candidate Candidate) Candidate {
	forgeable := func(entry v1alpha1.TopologyEntry) bool {
		intended := topology.Intended(entry) || entry.Kind == v1alpha1.KindBinding
		return intended && !candidate.Desired.Wants(topology.IDOf(entry))
	}
	candidate.doubt = v.doubtOf(cq)
	if v.isForeign(cq) && slices.ContainsFunc(candidate.Owned, forgeable) {
		candidate.Owned = slices.DeleteFunc(slices.Clone(candidate.Owned), forgeable)
	}
	return candidate
}
