package ownership

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Index records which ConsumerQueues need, own and claim which objects, at all locations. Watch events keep it up to date. It is
// empty after a restart until the first events arrive. Remove deletes the record of a ConsumerQueue.
type Index struct {
	mu      sync.RWMutex
	records map[client.ObjectKey]*record
	wants   sets
	// active and leaving have the ConsumerQueues that need or own an object, separated by whether they are being deleted. When
	// thousands are deleted together, Warren needs to check only the active ones.
	active, leaving sets
	claims          map[mark]claimants
	// waits maps objects to the active ConsumerQueues that wait until other ConsumerQueues release the object, or start to need it.
	waits   sets
	changed chan struct{} // closed when a record changes
	// withdrawals counts the changes after which a ConsumerQueue may no longer need an object. A change invalidates unwanted.
	withdrawals uint64
	unwanted    unwantedBindings
}

// record is the data of one ConsumerQueue in the index.
type record struct {
	cq     *v1alpha1.ConsumerQueue // shared with the cache; it must not be changed
	claims Claims
	wants  []mark
	owns   []mark
	// waits are the objects for which the ConsumerQueue waits; see waitsFor.
	waits []mark
	// deadLetters is the dead-letter queue that the ConsumerQueue needs and owns; empty for none.
	deadLetters string

	mu         sync.Mutex
	candidates []versionedCandidate
}

// sets maps the mark of an object to ConsumerQueues, sorted by name so that messages about the first one are stable.
type sets map[mark][]client.ObjectKey

func (s sets) add(key mark, member client.ObjectKey) {
	if at, found := place(s[key], member); !found {
		s[key] = slices.Insert(s[key], at, member)
	}
}

func (s sets) remove(key mark, member client.ObjectKey) {
	if at, found := place(s[key], member); found {
		s[key] = slices.Delete(s[key], at, at+1)
	}
	if len(s[key]) == 0 {
		delete(s, key)
	}
}

// place returns the position of a ConsumerQueue in a set.
func place(members []client.ObjectKey, member client.ObjectKey) (at int, found bool) {
	return slices.BinarySearchFunc(members, member, compareKeys)
}

func compareKeys(a, b client.ObjectKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{
		records: map[client.ObjectKey]*record{}, wants: sets{}, active: sets{}, leaving: sets{}, waits: sets{},
		claims: map[mark]claimants{}, changed: make(chan struct{}),
	}
}

// Update records a ConsumerQueue from the cache.
func (x *Index) Update(cq *v1alpha1.ConsumerQueue) {
	owned := vhost.IDs{}
	for _, entry := range topology.OwnedView(cq.Status.Topology) {
		owned[topology.IDOf(entry)] = true
	}
	fresh := &record{cq: cq, owns: marksOf(owned), deadLetters: deadLetterQueueName(cq)}
	key := client.ObjectKeyFromObject(cq)
	x.mu.RLock()
	known := x.records[key]
	x.mu.RUnlock()
	if known != nil && known.cq.UID == cq.UID && known.cq.Generation == cq.Generation {
		fresh.claims, fresh.wants = known.claims, known.wants
	} else {
		claims, wanted := claimsOf(cq)
		fresh.claims, fresh.wants = claims, marksOf(wanted)
	}
	fresh.waits = fresh.waitsFor()
	x.mu.Lock()
	defer x.mu.Unlock()
	if known != nil && known.mayWithdraw(fresh) {
		x.withdrawals++
	}
	x.remove(key)
	x.add(key, fresh)
	x.broadcast()
}

// Remove deletes the record of a ConsumerQueue.
func (x *Index) Remove(key client.ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.withdrawals++
	x.remove(key)
	x.broadcast()
}

// broadcast wakes all callers of Await.
func (x *Index) broadcast() {
	close(x.changed)
	x.changed = make(chan struct{})
}

func (x *Index) add(key client.ObjectKey, fresh *record) {
	x.records[key] = fresh
	for _, object := range fresh.wants {
		x.wants.add(object, key)
	}
	for _, object := range fresh.objects() {
		x.holders(fresh.isLeaving()).add(object, key)
	}
	for about, form := range fresh.claims {
		x.claims[about] = x.claims[about].add(form, key)
	}
	for _, object := range fresh.waits {
		x.waits.add(object, key)
	}
}

func (x *Index) remove(key client.ObjectKey) {
	old := x.records[key]
	if old == nil {
		return
	}
	delete(x.records, key)
	unshared := false
	for _, object := range old.wants {
		x.wants.remove(object, key)
		unshared = unshared || len(x.wants[object]) == 1
	}
	if unshared {
		x.unwanted.forget(x.isShared)
	}
	for _, object := range old.objects() {
		x.holders(old.isLeaving()).remove(object, key)
	}
	for about, form := range old.claims {
		if x.claims[about] = x.claims[about].remove(form, key); len(x.claims[about]) == 0 {
			delete(x.claims, about)
		}
	}
	for _, object := range old.waits {
		x.waits.remove(object, key)
	}
}

