package brokers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// limited is a Limiter for eight workers.
type limited struct {
	*Limiter
	t     *testing.T
	woken chan client.ObjectKey
}

// withLimiter runs a test with a clock of its own.
func withLimiter(t *testing.T, test func(t *testing.T, l limited)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan client.ObjectKey, 100)
		test(t, limited{Limiter: NewLimiter(8, func(key client.ObjectKey) { woken <- key }), t: t, woken: woken})
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

// acquireAll takes slots for resources of a lane.
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

func (l limited) waits(endpoint, namespace, name string) {
	l.t.Helper()
	_, ok := l.TryAcquire(endpoint, keyOf(namespace, name))
	topologytest.Equal(l.t, name+" has a slot", false, ok)
}

// wakes expects that these resources of a namespace are woken, and no others.
func (l limited) wakes(namespace string, names ...string) {
	l.t.Helper()
	synctest.Wait()
	got, want := map[client.ObjectKey]bool{}, map[client.ObjectKey]bool{}
	for len(l.woken) > 0 {
		got[<-l.woken] = true
	}
	for _, name := range names {
		want[keyOf(namespace, name)] = true
	}
	topologytest.Equal(l.t, "woken", want, got)
}

func TestABrokerHasHalfOfTheWorkers(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		l.acquireAll("blue", "shop", 2)
		l.acquireAll("blue", "bank", 2)
		l.waits("blue", "farm", "c")
		l.acquire("green", "farm", "d")
	})
}

// A tenant may have any number of brokers, or of names for one.
func TestANamespaceHasHalfOfTheWorkers(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		l.acquireAll("blue", "shop", 2)
		l.acquireAll("green", "shop", 2)
		l.waits("red", "shop", "c")
		l.acquire("red", "bank", "d")
	})
}

func TestNoNamespaceHasMoreSlotsThanItLeaves(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		l.acquireAll("blue", "shop", 4)
		l.acquireAll("green", "bank", 2)
		l.waits("green", "bank", "c")
		l.acquire("red", "farm", "d")
		l.waits("black", "port", "e")
	})
}

func TestOneWorkerHasOneSlot(t *testing.T) {
	t.Parallel()
	l := limited{NewLimiter(1, func(client.ObjectKey) {}), t, nil}
	end := l.acquire("blue", "shop", "a")
	l.waits("green", "bank", "b")
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
		l.waits("farm-broker", "farm", "c")
		time.Sleep(time.Millisecond)
		l.waits("bank-broker", "bank", "d")
		l.acquireAll("other-broker", "farm", 2)()
		l.acquireAll("port-broker", "port", 2)()
		time.Sleep(slowAfter + time.Second)
		last()
		l.wakes("farm", "c")
	})
}

func TestALaneIsNotSlowAnyMore(t *testing.T) {
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
				l.waits("blue", "shop", "d")
				recover(release)
				l.acquire("blue", "shop", "d")
				l.acquire("blue", "shop", "e")
			})
		})
	}
}

// A free slot goes to the namespace with the fewest slots, however many of another one wait. Within a namespace the order is that of the
// requests, and no resource overtakes one that was woken.
func TestSlotsAreFair(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		first := l.acquire("blue", "shop", "a")
		second := l.acquire("blue", "shop", "b")
		l.acquireAll("blue", "shop", 2)
		for _, name := range []string{"c", "d", "e", "c"} {
			l.waits("blue", "shop", name)
		}
		l.waits("blue", "bank", "f")
		first()
		l.wakes("bank", "f")
		l.waits("blue", "farm", "g")
		l.acquire("blue", "bank", "f")
		second()
		l.wakes("farm", "g")
		l.acquire("blue", "farm", "g")()
		l.wakes("shop", "c")
		l.acquire("blue", "shop", "c")()
		l.wakes("shop", "d")
	})
}

// A resource that was woken may have nothing to do any more, be gone, or be at another broker now.
func TestASlotThatIsNotTakenIsPassedOn(t *testing.T) {
	withLimiter(t, func(_ *testing.T, l limited) {
		end := l.acquire("blue", "shop", "a")
		l.acquireAll("blue", "shop", 3)
		for _, name := range []string{"b", "c", "d"} {
			l.waits("blue", "shop", name)
		}
		l.Pass(keyOf("shop", "d")) // it waits, and has not been offered anything
		end()
		l.wakes("shop", "b")
		l.Pass(keyOf("shop", "b"))
		l.wakes("shop", "c")
		l.waits("green", "shop", "c")
		l.wakes("shop", "d")
		l.acquire("blue", "shop", "d")()
		l.wakes("shop", "c")
		l.acquire("green", "shop", "c")
	})
}

func TestNothingIsRememberedOfALaneThatIsNotUsed(t *testing.T) {
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
