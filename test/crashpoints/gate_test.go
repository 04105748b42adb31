package crashpoints

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// crashPoint is a moment at which the manager is killed.
type crashPoint struct {
	Effect

	// after: the broker or the API server has completed the effect. Otherwise they do not receive it.
	after bool
}

func (p crashPoint) String() string {
	if p.after {
		return "after " + p.Effect.String()
	}
	return "before " + p.Effect.String()
}

// gate numbers the effects of a manager, and kills the manager at a crash point. From then on it lets nothing through until
// reopen is called.
type gate struct {
	vhost string
	// kill kills the manager, and returns when it has ended.
	kill func()
	// isGone reports whether a queue is absent. The broker does not answer a deletion without wait.
	isGone func(queue string) bool

	mu      sync.Mutex
	effects []Effect
	counts  map[Operation]int
	point   *crashPoint // nil if none is left
	closed  bool        // nothing is let through
	wire    *wire
	latest  int           // connection
	dead    int           // connections up to this one belong to a killed manager
	pending *sent         // the effect after which the manager is killed
	crashed chan struct{} // closed when the manager is dead
	// trigger is a request after which the user acts, before the manager receives the answer. act does that once; nil for nothing.
	trigger Operation
	act     func()
}

// newGate returns a gate without a crash point.
func newGate(vhost string) *gate {
	return &gate{vhost: vhost, wire: newWire(), counts: map[Operation]int{}, crashed: make(chan struct{})}
}

// number begins to number effects anew, and kills the manager at the point, if it is not nil.
func (g *gate) number(point *crashPoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.counts, g.effects = point, map[Operation]int{}, nil
}

// actAfter sets what the user does once after a request.
func (g *gate) actAfter(trigger Operation, act func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trigger, g.act = trigger, sync.OnceFunc(act)
}

// recorded returns the effects so far.
func (g *gate) recorded() []Effect {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.effects)
}

// isClosed reports whether the manager is being killed, or was killed and not started again.
func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// hasCrashed reports whether the manager was killed.
func (g *gate) hasCrashed() bool {
	select {
	case <-g.crashed:
		return true
	default:
		return false
	}
}

// reopen lets a new manager through.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.pending, g.dead = false, nil, g.latest
}

// step is what happens to an effect.
type step int

const (
	pass step = iota
	// refuse: the manager is dead, or the effect is the one before which it is killed.
	refuse
	// passAndKill: the manager is killed when the effect is completed.
	passAndKill
)

// arrive numbers an effect. The caller must hold the lock.
func (g *gate) arrive(operation Operation) step {
	if g.closed {
		return refuse
	}
	g.counts[operation]++
	effect := Effect{operation, g.counts[operation]}
	g.effects = append(g.effects, effect)
	if g.point == nil || g.point.Effect != effect {
		return pass
	}
	after := g.point.after
	g.point = nil
	if after {
		return passAndKill
	}
	g.closed = true
	return refuse
}

// end kills the manager, once.
func (g *gate) end() {
	g.mu.Lock()
	g.closed, g.pending = true, nil
	g.mu.Unlock()
	g.kill()
	close(g.crashed)
}

// decide is the function of the AMQP proxy.
func (g *gate) decide(frame netfault.Frame) netfault.Verdict {
	g.mu.Lock()
	g.latest = max(g.latest, frame.Connection)
	if g.closed || frame.Connection <= g.dead {
		g.mu.Unlock()
		return netfault.Cut
	}
	if frame.FromBroker {
		return g.decideAnswer(frame)
	}
	if pending := g.pending; pending != nil && pending.completion == silent && pending.at.connection == frame.Connection {
		g.mu.Unlock()
		<-g.crashed // nothing of this connection overtakes the kill
		return netfault.Cut
	}
	effect, isEffect := g.wire.read(frame, g.vhost)
	taken := pass
	if isEffect {
		taken = g.arrive(effect.Operation)
	}
	if taken == passAndKill {
		g.pending = &effect
	}
	g.mu.Unlock()
	switch {
	case taken == refuse:
		g.end()
		return netfault.Cut
	case taken == passAndKill && effect.completion == silent:
		go g.endAfter(effect)
	}
	return netfault.Pass
}

