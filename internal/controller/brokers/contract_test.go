package brokers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	testbrokers "github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/rabbittest"
)

// side is a broker under test. Its functions change the vhost as another client would.
type side struct {
	*brokers.Broker
	publish      func(queue string)
	declareQueue func(name string, arguments map[string]any)
	bindExchange func(source, destination string)
}

func (s side) cluster() string { return s.Health().Cluster.Key() }

// awaitReady waits until a queue has this many ready messages. Messages that a connection returns become ready a moment later.
func (s side) awaitReady(t *testing.T, queue string, want int) {
	t.Helper()
	NewWithT(t).Eventually(func() (int, error) {
		counted, _, err := s.CountQueue(t.Context(), s.cluster(), queue, vhost.TypeQuorum)
		return counted.Ready, err
	}).WithTimeout(deadline.For(10 * time.Second)).Should(Equal(want))
}

// toOther moves each message to the queue "other".
type toOther struct{}

func (toOther) Skips(*amqp.Delivery, int64) string { return "" }

func (toOther) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	return contract.Route{RoutingKey: "other"}, amqp.Publishing{Headers: amqp.Table{mover.SeqHeader: seq}, Body: message.Body}, nil
}

// observe refreshes the vhost, and returns the names of the exchanges, queues and bindings that the cases use.
func (s side) observe(t *testing.T) []string {
	t.Helper()
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	observed, read := s.Observe(vhost.Selection{Queues: []string{"orders", "other"}, Exchanges: []string{"dlx", "events"}})
	topologytest.Equal(t, "the vhost was read", true, read)
	names := []string{}
	for name, exchange := range observed.Exchanges {
		names = append(names, "exchange "+name+" "+exchange.Type)
	}
	for name, queue := range observed.Queues {
		names = append(names, "queue "+name+" "+queue.Arguments.JSON())
		for _, binding := range observed.BindingsTo[name] {
			names = append(names, "binding "+binding.Source+" "+binding.RoutingKey+" "+name)
		}
	}
	slices.Sort(names)
	return names
}

var (
	dlx    = topology.Exchange{Name: "dlx", Type: v1alpha1.ExchangeDirect, Declare: true}
	orders = topology.Queue{Name: "orders", Arguments: vhost.Arguments{"x-queue-type": "quorum", "x-message-ttl": int64(60000)}}
	route  = topology.Binding{Source: "dlx", Destination: "orders", RoutingKey: "a"}
	whole  = topology.Topology{Exchanges: []topology.Exchange{dlx}, Queues: []topology.Queue{orders}, Bindings: []topology.Binding{route}}
	there  = []string{"binding dlx a orders", "exchange dlx direct", `queue orders {"x-message-ttl":60000,"x-queue-type":"quorum"}`}
)

