package brokers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A notice enqueues only the resources that it concerns.
func TestHandleNotice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		notice snapshot.Notice
		want   []string
	}{
		"nothing": {},
		"health concerns all resources of the connection": {notice: snapshot.Notice{Health: true}, want: []string{"bc/default", "cq/invoices", "cq/orders", "cq/returns"}},
		"a main queue":                          {notice: snapshot.Notice{Queues: []string{"orders"}}, want: []string{"cq/orders"}},
		"a delay tier":                          {notice: snapshot.Notice{Queues: []string{"orders.retry.5m"}}, want: []string{"cq/orders"}},
		"a dead-letter queue":                   {notice: snapshot.Notice{Queues: []string{"invoices.dlq"}}, want: []string{"cq/invoices"}},
		"a queue that no ConsumerQueue names":   {notice: snapshot.Notice{Queues: []string{"orders.dlx"}}},
		"a dead-letter exchange":                {notice: snapshot.Notice{Exchanges: []string{"orders.dlx"}}, want: []string{"cq/orders"}},
		"a shared source exchange":              {notice: snapshot.Notice{Exchanges: []string{"events"}}, want: []string{"cq/invoices", "cq/orders"}},
		"a return route":                        {notice: snapshot.Notice{Routes: []string{"back"}}, want: []string{"cq/returns"}},
		"a message count":                       {notice: snapshot.Notice{Messages: true}, want: []string{"counted/default"}},
		"further bindings of a source exchange": {notice: snapshot.Notice{Routes: []string{"events"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connections := NewPool(controllertest.Client(t, []controllertest.AddIndexes{AddIndexes},
				controllertest.Named(t, "shop", "orders", `{bindings: [{exchange: {name: events, type: topic}}]}`),
				controllertest.Named(t, "shop", "invoices", `{bindings: [{exchange: {name: events, type: topic}}]}`),
				controllertest.Named(t, "shop", "returns", `{retry: {returnTo: {exchange: back}}}`),
				controllertest.Named(t, "shop", "other", `{connectionRef: {name: other}, queue: {name: orders}, bindings: [{exchange: {name: events}}]}`),
				controllertest.Named(t, "elsewhere", "orders", `{bindings: [{exchange: {name: events}}]}`),
			), logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil))
			priority := trigger.Noticed
			if test.notice.Health {
				priority = trigger.Resync
			}
			handled := make(chan struct{})
			go func() {
				defer close(handled)
				connections.handleNotice(types.NamespacedName{Namespace: "shop", Name: "default"}, test.notice)
			}()
			var got []string
			for open := true; open; {
				select {
				case e := <-connections.BrokerConnectionEvents:
					topologytest.Equal(t, "namespace", "shop", e.Object.Namespace)
					got = append(got, "bc/"+e.Object.Name)
				case e := <-connections.MessageCountEvents:
					topologytest.Equal(t, "namespace", "shop", e.Object.Namespace)
					got = append(got, "counted/"+e.Object.Name)
				case e := <-connections.ConsumerQueueEvents:
					topologytest.Equal(t, "namespace", "shop", e.Object.Resource.Namespace)
					topologytest.Equal(t, "priority", priority, e.Object.Priority)
					got = append(got, "cq/"+e.Object.Resource.Name)
				case <-handled:
					open = false
				}
			}
			slices.Sort(got)
			topologytest.Equal(t, "enqueued", test.want, got)
		})
	}
}

// While a connection opens, its health changes several times. Only the BrokerConnection needs to know.
func TestHealthOfANewConnection(t *testing.T) {
	t.Parallel()
	broker := brokerstest.New(topologytest.V43, "/", "uid")
	pool := NewPool(nil, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*Broker, error) {
		return &Broker{Probe: broker, Observer: broker, Changer: broker, Mover: broker}, nil
	})
	key := types.NamespacedName{Namespace: "shop", Name: "default"}
	topologytest.Equal(t, "before it is open", true, pool.healthConcernsQueues(key))
	_, err := pool.Ensure(key, time.Time{}, rabbit.Config{})
	topologytest.Equal(t, "error", nil, err)
	for _, step := range []struct {
		name   string
		change func(*rabbit.Health)
		want   bool
	}{
		{"connected", func(h *rabbit.Health) { h.Connected, h.Matched, h.SyncedAt = true, false, time.Time{} }, false},
		{"matched", func(h *rabbit.Health) { h.Matched = true }, false},
		{"the vhost is read", func(h *rabbit.Health) { h.SyncedAt = time.Now() }, true},
		{"the broker cannot be reached", func(h *rabbit.Health) { h.Err = brokererr.ErrUnreachable }, true},
		{"another broker answers", func(h *rabbit.Health) { h.Matched = false }, true},
		{"another broker still answers", func(h *rabbit.Health) { h.Err = brokererr.ErrClusterMismatch }, false},
		{"matched again", func(h *rabbit.Health) { h.Matched, h.Err = true, nil }, true},
	} {
		broker.SetHealth(step.change)
		topologytest.Equal(t, step.name, step.want, pool.healthConcernsQueues(key))
	}
}