// holders returns the sets of ConsumerQueues that are being deleted, or of the others.
func (x *Index) holders(leaving bool) sets {
	if leaving {
		return x.leaving
	}
	return x.active
}

// each yields the records of a set, ordered by name. The index may change during the iteration.
func (x *Index) each(set func() []client.ObjectKey) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for one := x.after(client.ObjectKey{}, set); one != nil && yield(one); {
			one = x.after(client.ObjectKeyFromObject(one.cq), set)
		}
	}
}

// after returns the record of a set that follows a name; nil if there is none.
func (x *Index) after(name client.ObjectKey, set func() []client.ObjectKey) *record {
	x.mu.RLock()
	defer x.mu.RUnlock()
	members := set()
	at, found := place(members, name)
	if found {
		at++
	}
	for ; at < len(members); at++ {
		if known := x.records[members[at]]; known != nil { // otherwise the ConsumerQueue was removed after the set was computed
			return known
		}
	}
	return nil
}

func (r *record) isLeaving() bool { return !r.cq.DeletionTimestamp.IsZero() }

// waitsFor returns the objects for which a ConsumerQueue waits: all its objects if it lost a conflict, and otherwise its orphans, which
// other ConsumerQueues may need. For a deleted ConsumerQueue, Index.leaving already has the objects.
func (r *record) waitsFor() []mark {
	if r.isLeaving() {
		return nil
	}
	ready := meta.FindStatusCondition(r.cq.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Reason == v1alpha1.ReasonConflict {
		return r.objects()
	}
	left := vhost.IDs{}
	for _, entry := range r.cq.Status.Topology {
		if entry.State == v1alpha1.StateOrphaned {
			left[topology.IDOf(entry)] = true
		}
	}
	return marksOf(left)
}

func (r *record) objects() []mark { return union(r.wants, r.owns) }

// Await returns true once the index has recorded this version of a ConsumerQueue, and with it every earlier change in the cache. It
// returns false if this takes longer than the limit.
func (x *Index) Await(ctx context.Context, cq *v1alpha1.ConsumerQueue, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		x.mu.RLock()
		recorded, changed := x.hasRecorded(cq), x.changed
		x.mu.RUnlock()
		if recorded {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (x *Index) hasRecorded(cq *v1alpha1.ConsumerQueue) bool {
	known := x.records[client.ObjectKeyFromObject(cq)]
	if known == nil || known.cq.UID != cq.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(known.cq.ResourceVersion, cq.ResourceVersion)
	return err != nil && known.cq.ResourceVersion == cq.ResourceVersion || err == nil && order >= 0
}

// Affected returns the ConsumerQueues that wait for an object of a ConsumerQueue that changed. Deleted ConsumerQueues wait until other
// ConsumerQueues start to need their objects, so a ConsumerQueue that is being deleted does not affect them.
func (x *Index) Affected(cq *v1alpha1.ConsumerQueue, leaves bool) []client.ObjectKey {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.waits) == 0 && (leaves || len(x.leaving) == 0) {
		return nil
	}
	var objects []mark
	if known := x.records[client.ObjectKeyFromObject(cq)]; known != nil {
		objects = known.objects()
	} else {
		_, wanted := claimsOf(cq)
		objects = marksOf(wanted)
	}
	for _, entry := range topology.OwnedView(cq.Status.Topology) {
		objects = append(objects, markOf(topology.IDOf(entry)))
	}
	var waiting []client.ObjectKey
	for _, object := range objects {
		waiting = append(waiting, x.waits[object]...)
		if !leaves {
			waiting = append(waiting, x.leaving[object]...)
		}
	}
	slices.SortFunc(waiting, compareKeys)
	return slices.Compact(waiting)
}

// candidate returns the ConsumerQueue as a Candidate on a version of RabbitMQ.
func (r *record) candidate(version vhost.Version) Candidate {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.candidates {
		if known.version == version {
			return known.Candidate
		}
	}
	fresh := CandidateOf(r.cq, version)
	if len(r.candidates) == keptVersions {
		r.candidates = slices.Delete(r.candidates, 0, 1)
	}
	r.candidates = append(r.candidates, versionedCandidate{version, fresh})
	return fresh
}

// keptVersions limits the number of candidates that a record keeps. The broker of another tenant can show a new version at each refresh.
const keptVersions = 4

// versionedCandidate is a Candidate with its version. Usually all brokers have the same version.
type versionedCandidate struct {
	version vhost.Version
	Candidate
}

// mayWithdraw reports whether a newer record of the ConsumerQueue may need fewer objects, or objects at another location.
func (r *record) mayWithdraw(newer *record) bool {
	before := Recorded(r.cq.Status.Location)
	moves := before.Cluster.Known() && before != Recorded(newer.cq.Status.Location)
	return moves || r.cq.UID != newer.cq.UID || r.cq.Generation != newer.cq.Generation || r.released() != newer.released()
}

// released reports whether a deleted ConsumerQueue has released all its objects.
func (r *record) released() bool {
	return r.isLeaving() && !controllerutil.ContainsFinalizer(r.cq, v1alpha1.TopologyFinalizer)
}
