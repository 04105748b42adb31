package ownership

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A model of up to maxPeers ConsumerQueues that share a dead-letter queue explores every order of deletions, decisions and
// removals, with a crash of Warren between any two steps. A state has the progress of each ConsumerQueue, and whether the queue
// still exists.
type model struct {
	peers   []peer
	crashes int // how often Warren crashed
	deleted int // how often the queue was deleted
}

type peer rune

const (
	active  peer = 'a'
	waits   peer = 'w' // is being deleted, has not decided since the last crash
	decided peer = 'd'
	gone    peer = 'g'
)

// exploration visits each state of the model once.
type exploration struct {
	t       *testing.T
	objects []*v1alpha1.ConsumerQueue
	indexes map[string]*Index // by the progress of the ConsumerQueues
	seen    map[string]bool
}

func TestWhoDeletesLast(t *testing.T) {
	t.Parallel()
	for count := 1; count <= maxPeers(t); count++ {
		t.Run(fmt.Sprint(count, " that share a queue"), func(t *testing.T) {
			t.Parallel()
			e := &exploration{t: t, indexes: map[string]*Index{}, seen: map[string]bool{}}
			start := model{peers: slices.Repeat([]peer{active}, count)}
			for i := range count {
				cq := controllertest.Synced(t, fmt.Sprint("cq-", i), fmt.Sprintf(`{queue: {name: q-%d}, deadLetter: {queue: {name: grave}}}`, i), "")
				cq.UID = types.UID(fmt.Sprint("uid-", i))
				e.objects = append(e.objects, cq)
			}
			e.explore(start, newHandoverModel(nil), nil)
			t.Logf("%d states", len(e.seen))
		})
	}
}

// maxPeers is 4, or WARREN_TEST_PEERS: `make test-all` explores 5, which takes a minute.
func maxPeers(t *testing.T) int {
	t.Helper()
	given, set := os.LookupEnv("WARREN_TEST_PEERS")
	if !set {
		return 4
	}
	number, err := strconv.Atoi(given)
	if err != nil {
		t.Fatalf("WARREN_TEST_PEERS: %v", err)
	}
	return number
}

// newHandoverModel returns a Handover that has made the given decisions.
func newHandoverModel(of map[client.ObjectKey]decision) *Handover {
	h := NewHandover()
	maps.Copy(h.of, of)
	h.swept = time.Now()
	return h
}

const maxCrashes = 2

func (e *exploration) explore(m model, h *Handover, path []string) {
	key := m.key(h)
	if e.seen[key] {
		return
	}
	e.seen[key] = true
	if !slices.ContainsFunc(m.peers, func(s peer) bool { return s != gone }) {
		if m.deleted == 0 {
			e.t.Fatalf("no manager deleted the queue: %s", strings.Join(path, ", "))
		}
		return
	}
	next := func(what string, i int, change func(*model, *Handover)) {
		then := model{peers: slices.Clone(m.peers), crashes: m.crashes, deleted: m.deleted}
		memory := newHandoverModel(h.of)
		change(&then, memory)
		e.explore(then, memory, append(slices.Clip(path), fmt.Sprint(what, " ", i)))
	}
	for i, s := range m.peers {
		switch s {
		case active:
			next("delete", i, func(then *model, _ *Handover) { then.peers[i] = waits })
		case waits:
			next("decide", i, func(then *model, memory *Handover) {
				e.takes(m, memory, i)
				then.peers[i] = decided
			})
		case decided:
			next("go", i, func(then *model, memory *Handover) {
				if e.takes(m, memory, i) {
					e.delete(m, then, i, path)
				}
				then.peers[i] = gone
			})
		}
	}
	if m.crashes < maxCrashes {
		next("crash", m.crashes, func(then *model, memory *Handover) {
			then.crashes++
			clear(memory.of)
			for i, s := range then.peers {
				if s == decided {
					then.peers[i] = waits
				}
			}
		})
	}
}

// delete deletes the queue. A second deletion is allowed only after a crash, which loses the decisions.
func (e *exploration) delete(m model, then *model, i int, path []string) {
	if slices.Contains(m.peers, active) {
		e.t.Fatalf("%d deleted what one that stays has: %s", i, strings.Join(path, ", "))
	}
	if m.deleted > m.crashes {
		e.t.Fatalf("%d deleted the queue again: %s", i, strings.Join(path, ", "))
	}
	then.deleted++
}