// handleNotice does not block when the manager stops and no controller receives.
func TestNoticeWhileStopping(t *testing.T) {
	t.Parallel()
	connections := NewPool(controllertest.Client(t, []controllertest.AddIndexes{AddIndexes}, controllertest.Named(t, "shop", "orders", `{}`)), logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	topologytest.Equal(t, "error", nil, connections.Start(stopped))
	connections.handleNotice(types.NamespacedName{Namespace: "shop", Name: "default"}, snapshot.Notice{Health: true, Queues: []string{"orders"}})
}

func TestNoticeWithoutAnAPIServer(t *testing.T) {
	t.Parallel()
	connections := NewPool(controllertest.BrokenClient(t), logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil))
	connections.handleNotice(types.NamespacedName{Namespace: "shop", Name: "default"}, snapshot.Notice{Queues: []string{"orders"}})
}

func TestConnections(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "default"}
	connections := NewPool(controllertest.Client(t, []controllertest.AddIndexes{AddIndexes}), logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil))
	connections.stop() // no controller receives the notices
	config := rabbit.Config{
		// Nothing listens at port 1.
		AMQPURI: "amqp://127.0.0.1:1", ManagementURI: "http://127.0.0.1:1", Username: "bob", Password: controllertest.Password, VHost: "/", ResyncInterval: time.Hour,
	}
	if got := connections.Get(key); got != nil {
		t.Errorf("Get returns %v before Ensure", got)
	}
	first, err := connections.Ensure(key, time.Time{}, config)
	topologytest.Equal(t, "error", nil, err)
	again, err := connections.Ensure(key, time.Time{}, config)
	topologytest.Equal(t, "error", nil, err)
	if again != first || connections.Get(key) != first {
		t.Error("the same configuration opened another connection")
	}
	config.Password = "another"
	second, err := connections.Ensure(key, time.Time{}, config)
	topologytest.Equal(t, "error", nil, err)
	if second == first || connections.Get(key) != second {
		t.Error("another configuration opened no other connection")
	}
	if err := first.Refresh(t.Context()); err == nil {
		t.Error("the first connection is still open")
	}
	config.VHost = ""
	if _, err := connections.Ensure(key, time.Time{}, config); err == nil {
		t.Error("Ensure accepts an invalid configuration")
	}
	config.VHost = "/"
	third, err := connections.Ensure(key, time.Time{}, config)
	topologytest.Equal(t, "error", nil, err)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	topologytest.Equal(t, "error", nil, connections.Start(stopped))
	if connections.Get(key) != nil {
		t.Error("a connection remains after the manager has stopped")
	}
	if err := third.Refresh(t.Context()); err == nil {
		t.Error("the third connection is still open")
	}
	connections.Close(key)
}

func TestQueuesThatAConnectionRecreates(t *testing.T) {
	t.Parallel()
	recreating := func(name, queue string, phase v1alpha1.RecreationPhase) *v1alpha1.ConsumerQueue {
		cq := controllertest.Named(t, "shop", name, `{}`)
		cq.Status.Recreation = &v1alpha1.RecreationStatus{Queue: queue, Phase: phase}
		return cq
	}
	elsewhere := recreating("elsewhere", "elsewhere", v1alpha1.RecreationSwapping)
	elsewhere.Spec.ConnectionRef = &v1alpha1.LocalObjectReference{Name: "other"}
	connections := NewPool(controllertest.Client(t, []controllertest.AddIndexes{AddIndexes}, elsewhere,
		recreating("orders", "orders.dlq", v1alpha1.RecreationSwapping), recreating("invoices", "invoices", v1alpha1.RecreationWaiting),
		controllertest.Named(t, "shop", "returns", `{}`),
	), logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil))
	for queue, want := range map[string]bool{
		"orders.dlq": true, "orders": false, "invoices": false, "returns": false, "elsewhere": false,
	} {
		topologytest.Equal(t, queue, want, connections.recreates(types.NamespacedName{Namespace: "shop", Name: "default"}, queue))
	}
	unknown := NewPool(controllertest.BrokenClient(t), logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil))
	topologytest.Equal(t, "not known", true, unknown.recreates(types.NamespacedName{Namespace: "shop", Name: "default"}, "orders"))
}

// The broker may still list the connections of a BrokerConnection that is gone.
func TestKnownOwners(t *testing.T) {
	t.Parallel()
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	bc.UID = "present"
	pool := NewPool(controllertest.Client(t, nil, bc), logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*Broker, error) {
		return &Broker{Probe: brokerstest.New(topologytest.V43, "/", "former")}, nil
	})
	key := types.NamespacedName{Namespace: "shop", Name: "gone"}
	_, err := pool.Ensure(key, time.Time{}, rabbit.Config{Owner: "former"})
	topologytest.Equal(t, "error", nil, err)
	pool.Close(key)
	isKnown := pool.knownOwners()
	for owner, want := range map[string]bool{"former": true, "present": true, "other": false} {
		topologytest.Equal(t, owner, want, isKnown(owner))
	}
}

