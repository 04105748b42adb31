package brokermatch_test

import (
	"context"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// healthOf returns the health of a connection once it is matched.
func healthOf(t *testing.T, connection *rabbittest.Connection) rabbit.Health {
	t.Helper()
	NewWithT(t).Eventually(connection.Health).WithTimeout(rabbittest.Within).Should(HaveField("Matched", true))
	return connection.Health()
}

func leadsTo(t *testing.T, connection *rabbittest.Connection, other rabbit.Health) bool {
	t.Helper()
	leads, err := connection.LeadsTo(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	return leads
}

// Each connection checks with its own management API, and at its own address, which broker another connection leads to.
func TestLeadsTo(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.ConfigOf(vh)
	here := rabbittest.Opened(t, config, nil)
	proxied := rabbittest.ConfigOf(vh)
	proxied.AMQPURI = netfault.NewProxy(t, vh.Broker.AMQPURI).URI
	other := healthOf(t, rabbittest.Opened(t, proxied, nil))
	beside := healthOf(t, rabbittest.Opened(t, rabbittest.ConfigOf(vh.Broker.NewVHost(t)), nil))
	own := healthOf(t, here)

	type change func(*rabbit.Health)
	for name, test := range map[string]struct {
		of     rabbit.Health
		change change
		want   bool
	}{
		"AMQP was accepted at the same address":       {own, func(h *rabbit.Health) { h.Place.MatchQueue = "" }, true},
		"the management API shows its match queue":    {other, func(*rabbit.Health) {}, true},
		"the same, where the ID cannot be read":       {other, func(h *rabbit.Health) { h.Cluster.ID = "" }, true},
		"at the same address, but of another cluster": {own, func(h *rabbit.Health) { h.Cluster.ID = "sha256:other" }, false},
		"its match queue is in another vhost":         {beside, func(h *rabbit.Health) { h.Place.Address = "" }, false},
		"it claims the cluster's ID":                  {other, func(h *rabbit.Health) { h.Place.MatchQueue = "warren-link-forged" }, false},
		"it claims the name and has another address":  {rabbit.Health{Cluster: vhost.Cluster{Name: own.Cluster.Name}}, func(*rabbit.Health) {}, false},
		"its user may not declare a match queue":      {other, func(h *rabbit.Health) { h.Place.MatchQueue = "" }, false},
	} {
		test.change(&test.of)
		if got := leadsTo(t, here, test.of); got != test.want {
			t.Errorf("%s: leads here: %t", name, got)
		}
	}
}

// neighbours returns a connection, the health of another one to the same vhost at another address, and the proxy between the first
// connection and the management API. transport carries the requests of the proxy; nil for the default.
func neighbours(
	t *testing.T, transport http.RoundTripper, timeouts timing.Timeouts,
) (here *rabbittest.Connection, other rabbit.Health, api *netfault.HTTPProxy) {
	t.Helper()
	vh := brokers.Newest(t).NewVHost(t)
	config, proxied := rabbittest.ConfigOf(vh), rabbittest.ConfigOf(vh)
	api = netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{Transport: transport})
	config.ManagementURI = api.URI
	proxied.AMQPURI = netfault.NewProxy(t, vh.Broker.AMQPURI).URI
	here = rabbittest.ConnectedWith(t, config, timeouts)
	healthOf(t, here)
	return here, healthOf(t, rabbittest.Opened(t, proxied, nil)), api
}

// A hostile server can make its connection reconnect continually. Match queues are still listed only
// once.
func TestAReconnectedNeighbourIsNotListedAgain(t *testing.T) {
	t.Parallel()
	here, other, api := neighbours(t, nil, rabbittest.Unpaced())
	lists := func() (count int) { // since the last call
		for _, request := range api.Requests() {
			if strings.HasPrefix(request.Path, "/api/queues/") && strings.Count(request.Path, "/") == 3 {
				count++
			}
		}
		return count
	}
	check := func(name string, of rabbit.Health, want bool) {
		t.Helper()
		_ = lists()
		if got := leadsTo(t, here, of); got != want {
			t.Errorf("%s: leads here: %t", name, got)
		}
		of.Place.MatchQueue, of.Place.MatchedAt = "warren-link-new", time.Now()
		if got := leadsTo(t, here, of); got != want {
			t.Errorf("%s, after it connected again: leads here: %t", name, got)
		}
		if got := lists(); got != 1 {
			t.Errorf("%s: match queues were listed %d times, want once", name, got)
		}
	}
	check("a neighbour", other, true)
	forged := other
	forged.Place = health.Place{MatchQueue: "warren-link-forged", MatchedAt: time.Now(), Since: time.Now(), Owner: "of another tenant"}
	check("another tenant", forged, false)
}

// silent does not answer the first requests for match queues.
type silent struct {
	next  http.Transport
	until int32 // the number of the first request that is answered
	asked atomic.Int32
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.RawQuery, "warren-link") || s.asked.Add(1) >= s.until {
		return s.next.RoundTrip(r)
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A list that failed is soon requested again.
func TestAFailedListIsRepeated(t *testing.T) {
	t.Parallel()
	timeouts := rabbittest.Unpaced()
	timeouts.Request = 2 * time.Second
	here, other, _ := neighbours(t, &silent{until: 2}, timeouts)
	_, err := here.LeadsTo(t.Context(), other)
	rabbittest.MustBe(t, err, brokererr.ErrUnreachable)
	leads := func() (bool, error) { return here.LeadsTo(t.Context(), other) }
	NewWithT(t).Eventually(leads).WithTimeout(rabbittest.Within).WithPolling(50 * time.Millisecond).Should(BeTrue())
}

// A management API that answers everything but the list of match queues keeps no caller waiting for the timeout of the request.
func TestASilentListKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	lists := &silent{until: math.MaxInt32}
	timeouts := rabbittest.Unpaced()
	timeouts.Request = time.Hour
	here, other, _ := neighbours(t, lists, timeouts)
	ctx, cancel := context.WithTimeout(t.Context(), deadline.For(30*time.Second))
	defer cancel()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			_, err := here.LeadsTo(ctx, other)
			rabbittest.MustBe(t, err, brokererr.ErrUnreachable)
		})
	}
	callers.Wait()
	if ctx.Err() != nil {
		t.Error("the callers waited for the list")
	}
	if asked := lists.asked.Load(); asked != 1 {
		t.Errorf("%d lists at the same time", asked)
	}
}