// takes reports whether a ConsumerQueue must delete the queue.
func (e *exploration) takes(m model, h *Handover, i int) bool {
	self := e.objects[i]
	view := e.index(m).View(self, here, topologytest.V43, leadsHere)
	return h.Resolve(self, topology.Owned(self.Status.Topology), view)(entryOf(e.t, self, "grave")) == ""
}

func (e *exploration) index(m model) *Index {
	key := strings.ReplaceAll(m.text(), string(decided), string(waits))
	if e.indexes[key] == nil {
		index := NewIndex()
		for i, s := range m.peers {
			switch s {
			case active:
				index.Update(e.objects[i])
			case waits, decided:
				index.Update(controllertest.BeingDeleted(e.objects[i].DeepCopy()))
			}
		}
		e.indexes[key] = index
	}
	return e.indexes[key]
}

// key is equal for states with the same future.
func (m model) key(h *Handover) string {
	text := fmt.Sprintf("%s %d %d", m.text(), m.crashes, m.deleted)
	for _, key := range slices.SortedFunc(maps.Keys(h.of), func(a, b client.ObjectKey) int { return strings.Compare(a.Name, b.Name) }) {
		text += fmt.Sprint(" ", key.Name, h.of[key].left)
	}
	return text
}

func (m model) text() string {
	text := ""
	for _, s := range m.peers {
		text += string(s)
	}
	return text
}

func TestAHandoverDecisionIsKept(t *testing.T) {
	t.Parallel()
	one := controllertest.BeingDeleted(controllertest.Synced(t, "one", `{queue: {name: one}, deadLetter: {queue: {name: grave}}}`, ""))
	other := controllertest.BeingDeleted(controllertest.Synced(t, "other", `{queue: {name: other}, deadLetter: {queue: {name: grave}}}`, ""))
	one.UID, other.UID = "1", "2"
	grave, h := entryOf(t, one, "grave"), NewHandover()
	resolve := func(cq *v1alpha1.ConsumerQueue, view View) string {
		return h.Resolve(cq, topology.Owned(cq.Status.Topology), view)(grave)
	}
	view := func(cq *v1alpha1.ConsumerQueue, others ...*v1alpha1.ConsumerQueue) View {
		index := NewIndex()
		for _, other := range others {
			index.Update(other)
		}
		return index.View(cq, here, topologytest.V43, leadsHere)
	}
	topologytest.Equal(t, "while the other is there", "ConsumerQueue shop/other", resolve(one, view(one, other)))
	topologytest.Equal(t, "when the other is gone, as before", "ConsumerQueue shop/other", resolve(one, view(one)))
	topologytest.Equal(t, "the other", "", resolve(other, view(other, one)))

	namesake := one.DeepCopy()
	namesake.UID = "3"
	topologytest.Equal(t, "one that is made again under the name has not decided", "ConsumerQueue shop/one",
		h.Undecided(view(other, namesake)).SharedWith(grave))
	topologytest.Equal(t, "and decides for itself", "", resolve(namesake, view(namesake)))

	later := time.Now().Add(2 * handoverTTL)
	h.timeNow = func() time.Time { return later }
	fresh := other.DeepCopy()
	fresh.UID = "4"
	resolve(fresh, view(fresh))
	topologytest.Equal(t, "decisions that are remembered after a long time", 1, len(h.of))
}

// The objects of an active ConsumerQueue are left to it, whatever else is deleted.
func TestWhatAnActivePeerHasIsLeftToIt(t *testing.T) {
	t.Parallel()
	const spec = `{queue: {name: %s}, deadLetter: {queue: {name: grave}}}`
	synced := func(name string) *v1alpha1.ConsumerQueue {
		return controllertest.Synced(t, name, fmt.Sprintf(spec, name), "")
	}
	one, other, stays := controllertest.BeingDeleted(synced("one")), controllertest.BeingDeleted(synced("other")), synced("active")
	index, h := indexOf(one, other, stays), NewHandover()
	for _, cq := range []*v1alpha1.ConsumerQueue{one, other} {
		left := h.Resolve(cq, topology.Owned(cq.Status.Topology), index.View(cq, here, topologytest.V43, leadsHere))
		topologytest.Equal(t, "left to", "ConsumerQueue shop/active", left(entryOf(t, cq, "grave")))
	}
}
