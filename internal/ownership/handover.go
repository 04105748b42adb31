package ownership

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

// handoverTTL is how long a decision is kept. It is longer than the delay of the cache after a deletion, and longer than any deletion
// takes.
const handoverTTL = time.Hour

// Handover decides which of several deleted ConsumerQueues deletes an object that they share: exactly one of them, the last to
// decide.
//
// Each ConsumerQueue decides once, just before it deletes its shared objects. It leaves an object to any active peer that holds
// it, or else to a terminating peer that has not decided yet. After its decision, no peer leaves an object to it. Decisions are
// serialized. The last ConsumerQueue that shares an object therefore finds no peer, and deletes the object.
//
// A restart loses the decisions. ConsumerQueues that still exist decide again, in any order, and again the last one finds no
// peer. Objects that were deleted before no longer exist, and ConsumerQueues that are gone have left their objects to one that
// still exists. See ADR 0017.
type Handover struct {
	mu      sync.Mutex
	of      map[client.ObjectKey]decision
	swept   time.Time
	timeNow func() time.Time
}

// decision maps each object that a ConsumerQueue left to a peer to the peer's name in messages.
type decision struct {
	uid  types.UID
	when time.Time
	left map[vhost.ID]string
}

// NewHandover returns a Handover without decisions.
func NewHandover() *Handover {
	return &Handover{of: map[client.ObjectKey]decision{}, timeNow: time.Now}
}

// Resolve decides once for each ConsumerQueue to which peers it leaves its objects. The returned function returns the peer's name
// for messages, or the empty string if the ConsumerQueue must delete the object.
func (h *Handover) Resolve(cq *v1alpha1.ConsumerQueue, owned []v1alpha1.TopologyEntry, view View) func(v1alpha1.TopologyEntry) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(cq)
	decided, done := h.of[key]
	if !done || decided.uid != cq.UID {
		h.sweep()
		decided = decision{uid: cq.UID, when: h.timeNow(), left: map[vhost.ID]string{}}
		undecided := view.leaveOut(h.hasDecided)
		for _, entry := range owned {
			if other := undecided.SharedWith(entry); other != "" {
				decided.left[topology.IDOf(entry)] = other
			}
		}
		h.of[key] = decided
	}
	active := view.Active()
	return func(entry v1alpha1.TopologyEntry) string {
		if other := active.SharedWith(entry); other != "" {
			return other // a peer that came after the decision
		}
		return decided.left[topology.IDOf(entry)]
	}
}

// Undecided excludes the peers that have decided, because no object can be left to them. It makes no decision.
func (h *Handover) Undecided(view View) View {
	return view.leaveOut(func(key client.ObjectKey, uid types.UID) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.hasDecided(key, uid)
	})
}

func (h *Handover) hasDecided(key client.ObjectKey, uid types.UID) bool {
	decided, done := h.of[key]
	return done && decided.uid == uid
}

func (h *Handover) sweep() {
	now := h.timeNow()
	if now.Sub(h.swept) <= handoverTTL {
		return
	}
	maps.DeleteFunc(h.of, func(_ client.ObjectKey, decided decision) bool { return now.Sub(decided.when) > handoverTTL })
	h.swept = now
}
