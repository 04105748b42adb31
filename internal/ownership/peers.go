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

// Peer is another ConsumerQueue that has to do with the same objects at what may be the same location.
type Peer struct {
	Candidate

	key client.ObjectKey
	// foreign: it is in another namespace, which those who read of it may not know of.
	foreign     bool
	near        Nearness
	terminating bool
	// consents are those of the ConsumerQueue that the view is for.
	consents topology.Consents
}

// mayShare reports whether the ConsumerQueue that the view is for lets a peer of another namespace have an object.
func (p Peer) mayShare(id vhost.ID) bool {
	return slices.Contains(p.consents[id], v1alpha1.NamespaceName(p.namespace()))
}

// CandidateOf is a ConsumerQueue as FindConflict sees it. One that is being deleted has no right but to what it owns.
func CandidateOf(cq *v1alpha1.ConsumerQueue, version vhost.Version) Candidate {
	desired, _ := topology.Desired(cq, version) // what cannot become a topology claims nothing
	created := cq.CreationTimestamp.Time
	if !cq.DeletionTimestamp.IsZero() {
		created = time.Unix(math.MaxInt32, 0)
	}
	return Candidate{
		Name: client.ObjectKeyFromObject(cq).String(), Created: created,
		Desired: desired, Owned: topology.OwnedView(cq.Status.Topology), Consents: topology.ConsentsOf(cq),
	}
}

// displayName is what messages call the peer.
func (p Peer) displayName() string {
	if p.foreign {
		return "a ConsumerQueue in another namespace"
	}
	return "ConsumerQueue " + p.Name
}

// holds reports whether the peer owns the object of an entry, or wants the object exactly as it is. A peer that wants other
// settings is better served by the object's deletion. A peer of another namespace without consent holds only what it has had in sync: it
// must not keep an object by naming it.
func (p Peer) holds(entry v1alpha1.TopologyEntry) bool {
	id := topology.IDOf(entry)
	if p.foreign && !p.mayShare(id) {
		return p.tenure(id) >= having
	}
	owns := slices.ContainsFunc(p.Owned, func(owned v1alpha1.TopologyEntry) bool { return topology.IDOf(owned) == id })
	return owns || (!p.terminating && entry.LastSyncedHash != "" && entry.LastSyncedHash == p.Desired.HashOf(id))
}

// needs says whether the peer holds an object and has a use for it. If every peer that lost its use deferred to the others,
// nobody would delete the object.
func (p Peer) needs(entry v1alpha1.TopologyEntry) bool {
	unknown := len(p.Desired.Queues) == 0 // what it wants
	return !p.terminating && p.holds(entry) && (unknown || p.Desired.Wants(topology.IDOf(entry)))
}

// Locate is where the connection of a ConsumerQueue leads. For a ConsumerQueue of another namespace it is the location of the view if
// the connection was proved to lead there, and the zero Location otherwise.
type Locate func(*v1alpha1.ConsumerQueue) Location

// View is the index as one ConsumerQueue sees it, which is at a location whose broker has a version.
type View struct {
	index   *Index
	self    *v1alpha1.ConsumerQueue
	here    Location
	version vhost.Version
	locate  Locate
	// consents are those of the ConsumerQueue itself.
	consents topology.Consents
	// activeOnly leaves out those that are being deleted, and leftOut others.
	activeOnly bool
	leftOut    func(client.ObjectKey, types.UID) bool
}

// View shows a ConsumerQueue its peers.
func (x *Index) View(self *v1alpha1.ConsumerQueue, here Location, version vhost.Version, locate Locate) View {
	return View{index: x, self: self, here: here, version: version, locate: locate, consents: topology.ConsentsOf(self)}
}

// Active leaves out the peers that are being deleted.
func (v View) Active() View {
	v.activeOnly = true
	return v
}

// leaveOut leaves out these peers as well. A second call takes the place of the first.
func (v View) leaveOut(these func(client.ObjectKey, types.UID) bool) View {
	v.leftOut = these
	return v
}

// Wants says whether a peer wants an object, in whatever form.
func (v View) Wants(id vhost.ID) bool {
	for p := range v.peers(func() []client.ObjectKey { return v.index.wants[markOf(id)] }) {
		if p.near != Unplaced && p.Desired.Wants(id) {
			return true
		}
	}
	return false
}