// decideAnswer kills the manager if the broker has completed the pending effect. The caller holds the lock, and decideAnswer
// releases it.
func (g *gate) decideAnswer(frame netfault.Frame) netfault.Verdict {
	completed := g.pending != nil && g.pending.isCompletedBy(frame)
	if completed {
		g.closed = true
	}
	g.mu.Unlock()
	if !completed {
		return netfault.Pass
	}
	g.end()
	return netfault.Cut
}

// polling is how often tests read the vhost and the resources.
const polling = 100 * time.Millisecond

// unanswered is how long the broker takes at most to complete an effect that it does not answer.
const unanswered = 5 * time.Second

// endAfter kills the manager after an effect that the broker does not answer. A settlement is completed as soon as the broker has
// received it.
func (g *gate) endAfter(effect sent) {
	if effect.method == amqpmethod.QueueDelete {
		_ = wait.PollUntilContextTimeout(context.Background(), polling, unanswered, true, func(context.Context) (bool, error) {
			return g.isGone(effect.Object), nil
		})
	}
	g.end()
}

// killHeader marks a request after which the manager is killed, and triggerHeader one after which the user acts.
const (
	killHeader    = "Warren-Crash-Point"
	triggerHeader = "Warren-Trigger"
)

// through makes an HTTP proxy ask the gate about each request.
func (g *gate) through(proxy *netfault.HTTPProxy, operationOf func(*http.Request) (Operation, bool)) {
	proxy.Before(func(request *http.Request) {
		operation, isEffect := operationOf(request)
		g.mu.Lock()
		closed, taken := g.closed, pass
		if isEffect && !closed {
			taken = g.arrive(operation)
		}
		triggers := g.act != nil && operation == g.trigger
		g.mu.Unlock()
		switch {
		case closed:
			panic(http.ErrAbortHandler)
		case taken == refuse:
			g.end()
			panic(http.ErrAbortHandler)
		case taken == passAndKill:
			request.Header.Set(killHeader, "after")
		}
		if triggers {
			request.Header.Set(triggerHeader, "after")
		}
	})
	proxy.Change(func(response *http.Response) error {
		if response.StatusCode < http.StatusMultipleChoices && response.Request.Header.Get(triggerHeader) != "" {
			g.act()
		}
		if response.Request.Header.Get(killHeader) != "" {
			g.end()
			return http.ErrAbortHandler
		}
		return nil
	})
}

// kubernetesRequest returns the operation of a request to the API server; false if it is not an effect.
func kubernetesRequest(request *http.Request) (Operation, bool) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return Operation{}, false // the manager was killed
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	return kubernetesOperation(request.Method, request.URL.Path, body)
}

// managementRequest is kubernetesRequest for the management API.
func managementRequest(request *http.Request) (Operation, bool) {
	return managementOperation(request.Method, request.URL.EscapedPath())
}

// declaration is the frame that declares the queue orders, and declared its answer.
var (
	declaration = netfault.Frame{Method: amqpmethod.QueueDeclare, Connection: 1, Channel: 1, Arguments: encode("orders", byte(0))}
	declared    = netfault.Frame{Method: amqpmethod.QueueDeclareOK, Connection: 1, Channel: 1, FromBroker: true}
	deletion    = netfault.Frame{Method: amqpmethod.QueueDelete, Connection: 1, Channel: 1, Arguments: encode("orders", byte(4))}
)

// gateThatKills returns a gate with a crash point, and a function that reports whether the manager was killed.
func gateThatKills(kind string, number int, after bool) (g *gate, isKilled func() bool) {
	g = newGate("shop")
	g.kill, g.isGone = func() {}, func(string) bool { return true }
	g.number(&crashPoint{Effect{Operation{kind, "orders"}, number}, after})
	return g, g.hasCrashed
}