// promises are the guarantees that reconcilers need. RabbitMQ keeps them in every version that Warren supports, and the broker
// in memory must keep them, too.
var promises = map[string]func(t *testing.T, b side){
	"Apply creates the topology": func(t *testing.T, b side) {
		topologytest.Equal(t, "error", nil, b.Apply(t.Context(), whole))
		topologytest.Equal(t, "vhost", there, b.observe(t))
	},
	"a second Apply changes nothing": func(t *testing.T, b side) {
		topologytest.Equal(t, "error", nil, errors.Join(b.Apply(t.Context(), whole), b.Apply(t.Context(), whole)))
		topologytest.Equal(t, "vhost", there, b.observe(t))
	},
	"Apply does not declare an exchange without Declare": func(t *testing.T, b side) {
		undeclared := dlx
		undeclared.Declare = false
		topologytest.Equal(t, "error", nil, b.Apply(t.Context(), topology.Topology{Exchanges: []topology.Exchange{undeclared}}))
		topologytest.Equal(t, "vhost", []string{}, b.observe(t))
	},
	"Apply does not change or bind a queue with other arguments": func(t *testing.T, b side) {
		b.declareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		err := b.Apply(t.Context(), whole)
		topologytest.Equal(t, "failures", []string{"declare queue orders"}, failures(err))
		topologytest.Equal(t, "reason", true, errors.Is(err, brokererr.ErrPreconditionFailed))
		topologytest.Equal(t, "vhost", []string{"exchange dlx direct", `queue orders {"x-queue-type":"quorum"}`}, b.observe(t))
	},
	"Apply does not change an exchange of another type": func(t *testing.T, b side) {
		fanout := dlx
		fanout.Type = v1alpha1.ExchangeFanout
		topologytest.Equal(t, "error", nil, b.Apply(t.Context(), topology.Topology{Exchanges: []topology.Exchange{fanout}}))
		err := b.Apply(t.Context(), whole)
		topologytest.Equal(t, "failures", []string{"declare exchange dlx"}, failures(err))
		topologytest.Equal(t, "reason", true, errors.Is(err, brokererr.ErrPreconditionFailed))
		topologytest.Equal(t, "vhost", []string{"exchange dlx fanout", there[2]}, b.observe(t))
	},
	"Apply cannot bind a missing exchange": func(t *testing.T, b side) {
		err := b.Apply(t.Context(), topology.Topology{Queues: []topology.Queue{orders}, Bindings: []topology.Binding{route}})
		topologytest.Equal(t, "failures", []string{"bind binding dlx orders"}, failures(err))
		topologytest.Equal(t, "reason", true, errors.Is(err, brokererr.ErrNotFound))
	},
	"Apply cannot bind a missing queue": func(t *testing.T, b side) {
		err := b.Apply(t.Context(), topology.Topology{Exchanges: []topology.Exchange{dlx}, Bindings: []topology.Binding{route}})
		topologytest.Equal(t, "failures", []string{"bind binding dlx orders"}, failures(err))
		topologytest.Equal(t, "reason", true, errors.Is(err, brokererr.ErrNotFound))
	},
	"a catch-up shows the changes of another client": func(t *testing.T, b side) {
		b.declareQueue("other", map[string]any{"x-queue-type": "quorum"})
		topologytest.Equal(t, "error", nil, b.CatchUp(t.Context()))
		observed, _ := b.Observe(vhost.Selection{Queues: []string{"other"}})
		topologytest.Equal(t, "queues", 1, len(observed.Queues))
	},
	"Remove deletes the topology and ignores missing objects": func(t *testing.T, b side) {
		topologytest.Equal(t, "error of Apply", nil, b.Apply(t.Context(), whole))
		all := rabbit.Removal{Bindings: []topology.Binding{route}, Queues: []string{"orders"}, Exchanges: []string{"dlx"}}
		topologytest.Equal(t, "error", nil, b.Remove(t.Context(), b.cluster(), all))
		topologytest.Equal(t, "error of the second time", nil, b.Remove(t.Context(), b.cluster(), all))
		topologytest.Equal(t, "vhost", []string{}, b.observe(t))
	},
	"Remove of a queue deletes its bindings": func(t *testing.T, b side) {
		topologytest.Equal(t, "error of Apply", nil, b.Apply(t.Context(), whole))
		topologytest.Equal(t, "error", nil, b.Remove(t.Context(), b.cluster(), rabbit.Removal{Queues: []string{"orders"}, Exchanges: []string{"dlx"}}))
		topologytest.Equal(t, "vhost", []string{}, b.observe(t))
	},
	"Remove does not delete an exchange with bindings": func(t *testing.T, b side) {
		topologytest.Equal(t, "error of Apply", nil, b.Apply(t.Context(), whole))
		err := b.Remove(t.Context(), b.cluster(), rabbit.Removal{Exchanges: []string{"dlx"}})
		topologytest.Equal(t, "failures", []string{"delete exchange dlx"}, failures(err))
		topologytest.Equal(t, "reason", true, errors.Is(err, brokererr.ErrInUse))
		topologytest.Equal(t, "vhost", there, b.observe(t))
	},
	"Remove and DeleteEmpty refuse another cluster": func(t *testing.T, b side) {
		topologytest.Equal(t, "error of Apply", nil, b.Apply(t.Context(), whole))
		err := b.Remove(t.Context(), "another", rabbit.Removal{Bindings: []topology.Binding{route}, Queues: []string{"orders"}})
		topologytest.Equal(t, "failures", []string{"unbind binding dlx orders", "delete queue orders"}, failures(err))
		topologytest.Equal(t, "reason", true, errors.Is(err, brokererr.ErrOtherCluster))
		err = b.DeleteEmpty(t.Context(), "another", []string{"orders"}, nil)
		topologytest.Equal(t, "reason of DeleteEmpty", true, errors.Is(err, brokererr.ErrOtherCluster))
		topologytest.Equal(t, "vhost", there, b.observe(t))
	},
	"DeleteEmpty deletes an empty queue": func(t *testing.T, b side) {
		topologytest.Equal(t, "error of Apply", nil, b.Apply(t.Context(), whole))
		b.observe(t)
		// While the broker is slow, DeleteEmpty keeps the queue. A reconciler calls it again.
		NewWithT(t).Eventually(func() error {
			return b.DeleteEmpty(t.Context(), b.cluster(), []string{"orders"}, nil)
		}).WithTimeout(deadline.For(2 * time.Minute)).Should(Succeed())
		topologytest.Equal(t, "vhost", []string{"exchange dlx direct"}, b.observe(t))
	},
	"DeleteEmpty ignores a missing queue": func(t *testing.T, b side) {
		topologytest.Equal(t, "error", nil, b.DeleteEmpty(t.Context(), b.cluster(), []string{"orders"}, nil))
	},
	"DeleteEmpty deletes no queue if one has messages": func(t *testing.T, b side) {
		b.declareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		b.declareQueue("other", map[string]any{"x-queue-type": "quorum"})
		b.publish("other")
		before := b.observe(t)
		err := b.DeleteEmpty(t.Context(), b.cluster(), []string{"orders", "other"}, nil)
		topologytest.Equal(t, "reason", true, errors.Is(err, brokererr.ErrNotEmpty))
		topologytest.Equal(t, "vhost", before, b.observe(t))
	},
	"DeleteEmpty deletes no queue that is wanted again": func(t *testing.T, b side) {
		b.declareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		before := b.observe(t)
		needed := errors.New("the queue is wanted again")
		err := b.DeleteEmpty(t.Context(), b.cluster(), []string{"orders"}, func(context.Context) error { return needed })
		topologytest.Equal(t, "error", true, errors.Is(err, needed))
		topologytest.Equal(t, "vhost", before, b.observe(t))
	},
	"CountQueue counts ready messages": func(t *testing.T, b side) {
		b.declareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		b.publish("orders")
		counted, exists, err := b.CountQueue(t.Context(), b.cluster(), "orders", vhost.TypeQuorum)
		topologytest.Equal(t, "counts", rabbit.QueueCounts{Ready: 1}, counted)
		topologytest.Equal(t, "exists", true, exists)
		topologytest.Equal(t, "error", nil, err)
		_, exists, err = b.CountQueue(t.Context(), b.cluster(), "absent", vhost.TypeQuorum)
		topologytest.Equal(t, "absent exists", false, exists)
		topologytest.Equal(t, "error of absent", nil, err)
		_, _, err = b.CountQueue(t.Context(), "another", "orders", vhost.TypeQuorum)
		topologytest.Equal(t, "reason at another cluster", true, errors.Is(err, brokererr.ErrOtherCluster))
	},
	"Move moves messages to another queue": func(t *testing.T, b side) {
		b.declareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		b.declareQueue("other", map[string]any{"x-queue-type": "quorum"})
		b.publish("orders")
		config := mover.Config{
			Queue: "orders", Destination: "other", Filter: toOther{}, Copier: toOther{}, Total: 1, MaxFailures: 1,
			Settings: func() mover.Settings { return mover.Settings{MaxDepth: -1} }, Report: func(mover.Progress) {},
		}
		dryRun := config
		dryRun.DryRun = true
		progress, err := b.Move(t.Context(), b.cluster(), dryRun)
		topologytest.Equal(t, "error of a dry run", nil, err)
		topologytest.Equal(t, "would be moved", 1, progress.Moved)
		for _, want := range []struct {
			queue string
			ready int
		}{{"orders", 1}, {"other", 0}} {
			b.awaitReady(t, want.queue, want.ready)
		}
		progress, err = b.Move(t.Context(), b.cluster(), config)
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 1, progress.Moved)
		b.awaitReady(t, "orders", 0)
		b.awaitReady(t, "other", 1)
	},
	"Move deletes messages": func(t *testing.T, b side) {
		b.declareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		b.publish("orders")
		config := mover.Config{
			Queue: "orders", Filter: toOther{}, Total: 1, Limit: 1, Delete: true,
			Settings: func() mover.Settings { return mover.Settings{MaxDepth: -1} }, Report: func(mover.Progress) {},
		}
		progress, err := b.Move(t.Context(), b.cluster(), config)
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "deleted", 1, progress.Moved)
		b.awaitReady(t, "orders", 0)
	},
	"Browse shows messages and leaves them in the queue": func(t *testing.T, b side) {
		b.declareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		b.publish("orders")
		seen := 0
		config := mover.BrowseConfig{Queue: "orders", MaxMessages: 10, Visit: func(int, *amqp.Delivery) bool {
			seen++
			return true
		}}
		browsed, err := b.Browse(t.Context(), b.cluster(), config)
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "browsed", mover.Browsed{Ready: 1, Examined: 1}, browsed)
		topologytest.Equal(t, "seen", 1, seen)
		b.awaitReady(t, "orders", 1)
		config.Queue = "absent"
		_, err = b.Browse(t.Context(), b.cluster(), config)
		topologytest.Equal(t, "reason of absent", true, errors.Is(err, brokererr.ErrNotFound))
		_, err = b.Browse(t.Context(), "another", config)
		topologytest.Equal(t, "reason at another cluster", true, errors.Is(err, brokererr.ErrOtherCluster))
	},
	"Observe follows bindings from exchange to exchange": func(t *testing.T, b side) {
		events := topology.Exchange{Name: "events", Type: v1alpha1.ExchangeTopic, Declare: true}
		linked := whole
		linked.Exchanges = []topology.Exchange{dlx, events}
		topologytest.Equal(t, "error of Apply", nil, b.Apply(t.Context(), linked))
		b.bindExchange("events", "dlx")
		b.observe(t)
		observed, _ := b.Observe(vhost.Selection{FollowFrom: "events"})
		topologytest.Equal(t, "exchanges", 2, len(observed.Exchanges))
		topologytest.Equal(t, "bindings of the first", 1, len(observed.BindingsFrom["events"]))
		topologytest.Equal(t, "bindings of the second", 1, len(observed.BindingsFrom["dlx"]))
	},
	"Health reports version and cluster": func(t *testing.T, b side) {
		health := b.Health()
		_, err := vhost.ParseVersion(health.Version)
		topologytest.Equal(t, "error of the version", nil, err)
		topologytest.Equal(t, "usable", true, health.Usable())
		topologytest.Equal(t, "owner", "uid", b.Owner())
		observed, _ := b.Observe(vhost.Selection{})
		topologytest.Equal(t, "cluster of what is observed", b.cluster(), observed.Cluster)
	},
}

