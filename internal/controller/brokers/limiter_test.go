package brokers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

type limited struct {
	*Limiter
	t        *testing.T
	enqueued chan client.ObjectKey
}

// withLimiter runs a test with a Limiter for eight workers and a fake clock.
func withLimiter(t *testing.T, test func(t *testing.T, l limited)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		enqueued := make(chan client.ObjectKey, 100)
		test(t, limited{Limiter: NewLimiter(8, func(key client.ObjectKey) { enqueued <- key }), t: t, enqueued: enqueued})
	})
}

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func (l limited) acquire(endpoint, namespace, name string) (release func()) {
	l.t.Helper()
	release, ok := l.TryAcquire(endpoint, keyOf(namespace, name))
	topologytest.Equal(l.t, name+" has a slot", true, ok)
	return release
}

// acquireAll acquires slots of a lane for this many resources.
func (l limited) acquireAll(endpoint, namespace string, count int) (release func()) {
	l.t.Helper()
	releases := make([]func(), count)
	for i := range releases {
		releases[i] = l.acquire(endpoint, namespace, fmt.Sprintf("%s-%s-%d", endpoint, namespace, i))
	}
	return func() {
		for _, one := range releases {
			one()
		}
	}
}

func (l limited) expectWait(endpoint, namespace, name string) {
	l.t.Helper()
	_, ok := l.TryAcquire(endpoint, keyOf(namespace, name))
	topologytest.Equal(l.t, name+" has a slot", false, ok)
}

// expectEnqueued expects that the Limiter enqueued exactly these resources of a namespace.
func (l limited) expectEnqueued(namespace string, names ...string) {
	l.t.Helper()
	synctest.Wait()
	got, want := map[client.ObjectKey]bool{}, map[client.ObjectKey]bool{}
	for len(l.enqueued) > 0 {
		got[<-l.enqueued] = true
	}
	for _, name := range names {
		want[keyOf(namespace, name)] = true
	}
	topologytest.Equal(l.t, "enqueued", want, got)
}

func TestABrokerGetsAtMostHalfOfTheWorkers(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		l.acquireAll("blue", "shop", 2)
		l.acquireAll("blue", "bank", 2)
		l.expectWait("blue", "farm", "c")
		l.acquire("green", "farm", "d")
	})
}

// A tenant may have any number of brokers, and of names for one broker.
func TestANamespaceGetsAtMostHalfOfTheWorkers(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		l.acquireAll("blue", "shop", 2)
		l.acquireAll("green", "shop", 2)
		l.expectWait("red", "shop", "c")
		l.acquire("red", "bank", "d")
	})
}

func TestANamespaceGetsNoMoreSlotsThanItLeavesFree(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		l.acquireAll("blue", "shop", 4)
		l.acquireAll("green", "bank", 2)
		l.expectWait("green", "bank", "c")
		l.acquire("red", "farm", "d")
		l.expectWait("black", "port", "e")
	})
}

func TestOneWorkerHasOneSlot(t *testing.T) {
	t.Parallel()
	l := limited{NewLimiter(1, func(client.ObjectKey) {}), t, nil}
	end := l.acquire("blue", "shop", "a")
	l.expectWait("green", "bank", "b")
	end()
	l.acquire("green", "bank", "b")
}

func TestSlowLanesShareAQuarterOfTheWorkers(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		for _, tenant := range []string{"shop", "bank", "farm"} {
			release := l.acquireAll(tenant+"-broker", tenant, 2)
			time.Sleep(slowAfter + time.Second)
			release()
		}
		l.acquire("shop-broker", "shop", "a")
		last := l.acquire("bank-broker", "bank", "b")
		l.expectWait("farm-broker", "farm", "c")
		time.Sleep(time.Millisecond)
		l.expectWait("bank-broker", "bank", "d")
		l.acquireAll("other-broker", "farm", 2)()
		l.acquireAll("port-broker", "port", 2)()
		time.Sleep(slowAfter + time.Second)
		last()
		l.expectEnqueued("farm", "c")
	})
}

func TestASlowLaneRecovers(t *testing.T) {
	t.Parallel()
	for name, recover := range map[string]func(release func()){
		"after a quick answer": func(release func()) { release() },
		"after a minute":       func(func()) { time.Sleep(slowFor) },
	} {
		t.Run(name, func(t *testing.T) {
			withLimiter(t, func(_ *testing.T, l limited) {
				slow := l.acquire("blue", "shop", "a")
				time.Sleep(slowAfter + time.Second)
				slow()
				release := l.acquire("blue", "shop", "b")
				l.acquire("blue", "shop", "c")
				l.expectWait("blue", "shop", "d")
				recover(release)
				l.acquire("blue", "shop", "d")
				l.acquire("blue", "shop", "e")
			})
		})
	}
}

// A free slot goes to the namespace with the fewest slots, however many requests of other namespaces wait. Within a namespace
// the oldest request comes first, and no request overtakes an enqueued one.
func TestSlotsAreFair(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		first := l.acquire("blue", "shop", "a")
		second := l.acquire("blue", "shop", "b")
		l.acquireAll("blue", "shop", 2)
		for _, name := range []string{"c", "d", "e", "c"} {
			l.expectWait("blue", "shop", name)
		}
		l.expectWait("blue", "bank", "f")
		first()
		l.expectEnqueued("bank", "f")
		l.expectWait("blue", "farm", "g")
		l.acquire("blue", "bank", "f")
		second()
		l.expectEnqueued("farm", "g")
		l.acquire("blue", "farm", "g")()
		l.expectEnqueued("shop", "c")
		l.acquire("blue", "shop", "c")()
		l.expectEnqueued("shop", "d")
	})
}

// An enqueued resource may have nothing to do any more, may be deleted, or may have moved to another broker.
func TestAnUnusedSlotIsPassedOn(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		end := l.acquire("blue", "shop", "a")
		l.acquireAll("blue", "shop", 3)
		for _, name := range []string{"b", "c", "d"} {
			l.expectWait("blue", "shop", name)
		}
		l.Decline(keyOf("shop", "d")) // it waits and was not offered a slot
		end()
		l.expectEnqueued("shop", "b")
		l.Decline(keyOf("shop", "b"))
		l.expectEnqueued("shop", "c")
		l.expectWait("green", "shop", "c")
		l.expectEnqueued("shop", "d")
		l.acquire("blue", "shop", "d")()
		l.expectEnqueued("shop", "c")
		l.acquire("green", "shop", "c")
	})
}

func TestAnUnusedLaneIsForgotten(t *testing.T) {
	withLimiter(t, func(t *testing.T, l limited) {
		end := l.acquire("blue", "shop", "a")
		l.acquire("blue", "shop", "b")()
		time.Sleep(slowAfter + time.Second)
		end()
		topologytest.Equal(t, "lanes", 1, len(l.lanes))
		time.Sleep(slowFor)
		l.acquire("green", "bank", "c")()
		topologytest.Equal(t, "lanes", 0, len(l.lanes))
	})
}