// The oldest BrokerConnections of a namespace have a connection, whatever the order in which they are reconciled.
func TestConnectionsOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	pool := NewPool(nil, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*Broker, error) {
		return &Broker{Probe: brokerstest.New(topologytest.V43, "/", "uid")}, nil
	})
	pool.stop() // no controller receives the events
	// opens reports whether Ensure returns a connection.
	opens := func(namespace, name string, created int64, config rabbit.Config) bool {
		_, err := pool.Ensure(types.NamespacedName{Namespace: namespace, Name: name}, time.Unix(created, 0), config)
		if err != nil && !errors.Is(err, ErrTooManyConnections) {
			t.Error(err)
		}
		return err == nil
	}
	isOpen := func(name string) bool { return pool.Get(types.NamespacedName{Namespace: "shop", Name: name}) != nil }
	for i := range MaxConnections {
		topologytest.Equal(t, "one more", true, opens("shop", strconv.Itoa(i), 100, rabbit.Config{}))
	}
	topologytest.Equal(t, "a younger one", false, opens("shop", "younger", 101, rabbit.Config{}))
	topologytest.Equal(t, "one of the same age, by name", false, opens("shop", "a", 100, rabbit.Config{}))
	topologytest.Equal(t, "another namespace", true, opens("elsewhere", "younger", 101, rabbit.Config{}))
	topologytest.Equal(t, "an open one", true, opens("shop", "9", 100, rabbit.Config{}))
	topologytest.Equal(t, "an open one with another configuration", true, opens("shop", "9", 100, rabbit.Config{VHost: "/"}))

	topologytest.Equal(t, "an older one", true, opens("shop", "older", 99, rabbit.Config{}))
	topologytest.Equal(t, "the youngest is open", false, isOpen("9"))
	topologytest.Equal(t, "the next one is open", true, isOpen("8"))
	topologytest.Equal(t, "the youngest", false, opens("shop", "9", 100, rabbit.Config{}))

	pool.Close(types.NamespacedName{Namespace: "shop", Name: "older"})
	topologytest.Equal(t, "after one was closed", true, opens("shop", "younger", 101, rabbit.Config{}))
}

// A BrokerConnection that loses its connection to an older one is reconciled, so that its status reports this.
func TestTheYoungestConnectionIsReconciled(t *testing.T) {
	t.Parallel()
	pool := NewPool(nil, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*Broker, error) {
		return &Broker{Probe: brokerstest.New(topologytest.V43, "/", "uid")}, nil
	})
	for i := range MaxConnections + 1 {
		key := types.NamespacedName{Namespace: "shop", Name: strconv.Itoa(i)}
		opened := make(chan error, 1)
		go func() {
			_, err := pool.Ensure(key, time.Unix(int64(1000-i), 0), rabbit.Config{})
			opened <- err
		}()
		if i == MaxConnections {
			topologytest.Equal(t, "reconciled", "0", (<-pool.BrokerConnectionEvents).Object.Name)
		}
		topologytest.Equal(t, "error", nil, <-opened)
	}
}

// An open connection outlives its Secret by a limited time, which begins again when the Secret comes back.
func TestAConnectionOutlivesItsSecret(t *testing.T) {
	t.Parallel()
	connections, key := NewPool(nil, logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil)), types.NamespacedName{Namespace: "shop", Name: "default"}
	topologytest.Equal(t, "without a connection", 0, connections.GraceLeft(key, time.Hour))
	connections.open[key] = openConnection{broker: &Broker{}}
	first := connections.GraceLeft(key, time.Hour)
	topologytest.Equal(t, "at first", true, first > 59*time.Minute)
	topologytest.Equal(t, "less time is left later", true, connections.GraceLeft(key, time.Hour) < first)
	topologytest.Equal(t, "at the end", true, connections.GraceLeft(key, 0) <= 0)
	connections.clearSecretMissing(key)
	topologytest.Equal(t, "when the Secret is back", true, connections.open[key].secretMissingSince.IsZero())
}

// slowToClose is a connection to a broker that does not answer: Close takes a while.
type slowToClose struct{ Probe }

const closingTime = 5 * time.Second

func (slowToClose) Close() { time.Sleep(closingTime) }

func TestConnectionsAreClosedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		connections := NewPool(nil, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*Broker, error) {
			return &Broker{Probe: slowToClose{}}, nil
		})
		for i := range 20 {
			if _, err := connections.Ensure(types.NamespacedName{Name: strconv.Itoa(i)}, time.Time{}, rabbit.Config{}); err != nil {
				t.Fatal(err)
			}
		}
		stopping, stop := context.WithCancel(t.Context())
		stop()
		began := time.Now()
		topologytest.Equal(t, "error", nil, connections.Start(stopping))
		topologytest.Equal(t, "time of closing", closingTime, time.Since(began))
		topologytest.Equal(t, "open connection", (*Broker)(nil), connections.Get(types.NamespacedName{Name: "7"}))
	})
}