// failures returns the operations and objects of a joined error.
func failures(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var found []string
	for _, one := range joined.Unwrap() {
		if failure, ok := errors.AsType[*brokererr.ObjectError](one); ok {
			name := strings.ToLower(string(failure.ID.Kind)) + " " + failure.ID.Name
			if failure.ID.Kind == vhost.KindBinding {
				name = "binding " + failure.ID.Source + " " + failure.ID.Destination
			}
			found = append(found, failure.Op+" "+name)
		}
	}
	return found
}

func TestContractOfTheBrokerInMemory(t *testing.T) {
	t.Parallel()
	for name, test := range promises {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokerstest.New(topologytest.V43, "/", "uid")
			test(t, side{
				Broker: &brokers.Broker{Probe: b, Observer: b, Changer: b, Mover: b}, publish: func(queue string) { b.SetDeadLetters(queue, amqp.Delivery{Body: []byte("a message")}) },
				declareQueue: func(name string, arguments map[string]any) {
					b.Change(func(s *snapshot.Snapshot) {
						s.PutQueue(name, vhost.Queue{Durable: true, Arguments: vhost.Normalize(arguments)})
					})
				},
				bindExchange: func(source, destination string) {
					b.Change(func(s *snapshot.Snapshot) {
						s.PutBinding(vhost.Binding{Source: source, Destination: destination, ToExchange: true})
					})
				},
			})
		})
	}
}

