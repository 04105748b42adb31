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

// handoverTTL exceeds the time that the cache takes to hear that a resource is gone, and the longest deletion.
const handoverTTL = time.Hour

// Handover decides which of several ConsumerQueues that are being deleted deletes an object that they share: exactly one, the
// last to decide.
//
// Each ConsumerQueue decides once, when it is about to delete what it shares. It leaves an object to any active peer that holds
// it, or else to a terminating peer that has not decided yet. From then on nobody leaves anything to it. Decisions are made one
// at a time, so the last of those that share an object finds nobody to leave it to, and deletes it.
//
// Decisions are lost with the process, and made again: those that have decided and are not gone yet decide anew, in whatever
// order. Again the last of them finds nobody. What was deleted before is not there any more, and whoever is gone has left its
// objects to somebody who is not. See docs/adr/0017-who-deletes-last.md.
type Handover struct {
	mu      sync.Mutex
	of      map[client.ObjectKey]decision
	swept   time.Time
	timeNow func() time.Time
}

// decision is what one ConsumerQueue left to others, with what messages call them.
type decision struct {
	uid  types.UID
	when time.Time
	left map[vhost.ID]string
}

// NewHandover makes a Handover in which nobody has decided.
func NewHandover() *Handover {
	return &Handover{of: map[client.ObjectKey]decision{}, timeNow: time.Now}
}

// Resolve decides, once for each ConsumerQueue, which of its objects it leaves to whom, and returns what messages call whoever
// has an object then; empty if the ConsumerQueue is to delete it.
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
			return other // who may have come since
		}
		return decided.left[topology.IDOf(entry)]
	}
}

// Undecided leaves out the peers that have decided: nothing can be left to them. It decides nothing itself.
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
