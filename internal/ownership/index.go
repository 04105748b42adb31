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

// Index knows which ConsumerQueues want, own and claim which objects, wherever they are. It is kept from watch events, and
// empty after a restart until the first of them come. An entry leaves with its ConsumerQueue.
type Index struct {
	mu      sync.RWMutex
	records map[client.ObjectKey]*record
	wants   sets
	// active and leaving are those that want or own an object, apart by whether they are being deleted: of thousands that go together
	// none need be asked what those that stay have.
	active, leaving sets
	claims          map[mark]claimants
	// waits are the objects that active ConsumerQueues wait for others to give up, or to want.
	waits   sets
	changed chan struct{} // closed when a record changes
	// withdrawals counts how often a ConsumerQueue may have ceased to want something somewhere; unwanted goes by it.
	withdrawals uint64
	unwanted    unwantedBindings
}

// record is what the index has of one ConsumerQueue.
type record struct {
	cq     *v1alpha1.ConsumerQueue // shared with the cache; it must not be changed
	claims Claims
	wants  []mark
	owns   []mark
	// waits are the objects that the ConsumerQueue waits for; see waitsFor.
	waits []mark
	// deadLetters is the dead-letter queue that the ConsumerQueue wants and owns; empty for none.
	deadLetters string

	mu         sync.Mutex
	candidates []versionedCandidate
}

// sets are sets of ConsumerQueues, by the mark of an object. Each is sorted by name, so that what is said of the first stays the same.
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

// place is where a ConsumerQueue is in a set, or would be.
func place(members []client.ObjectKey, member client.ObjectKey) (at int, found bool) {
	return slices.BinarySearchFunc(members, member, compareKeys)
}

func compareKeys(a, b client.ObjectKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// NewIndex makes an empty index.
func NewIndex() *Index {
	return &Index{
		records: map[client.ObjectKey]*record{}, wants: sets{}, active: sets{}, leaving: sets{}, waits: sets{},
		claims: map[mark]claimants{}, changed: make(chan struct{}),
	}
}

// Update takes over a ConsumerQueue as the cache has it.
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
	x.tell()
}

// Remove forgets a ConsumerQueue.
func (x *Index) Remove(key client.ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.withdrawals++
	x.remove(key)
	x.tell()
}

// tell wakes those that wait for a change.
func (x *Index) tell() {
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

// holders are the sets of those that are being deleted, or of those that are not.
func (x *Index) holders(leaving bool) sets {
	if leaving {
		return x.leaving
	}
	return x.active
}

// each lists the records of a set in the order of their names. The index may change meanwhile.
func (x *Index) each(set func() []client.ObjectKey) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for one := x.after(client.ObjectKey{}, set); one != nil && yield(one); {
			one = x.after(client.ObjectKeyFromObject(one.cq), set)
		}
	}
}

// after is the record of a set that comes after a name; nil if none does.
func (x *Index) after(name client.ObjectKey, set func() []client.ObjectKey) *record {
	x.mu.RLock()
	defer x.mu.RUnlock()
	members := set()
	at, found := place(members, name)
	if found {
		at++
	}
	for ; at < len(members); at++ {
		if known := x.records[members[at]]; known != nil { // else the ConsumerQueue has gone since the set was made
			return known
		}
	}
	return nil
}

// isLeaving says whether a ConsumerQueue is being deleted.
func (r *record) isLeaving() bool { return !r.cq.DeletionTimestamp.IsZero() }

// waitsFor are the objects that a ConsumerQueue waits for: all of them if it lost a conflict, and those that it does not want any more,
// which others may want. One that is being deleted is in Index.leaving.
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

// objects are those that a ConsumerQueue wants or owns.
func (r *record) objects() []mark { return union(r.wants, r.owns) }

// Await returns when the index has heard of a ConsumerQueue in the version that the cache has, and with that of every change
// before: whoever is reconciled knows all that the cache knew. It is false if that takes longer than the limit.
func (x *Index) Await(ctx context.Context, cq *v1alpha1.ConsumerQueue, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		x.mu.RLock()
		heard, changed := x.hasHeard(cq), x.changed
		x.mu.RUnlock()
		if heard {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (x *Index) hasHeard(cq *v1alpha1.ConsumerQueue) bool {
	known := x.records[client.ObjectKeyFromObject(cq)]
	if known == nil || known.cq.UID != cq.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(known.cq.ResourceVersion, cq.ResourceVersion)
	return err != nil && known.cq.ResourceVersion == cq.ResourceVersion || err == nil && order >= 0
}

// Affected are the ConsumerQueues that wait for one of the objects of another one, which changed. Those that are being deleted wait
// for others that come to want their objects, so one that leaves itself does not affect them.
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

// candidate is the ConsumerQueue of a record as FindConflict sees it on a version of RabbitMQ.
func (r *record) candidate(version vhost.Version) Candidate {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.candidates {
		if known.version == version {
			return known.Candidate
		}
	}
	fresh := CandidateOf(r.cq, version)
	r.candidates = append(r.candidates, versionedCandidate{version, fresh})
	return fresh
}

// versionedCandidate is a ConsumerQueue as FindConflict sees it on a version. As a rule, all are on one.
type versionedCandidate struct {
	version vhost.Version
	Candidate
}

// mayWithdraw says whether a newer record of the ConsumerQueue may want less, or at another location.
func (r *record) mayWithdraw(newer *record) bool {
	before := Recorded(r.cq.Status.Location)
	moves := before.Cluster.Known() && before != Recorded(newer.cq.Status.Location)
	return moves || r.cq.UID != newer.cq.UID || r.cq.Generation != newer.cq.Generation || r.released() != newer.released()
}

// released says whether a ConsumerQueue that is being deleted has let go of everything.
func (r *record) released() bool {
	return r.isLeaving() && !controllerutil.ContainsFinalizer(r.cq, v1alpha1.TopologyFinalizer)
}