func configOf(v *testbrokers.VHost) rabbit.Config {
	config := rabbittest.ConfigOf(v)
	config.Owner = "uid"
	return config
}

func awaitUsable(t *testing.T, health func() rabbit.Health) {
	t.Helper()
	NewWithT(t).Eventually(health).WithTimeout(deadline.For(30 * time.Second)).Should(Satisfy(rabbit.Health.Usable))
}

func TestContractOfRabbitMQ(t *testing.T) {
	t.Parallel()
	for _, broker := range testbrokers.All(t) {
		for name, test := range promises {
			t.Run(broker.Version+" "+name, func(t *testing.T) {
				t.Parallel()
				v := broker.NewVHost(t)
				connection, err := rabbit.Open(configOf(v), testr.New(t), func(snapshot.Notice) {})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(connection.Close)
				awaitUsable(t, connection.Health)
				test(t, side{
					Broker: &brokers.Broker{Probe: connection, Observer: connection, Changer: connection, Mover: connection}, publish: func(queue string) { v.Publish("", queue, "a message") }, declareQueue: v.DeclareQueue,
					bindExchange: func(source, destination string) { v.BindExchange(source, destination, "", nil) },
				})
			})
		}
	}
}

// A manager that was paused beyond its Lease continues beside its successor until it notices. Its connections then delete nothing.
func TestAConnectionOfAFormerLeaderDeletesNothing(t *testing.T) {
	t.Parallel()
	leads := atomic.Bool{}
	leads.Store(true)
	connect := brokers.ConnectWithin(management.NewLimits(0), 0, leads.Load)
	connection, err := connect(configOf(testbrokers.Newest(t).NewVHost(t)), testr.New(t), func(snapshot.Notice) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	awaitUsable(t, connection.Health)
	topologytest.Equal(t, "error of Apply", nil, connection.Apply(t.Context(), whole))
	leads.Store(false)
	err = connection.Remove(t.Context(), connection.Health().Cluster.Key(), rabbit.Removal{Queues: []string{"orders"}})
	topologytest.Equal(t, "is not the leader", true, errors.Is(err, brokererr.ErrNotLeader))
	topologytest.Equal(t, "vhost", there, side{Broker: connection}.observe(t))
}
