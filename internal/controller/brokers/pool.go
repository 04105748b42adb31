package brokers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Pool holds the one connection of each BrokerConnection, shared by its ConsumerQueues, and turns what a
// connection notices into reconciliations of just those resources that are concerned.
type Pool struct {
	reader  client.Reader
	logger  logr.Logger
	connect Connect

	// BrokerConnectionEvents and ConsumerQueueEvents feed the controllers' queues.
	BrokerConnectionEvents chan event.TypedGenericEvent[*v1alpha1.BrokerConnection]
	ConsumerQueueEvents    chan event.TypedGenericEvent[*v1alpha1.ConsumerQueue]
	// stopping ends when the manager does; until then events wait for the controllers to take them.
	stopping context.Context // the life of the component, not of a call
	stop     context.CancelFunc

	mu   sync.Mutex
	open map[types.NamespacedName]openConnection
	// owners are those of all connections that were ever opened; see rabbit.Config.Known.
	owners map[string]bool
}

// Broker is one vhost of a broker: observed, changed, and kept connected. A *rabbit.Connection is one.
type Broker interface {
	// Owner is the UID of the BrokerConnection that the connection was opened for.
	Owner() string
	// VHost is the vhost that the connection leads to.
	VHost() string
	// Health tells how the connection fares.
	Health() rabbit.Health
	// Observe returns what the vhost has, out of a snapshot in memory; false before the first refresh.
	Observe(selection vhost.Selection) (vhost.Observed, bool)
	// Refresh reads the vhost, and returns when that is done; RequestRefresh does not wait.
	Refresh(ctx context.Context) error
	RequestRefresh()
	// Apply declares and binds; see rabbit.Connection.Apply.
	Apply(ctx context.Context, changes topology.Topology) error
	// Remove unbinds and deletes; see rabbit.Connection.Remove.
	Remove(ctx context.Context, cluster string, removal rabbit.Removal) error
	// DeleteEmpty deletes queues that are provably empty; see rabbit.Connection.DeleteEmpty.
	DeleteEmpty(ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error) error
	// Fences names the policies of this owner that keep queues from taking messages.
	Fences() []string
	// Close ends the connection.
	Close()
}

// Connect opens a connection; see rabbit.Open.
type Connect func(config rabbit.Config, logger logr.Logger, notify func(snapshot.Notice)) (Broker, error)

// ConnectWithin opens connections to RabbitMQ. All of them together keep to limits, and those that see the same vhost with the
// same rights share what they observe.
func ConnectWithin(limits *management.Limits) Connect {
	observations := rabbit.NewObservations()
	return func(config rabbit.Config, logger logr.Logger, notify func(snapshot.Notice)) (Broker, error) {
		config.Limits, config.Observations = limits, observations
		return rabbit.Open(config, logger, notify)
	}
}

type openConnection struct {
	broker      Broker
	fingerprint string
	// secretMissingSince is since when its Secret has been missing; zero while it is there.
	secretMissingSince time.Time
}

// NewPool makes a component that the manager must run, so that connections are closed when it stops.
func NewPool(reader client.Reader, logger logr.Logger, connect Connect) *Pool {
	stopping, stop := context.WithCancel(context.Background())
	return &Pool{
		reader: reader, logger: logger, connect: connect,
		BrokerConnectionEvents: make(chan event.TypedGenericEvent[*v1alpha1.BrokerConnection]),
		ConsumerQueueEvents:    make(chan event.TypedGenericEvent[*v1alpha1.ConsumerQueue]),
		stopping:               stopping, stop: stop,
		open: map[types.NamespacedName]openConnection{}, owners: map[string]bool{},
	}
}

// Lifetime ends when the manager stops.
func (c *Pool) Lifetime() context.Context { return c.stopping }

// Start waits for the manager to stop, then closes every connection.
func (c *Pool) Start(ctx context.Context) error {
	<-ctx.Done()
	c.stop()
	c.mu.Lock()
	keys := make([]types.NamespacedName, 0, len(c.open))
	for key := range c.open {
		keys = append(keys, key)
	}
	c.mu.Unlock()
	for _, key := range keys {
		c.Close(key)
	}
	return nil
}

// Ensure opens the connection of a BrokerConnection, again if its configuration changed.
func (c *Pool) Ensure(key types.NamespacedName, config rabbit.Config) (Broker, error) {
	fingerprint := config.Fingerprint()
	if found, ok := c.get(key); ok && found.fingerprint == fingerprint {
		c.clearSecretMissing(key)
		return found.broker, nil
	}
	c.Close(key)
	config.Known = c.knows
	c.remember(config.Owner)
	notify := func(notice snapshot.Notice) { c.handleNotice(key, notice) }
	opened, err := c.connect(config, c.logger.WithValues("brokerConnection", key), notify)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[key] = openConnection{broker: opened, fingerprint: fingerprint}
	return opened, nil
}

