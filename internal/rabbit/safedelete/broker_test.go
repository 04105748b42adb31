package safedelete

import (
	"context"
	"crypto/tls"
	"maps"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// within is the limit for a step that ends immediately on an idle machine.
var within = deadline.For(30 * time.Second)

// each runs a test on each broker, in a new vhost.
func each(t *testing.T, test func(t *testing.T, vh *brokers.VHost)) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			test(t, broker.NewVHost(t))
		})
	}
}

func quorum(arguments vhost.Arguments) vhost.Arguments {
	all := vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum}
	maps.Copy(all, arguments)
	return all
}

// realBroker connects to a real broker, with only the parts that the steps of a deletion need.
type realBroker struct {
	options amqpconn.DialOptions
	pool    *amqpconn.Pool
	state   State

	mu    sync.Mutex
	known *snapshot.Snapshot
}

// deleterAt returns a Deleter for a vhost.
func deleterAt(t *testing.T, vh *brokers.VHost) (*Deleter, *management.Client) {
	t.Helper()
	return deleterThrough(t, vh, vh.Broker.AMQPURI)
}

// declareKnown declares a quorum queue that the snapshot of a Deleter shows.
func declareKnown(vh *brokers.VHost, deleter *Deleter, name string, arguments vhost.Arguments) {
	vh.DeclareQueue(name, quorum(arguments))
	deleter.observer.(*realBroker).known.PutQueue(name, vhost.Queue{Durable: true, Arguments: quorum(arguments)})
}

// deleterThrough returns a Deleter for a vhost, which connects to another URI for AMQP.
func deleterThrough(t *testing.T, vh *brokers.VHost, uri string) (*Deleter, *management.Client) {
	t.Helper()
	errs := brokererr.Errors{Username: vh.Broker.Username, Password: vh.Broker.Password, VHost: vh.Name}
	amqpURI, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	managementURI, err := url.Parse(vh.Broker.ManagementURI)
	if err != nil {
		t.Fatal(err)
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	api := management.NewClient(management.Options{
		URI: managementURI, TLS: security, Username: errs.Username, Password: errs.Password, VHost: vh.Name,
		Endpoint: management.EndpointOf(vh.Broker.AMQPURI), Timeout: within, Connections: RequestLimit,
	})
	cluster, err := api.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	broker := &realBroker{
		options: amqpconn.DialOptions{
			URI: amqpURI, TLS: security, Username: errs.Username, Password: errs.Password, VHost: vh.Name, Timeout: within,
		},
		pool: amqpconn.NewPool(errs, within), known: snapshot.New(),
		state: State{Cluster: cluster, Matched: true, MayWritePolicies: true, Version: vhost.RabbitMQ43},
	}
	connection, err := broker.Dial(t.Context(), cluster.Key())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.CloseSocket)
	broker.pool.Set(connection, nil)
	deleter := New(Settings{
		VHost: vh.Name, Owner: "test", User: errs.Username, Errors: errs, Log: logr.Discard(),
		Timeouts: timing.Timeouts{Settle: 400 * time.Millisecond, Leftover: time.Hour, Operation: within, Close: time.Second},
	}, broker, broker, api)
	t.Cleanup(deleter.Close)
	return deleter, api
}

func (b *realBroker) State() State { return b.state }

func (b *realBroker) View(show func(*snapshot.Snapshot)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	show(b.known)
}

func (b *realBroker) Write(change snapshot.Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change.Apply(b.known)
}

func (b *realBroker) RequestRefresh() {}

func (b *realBroker) DeclaredQueue(ctx context.Context, cluster, queue string) (amqp.Queue, bool, error) {
	return b.pool.DeclaredQueue(ctx, cluster, queue)
}

func (b *realBroker) DoToTheEnd(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return b.pool.DoToTheEnd(ctx, cluster, operation)
}

func (b *realBroker) DoExclusively(ctx context.Context, cluster string, operation func(amqpconn.Exclusive) error) error {
	return b.pool.DoExclusively(ctx, cluster, operation)
}

func (b *realBroker) Dial(ctx context.Context, _ string) (*amqpconn.Conn, error) {
	connection, err := amqpconn.Dial(ctx, b.options)
	if err != nil {
		return nil, err
	}
	connection.MatchedCluster.Store(&b.state.Cluster)
	return connection, nil
}

func (b *realBroker) Declare(context.Context, string, topology.Queue, []topology.Binding) error {
	return brokererr.ErrClosed // no test here deletes a queue that must come back
}

func (b *realBroker) CheckUnshared(context.Context) error { return nil }

func (b *realBroker) OtherConnections(context.Context) (func(string) bool, error) {
	return func(string) bool { return false }, nil
}

var secondCluster = vhost.Cluster{Name: "second", Endpoint: "second:5672"}

// emptyBroker is the secondCluster, which has no queues and no policies.
type emptyBroker struct {
	Observer
	Changer
	API

	changes []string // of policies
}

func (*emptyBroker) View(show func(*snapshot.Snapshot)) { show(snapshot.New()) }

func (*emptyBroker) Write(snapshot.Write) {}

func (*emptyBroker) Dial(context.Context, string) (*amqpconn.Conn, error) {
	return nil, brokererr.ErrUnreachable
}

func (*emptyBroker) DeclaredQueue(context.Context, string, string) (amqp.Queue, bool, error) {
	return amqp.Queue{}, false, nil
}

func (*emptyBroker) Cluster(context.Context) (vhost.Cluster, error) {
	return secondCluster, nil
}

func (*emptyBroker) Policies(context.Context) ([]vhost.Policy, error) { return nil, nil }

func (b *emptyBroker) PutPolicy(_ context.Context, _, _ string, _ float64, definition vhost.Arguments) error {
	b.changes = append(b.changes, definition.JSON())
	return nil
}

func (b *emptyBroker) DeletePolicy(context.Context, string) error {
	b.changes = append(b.changes, "delete")
	return nil
}