func TestTheGateKillsBeforeAnEffect(t *testing.T) {
	t.Parallel()
	g, isKilled := gateThatKills("queue.declare", 2, false)
	expectVerdict(t, g, declaration, netfault.Pass)
	expectVerdict(t, g, declared, netfault.Pass)
	if isKilled() {
		t.Fatal("killed before the first declaration")
	}
	expectVerdict(t, g, declaration, netfault.Cut)
	if !isKilled() {
		t.Error("not killed before the second declaration")
	}
	want := []Effect{{Operation{"queue.declare", "orders"}, 1}, {Operation{"queue.declare", "orders"}, 2}}
	if diff := cmp.Diff(want, g.recorded()); diff != "" {
		t.Error(diff)
	}
}

func TestTheGateKillsAfterAnEffect(t *testing.T) {
	t.Parallel()
	g, isKilled := gateThatKills("queue.declare", 1, true)
	expectVerdict(t, g, declaration, netfault.Pass)
	if isKilled() {
		t.Fatal("killed before the broker has answered")
	}
	expectVerdict(t, g, declared, netfault.Cut)
	if !isKilled() {
		t.Error("not killed after the answer")
	}
}

// What follows a deletion without wait does not reach the broker.
func TestTheGateKillsAfterAnEffectWithoutAnswer(t *testing.T) {
	t.Parallel()
	g, isKilled := gateThatKills("queue.delete", 1, true)
	expectVerdict(t, g, deletion, netfault.Pass)
	expectVerdict(t, g, declaration, netfault.Cut)
	if !isKilled() {
		t.Error("not killed")
	}
}

func TestTheGateLetsOnlyTheNextManagerThrough(t *testing.T) {
	t.Parallel()
	g, _ := gateThatKills("queue.declare", 1, false)
	expectVerdict(t, g, declaration, netfault.Cut)
	later := declaration
	later.Connection = 2
	expectVerdict(t, g, later, netfault.Cut)
	g.reopen()
	expectVerdict(t, g, later, netfault.Cut)
	later.Connection = 3
	expectVerdict(t, g, later, netfault.Pass)
}

func expectVerdict(t *testing.T, g *gate, frame netfault.Frame, want netfault.Verdict) {
	t.Helper()
	verdict := make(chan netfault.Verdict, 1)
	go func() { verdict <- g.decide(frame) }()
	select {
	case got := <-verdict:
		if got != want {
			t.Errorf("%v: verdict %d, want %d", frame.Method, got, want)
		}
	case <-time.After(deadline.For(time.Second)):
		t.Fatalf("%v: no verdict", frame.Method)
	}
}

func TestTheGateKillsAtARequest(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan string, 2)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) { arrived <- request.Method }))
			t.Cleanup(server.Close)
			g, isKilled := gateThatKills("delete policies", 1, after)
			proxy := netfault.NewHTTPProxy(t, server.URL, netfault.HTTPOptions{})
			g.through(proxy, managementRequest)
			client := server.Client() // not http.DefaultClient: see netfault.NewHTTPProxy
			send := func(method string) (status int) {
				request, err := http.NewRequestWithContext(t.Context(), method, proxy.URI+"/api/policies/shop/orders", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					return 0
				}
				_ = response.Body.Close()
				return response.StatusCode
			}
			if status := send(http.MethodGet); status != http.StatusOK || isKilled() {
				t.Fatalf("a read has status %d", status)
			}
			<-arrived
			if status := send(http.MethodDelete); status == http.StatusOK || !isKilled() {
				t.Errorf("status %d; killed: %t", status, isKilled())
			}
			if got := len(arrived) == 1; got != after {
				t.Errorf("the request arrived: %t", got)
			}
		})
	}
}