// remember takes note of an owner: its connections may be listed when its BrokerConnection is gone.
func (c *Pool) remember(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[owner] = true
}

// knows says whether an owner is a BrokerConnection of this manager, or was one since the manager started.
func (c *Pool) knows(owner string) bool {
	c.mu.Lock()
	remembered := c.owners[owner]
	c.mu.Unlock()
	if remembered {
		return true
	}
	list := &v1alpha1.BrokerConnectionList{}
	if err := c.reader.List(c.stopping, list, client.UnsafeDisableDeepCopy); err != nil {
		c.logger.Error(err, "List BrokerConnections")
		return false
	}
	return slices.ContainsFunc(list.Items, func(bc v1alpha1.BrokerConnection) bool { return string(bc.UID) == owner })
}

// Get returns the open connection of a BrokerConnection, nil if there is none.
func (c *Pool) Get(key types.NamespacedName) Broker {
	found, _ := c.get(key)
	return found.broker
}

func (c *Pool) get(key types.NamespacedName) (openConnection, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.open[key]
	return found, ok
}

// GraceLeft says for how much longer an open connection may be used whose Secret is missing; zero if there is none.
func (c *Pool) GraceLeft(key types.NamespacedName, limit time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.open[key]
	if !ok {
		return 0
	}
	if found.secretMissingSince.IsZero() {
		found.secretMissingSince = time.Now()
		c.open[key] = found
	}
	return limit - time.Since(found.secretMissingSince)
}

// clearSecretMissing takes note that the Secret of a connection is there.
func (c *Pool) clearSecretMissing(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.open[key]; ok {
		found.secretMissingSince = time.Time{}
		c.open[key] = found
	}
}

// Close ends a connection, if there is one.
func (c *Pool) Close(key types.NamespacedName) {
	c.mu.Lock()
	found, ok := c.open[key]
	delete(c.open, key)
	c.mu.Unlock()
	if ok {
		found.broker.Close() // not while locked: it waits for a notice that is being handled
	}
}

// handleNotice passes a notice on. A change of health concerns the BrokerConnection, and every ConsumerQueue of it, for
// everything may differ from what they know; otherwise only those with one of the objects are concerned.
func (c *Pool) handleNotice(key types.NamespacedName, notice snapshot.Notice) {
	if notice.Health {
		object := &v1alpha1.BrokerConnection{}
		object.Namespace, object.Name = key.Namespace, key.Name
		select {
		case c.BrokerConnectionEvents <- event.TypedGenericEvent[*v1alpha1.BrokerConnection]{Object: object}:
		case <-c.stopping.Done():
		}
		c.enqueue(key, IndexConnection, key.Name)
	}
	changed := vhost.Selection{Queues: notice.Queues, Exchanges: notice.Exchanges}
	for _, object := range ObjectKeys(changed) {
		c.enqueue(key, IndexBrokerObject, object)
	}
	for _, exchange := range notice.Routes {
		c.enqueue(key, IndexBrokerObject, "route/"+exchange)
	}
}

// enqueue has the ConsumerQueues of a connection reconciled that an index has under a value.
func (c *Pool) enqueue(key types.NamespacedName, index, value string) {
	list := &v1alpha1.ConsumerQueueList{}
	err := c.reader.List(c.stopping, list, client.InNamespace(key.Namespace),
		client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy)
	if err != nil {
		c.logger.Error(err, "List ConsumerQueues", "brokerConnection", key)
		return
	}
	for i := range list.Items {
		if list.Items[i].ConnectionName() != key.Name {
			continue
		}
		select {
		case c.ConsumerQueueEvents <- event.TypedGenericEvent[*v1alpha1.ConsumerQueue]{Object: &list.Items[i]}:
		case <-c.stopping.Done():
			return
		}
	}
}

// Enqueue has one ConsumerQueue reconciled.
func (c *Pool) Enqueue(key client.ObjectKey) {
	object := &v1alpha1.ConsumerQueue{}
	object.Namespace, object.Name = key.Namespace, key.Name
	select {
	case c.ConsumerQueueEvents <- event.TypedGenericEvent[*v1alpha1.ConsumerQueue]{Object: object}:
	case <-c.stopping.Done():
	}
}
