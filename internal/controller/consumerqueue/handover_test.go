package consumerqueue

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

var (
	sharedQueue    = v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: "dlq", Role: v1alpha1.RoleDeadLetter, Origin: v1alpha1.OriginDeclared, Shape: "s"}
	sharedExchange = v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: "dlx", Role: v1alpha1.RoleDeadLetter, Origin: v1alpha1.OriginDeclared, Shape: "s"}
)

// terminating is a ConsumerQueue that is being deleted, and what its neighbours see of it.
type terminating struct {
	cq    *v1alpha1.ConsumerQueue
	owned []v1alpha1.TopologyEntry
}

func terminatingOne(t *testing.T, name string, owned ...v1alpha1.TopologyEntry) terminating {
	t.Helper()
	cq := controllertest.Named(t, "shop", name, `{}`)
	cq.UID = types.UID("uid of " + name)
	return terminating{cq, owned}
}

func (s terminating) asNeighbour() peer {
	return peer{
		Candidate: ownership.Candidate{Name: "shop/" + s.cq.Name, Owned: s.owned},
		key:       client.ObjectKeyFromObject(s.cq), uid: s.cq.UID, terminating: true,
	}
}

func without(all []terminating, at int) peers {
	var near peers
	for i, other := range all {
		if i != at {
			near = append(near, other.asNeighbour())
		}
	}
	return near
}

// Of several that are deleted at the same time each shared object falls to exactly one, and what is one's own to that one.
func TestOneOfThoseThatAreDeletedTogetherTakesWhatTheyShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var all []terminating
		for i := range rapid.IntRange(1, 6).Draw(rt, "resources") {
			owned := []v1alpha1.TopologyEntry{{Kind: v1alpha1.KindQueue, Name: fmt.Sprint("main-", i), Role: v1alpha1.RoleMain, Shape: "m"}}
			for _, shared := range []v1alpha1.TopologyEntry{sharedQueue, sharedExchange} {
				if rapid.Bool().Draw(rt, "has "+shared.Name) {
					owned = append(owned, shared)
				}
			}
			all = append(all, terminatingOne(t, fmt.Sprint("cq-", i), owned...))
		}
		r := newHandover()
		var order []int
		for i := range all {
			order = append(order, i)
		}
		order = rapid.Permutation(order).Draw(rt, "order")
		decided := make([]func(v1alpha1.TopologyEntry) string, len(all))
		if rapid.Bool().Draw(rt, "at the same time") {
			var group sync.WaitGroup
			for _, at := range order {
				group.Go(func() { decided[at] = r.resolve(all[at].cq, all[at].owned, without(all, at)) })
			}
			group.Wait()
		} else {
			for _, at := range order {
				decided[at] = r.resolve(all[at].cq, all[at].owned, without(all, at))
			}
		}
		taken, owners := map[string]int{}, map[string]bool{}
		for i, one := range all {
			for _, entry := range one.owned {
				owners[entry.Name] = true
				if decided[i](entry) == "" {
					taken[entry.Name]++
				}
			}
		}
		for name := range owners {
			if taken[name] != 1 {
				rt.Errorf("%d take %s", taken[name], name)
			}
		}
	})
}

func TestSettledOnce(t *testing.T) {
	t.Parallel()
	r, one, other := newHandover(), terminatingOne(t, "one", sharedQueue), terminatingOne(t, "other", sharedQueue)
	first := r.resolve(one.cq, one.owned, peers{other.asNeighbour()})
	topologytest.Equal(t, "while the other is there", "ConsumerQueue shop/other", first(sharedQueue))
	again := r.resolve(one.cq, one.owned, nil)
	topologytest.Equal(t, "when it is gone, as before", "ConsumerQueue shop/other", again(sharedQueue))
	last := r.resolve(other.cq, other.owned, peers{one.asNeighbour()})
	topologytest.Equal(t, "the other", "", last(sharedQueue))

	namesake := terminatingOne(t, "one", sharedQueue)
	namesake.cq.UID = "another"
	topologytest.Equal(t, "one that is made again under the name is still there", "ConsumerQueue shop/one", r.undecidedPeers(peers{namesake.asNeighbour()}).sharedWith(sharedQueue))
	topologytest.Equal(t, "and decides for itself", "", r.resolve(namesake.cq, namesake.owned, nil)(sharedQueue))

	key := client.ObjectKeyFromObject(namesake.cq)
	old := r.of[key]
	old.when = time.Now().Add(-2 * handoverTTL)
	r.of[key] = old
	r.swept = old.when
	r.undecidedPeers(nil)
	topologytest.Equal(t, "remembered after a long time", 1, len(r.of))
}

// What one that stays has is left to it, whoever else is deleted.
func TestWhatStaysIsLeft(t *testing.T) {
	t.Parallel()
	r, one, other := newHandover(), terminatingOne(t, "one", sharedQueue), terminatingOne(t, "other", sharedQueue)
	living := peer{Candidate: ownership.Candidate{Name: "shop/living", Owned: one.owned}, key: client.ObjectKey{Namespace: "shop", Name: "living"}}
	for _, pair := range [][2]terminating{{one, other}, {other, one}} {
		left := r.resolve(pair[0].cq, pair[0].owned, peers{living, pair[1].asNeighbour()})
		topologytest.Equal(t, "left to", "ConsumerQueue shop/living", left(sharedQueue))
	}
}
