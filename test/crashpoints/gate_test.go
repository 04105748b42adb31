package crashpoints

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// declaration is the frame that declares the queue orders, and declared its answer.
var (
	declaration = netfault.Frame{Method: queueDeclare, Connection: 1, Channel: 1, Arguments: encode("orders", byte(0))}
	declared    = netfault.Frame{Method: netfault.QueueDeclareOK, Connection: 1, Channel: 1, FromBroker: true}
	deletion    = netfault.Frame{Method: queueDelete, Connection: 1, Channel: 1, Arguments: encode("orders", byte(4))}
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
			send := func(method string) (status int) {
				request, err := http.NewRequestWithContext(t.Context(), method, proxy.URI+"/api/policies/shop/orders", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				response, err := http.DefaultClient.Do(request)
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
