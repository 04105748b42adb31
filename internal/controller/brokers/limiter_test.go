package brokers

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// turnsOf is a Limiter of two turns, with the resources that it wakes.
type turnsOf struct {
	*Limiter
	t     *testing.T
	woken chan client.ObjectKey
}

func twoTurns(t *testing.T) turnsOf {
	woken := make(chan client.ObjectKey, 10)
	return turnsOf{Limiter: NewLimiter(2, func(key client.ObjectKey) { woken <- key }), t: t, woken: woken}
}

func resource(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }

func (l turnsOf) acquire(endpoint, name string) (done func()) {
	l.t.Helper()
	done, ok := l.TryAcquire(endpoint, resource(name))
	topologytest.Equal(l.t, name+" has its turn", true, ok)
	return done
}

func (l turnsOf) waits(endpoint, name string) {
	l.t.Helper()
	_, ok := l.TryAcquire(endpoint, resource(name))
	topologytest.Equal(l.t, name+" has its turn", false, ok)
}

func (l turnsOf) wakes(name string) {
	l.t.Helper()
	topologytest.Equal(l.t, "woken", resource(name), <-l.woken)
	topologytest.Equal(l.t, "others that are woken", 0, len(l.woken))
}

func TestTurnsAreThoseOfOneBroker(t *testing.T) {
	t.Parallel()
	l := twoTurns(t)
	l.acquire("blue:5672", "a")
	l.acquire("blue:5672", "b")
	l.waits("blue:5672", "c")
	l.acquire("green:5672", "d")
}

// Each turn that ends wakes one, in the order in which they asked, and nobody else takes its turn meanwhile.
func TestTurnsAreFair(t *testing.T) {
	t.Parallel()
	l := twoTurns(t)
	end := l.acquire("blue:5672", "a")
	l.acquire("blue:5672", "b")
	for _, name := range []string{"c", "d", "c"} {
		l.waits("blue:5672", name)
	}
	end()
	l.wakes("c")
	l.waits("blue:5672", "e")
	end = l.acquire("blue:5672", "c")
	end()
	l.wakes("d")
	l.acquire("blue:5672", "d")()
	l.wakes("e")
}

// A resource that was woken may have nothing to do any more, or be gone.
func TestATurnThatNobodyTakesIsPassedOn(t *testing.T) {
	t.Parallel()
	l := twoTurns(t)
	end := l.acquire("blue:5672", "a")
	l.acquire("blue:5672", "b")
	l.waits("blue:5672", "c")
	l.waits("blue:5672", "d")
	l.Pass(resource("d")) // it waits, and has not been offered anything
	end()
	l.wakes("c")
	l.Pass(resource("c"))
	l.wakes("d")
	l.acquire("blue:5672", "d")
}

func TestNothingIsRememberedOfABrokerThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	l := twoTurns(t)
	end := l.acquire("blue:5672", "a")
	l.acquire("blue:5672", "b")()
	end()
	topologytest.Equal(t, "brokers", 0, len(l.of))
}