// AnyNeeds says whether any peer needs an object.
func (v View) AnyNeeds(entry v1alpha1.TopologyEntry) bool {
	for p := range v.Active().holders(topology.IDOf(entry)) {
		if p.near != Unplaced && p.needs(entry) {
			return true
		}
	}
	return false
}

// SharedWith is what messages call the first peer that holds an object, of those that stay if there is any; empty if none does.
func (v View) SharedWith(entry v1alpha1.TopologyEntry) string {
	for p := range v.holders(topology.IDOf(entry)) {
		if p.near != Unplaced && p.holds(entry) {
			return p.displayName()
		}
	}
	return ""
}

// FindConflict finds a conflict that the ConsumerQueue loses, or an object that it may not share for lack of consent; only with those
// that are surely at the same location. Where it would win only because a peer is not known to hold what both want, or to be here, the
// peer is read from the API server: the cache may not have heard of it yet.
func (v View) FindConflict(ctx context.Context, own Candidate, live client.Reader) (*Conflict, error) {
	rivals := v.rivals()
	if conflict := FindConflict(own, candidatesOf(rivals, Same)); conflict != nil {
		return conflict, nil
	}
	uncertain := NeedsLiveRead(own, candidatesOf(rivals, Unplaced))
	var read []Candidate
	for _, other := range rivals {
		if !slices.Contains(uncertain, other.Name) || other.near == Perhaps {
			continue
		}
		now, near, err := v.read(ctx, other.key, live)
		if err != nil {
			return nil, err
		}
		if near == Same {
			read = append(read, v.rightful(now, CandidateOf(now, v.version)))
		}
	}
	if conflict := FindConflict(own, read); conflict != nil {
		return conflict, nil
	}
	return v.findMissingConsent(ctx, own, live)
}

// read reads a peer from the API server. It returns nil and Elsewhere for one that is gone.
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

// rivals are the peers that claim a subject in another form, sorted by name.
func (v View) rivals() []Peer {
	rivals := v.index.rivals(v.index.ClaimsOf(v.self))
	return slices.Collect(v.peers(func() []client.ObjectKey { return rivals }))
}

// rivals are those that claim a subject in another form, sorted by name.
func (x *Index) rivals(claims Claims) []client.ObjectKey {
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

// ClaimsOf are the claims of a ConsumerQueue. The index has them unless the spec is newer.
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

// holders are those that own or want an object, and perhaps others, see mark: first those that stay, then those that are being deleted.
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

// peers are those of a set of ConsumerQueues, in the order of their names.
func (v View) peers(set func() []client.ObjectKey) iter.Seq[Peer] {
	return func(yield func(Peer) bool) {
		for one := range v.index.each(set) {
			if p, here := v.peer(one); here && !yield(p) {
				return
			}
		}
	}
}

// peer is the ConsumerQueue of a record; false if it is this one, elsewhere, has let go of everything, or is left out of the view.
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
		Candidate: v.rightful(of.cq, of.candidate(v.version)), key: key, consents: v.consents,
		foreign: v.isForeign(of.cq), near: near, terminating: of.isLeaving(),
	}, true
}

// isForeign reports whether a ConsumerQueue is in another namespace than the one that the view is for.
func (v View) isForeign(cq *v1alpha1.ConsumerQueue) bool { return cq.Namespace != v.self.Namespace }

// nearness is how near a ConsumerQueue is to the location of the view. The status of a ConsumerQueue in another namespace proves nothing:
// it says what servers of another tenant said, or what that tenant wrote into the intents. See docs/adr/0042-same-place.md.
func (v View) nearness(cq *v1alpha1.ConsumerQueue) Nearness {
	if v.isForeign(cq) {
		return v.locate(cq).nearnessTo(v.here)
	}
	return NearnessTo(v.here, cq.Status, v.locate(cq))
}

// rightful leaves out what a ConsumerQueue of another namespace owns by an intention alone, unless the spec wants it: another tenant can
// forge intents, but gains no more by them than by the spec.
func (v View) rightful(cq *v1alpha1.ConsumerQueue, candidate Candidate) Candidate {
	forgeable := func(entry v1alpha1.TopologyEntry) bool {
		intended := topology.Intended(entry) || entry.Kind == v1alpha1.KindBinding
		return intended && !candidate.Desired.Wants(topology.IDOf(entry))
	}
	if v.isForeign(cq) && slices.ContainsFunc(candidate.Owned, forgeable) {
		candidate.Owned = slices.DeleteFunc(slices.Clone(candidate.Owned), forgeable)
	}
	return candidate
}
