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
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// Pool holds the connection of each BrokerConnection, which its ConsumerQueues share. It turns the notices of a connection into
// reconciliations of the resources that they concern.
type Pool struct {
	reader  client.Reader
	logger  logr.Logger
	connect Connect

	// BrokerConnectionEvents and ConsumerQueueEvents feed the queues of the controllers.
	BrokerConnectionEvents chan event.TypedGenericEvent[*v1alpha1.BrokerConnection]
	ConsumerQueueEvents    chan event.TypedGenericEvent[QueuedResource]
	// MessageCountEvents has the BrokerConnections in whose vhost messages were counted.
	MessageCountEvents chan event.TypedGenericEvent[*v1alpha1.BrokerConnection]
	// current is called with a connection each time its snapshot becomes current as of a later time; see OnCurrent.
	current func(*Broker)
	// stopping ends when the manager stops. Until then, events wait for the controllers to take them.
	stopping context.Context // of the component, not of a call
	stop     context.CancelFunc

	mu   sync.Mutex
	open map[types.NamespacedName]openConnection
	// owners has the owners of all connections since the manager started; see rabbit.Config.KnownOwners.
	owners map[string]bool
}

// QueuedResource is a ConsumerQueue to enqueue, with a priority of package trigger; zero is the highest.
type QueuedResource struct {
	Resource client.ObjectKey
	Priority int
}

// Connect opens a connection; see rabbit.Open.
type Connect func(config rabbit.Config, logger logr.Logger, notify func(snapshot.Notice)) (*Broker, error)

// ConnectWithin returns a Connect for RabbitMQ. All connections share the limits, and connections that see the same vhost with
// the same rights share their snapshot. The messages of each vhost are counted at most once per interval; never if it is zero. Connections
// delete nothing and change no fence unless the process holds its lease; nil means that it always does.
func ConnectWithin(limits *management.Limits, countsInterval time.Duration, holdsLease func() bool) Connect {
	observations := rabbit.NewObservations()
	return func(config rabbit.Config, logger logr.Logger, notify func(snapshot.Notice)) (*Broker, error) {
		config.Limits, config.Observations, config.MessageCountsInterval = limits, observations, countsInterval
		config.HoldsLease = holdsLease
		opened, err := rabbit.Open(config, logger, notify)
		if err != nil {
			return nil, err
		}
		return &Broker{
			Probe: opened, Observer: opened, Changer: opened, Mover: opened,
			Recreator:       func(cluster string) Recreator { return opened.Recreator(cluster) },
			LostRecreations: func(cluster string) LostRecreations { return opened.Recreator(cluster) },
		}, nil
	}
}

type openConnection struct {
	broker      *Broker
	fingerprint string
	// created is when the BrokerConnection was created.
	created time.Time
	// secretMissingSince is since when the Secret has been missing; zero while it exists.
	secretMissingSince time.Time
	// observable is whether the vhost could be observed at the last notice; see healthConcernsQueues.
	observable bool
}

// NewPool returns a Pool. The manager must run it, so that connections are closed when it stops.
func NewPool(reader client.Reader, logger logr.Logger, connect Connect) *Pool {
	stopping, stop := context.WithCancel(context.Background())
	return &Pool{
		reader: reader, logger: logger, connect: connect,
		BrokerConnectionEvents: make(chan event.TypedGenericEvent[*v1alpha1.BrokerConnection]),
		ConsumerQueueEvents:    make(chan event.TypedGenericEvent[QueuedResource]),
		MessageCountEvents:     make(chan event.TypedGenericEvent[*v1alpha1.BrokerConnection]),
		current:                func(*Broker) {},
		stopping:               stopping, stop: stop,
		open: map[types.NamespacedName]openConnection{}, owners: map[string]bool{},
	}
}

// OnCurrent sets the function that the Pool calls with a connection after each refresh or catch-up, when the snapshot shows a later
// state of the vhost. Call it before the first connection is opened.
func (p *Pool) OnCurrent(current func(*Broker)) { p.current = current }

// Lifetime returns a context that ends when the manager stops.
func (p *Pool) Lifetime() context.Context { return p.stopping }

// Start waits until the manager stops, then closes all connections. Each connection needs up to a few seconds to remove its fences.
// Start closes them concurrently, so that a broker that does not answer does not use up the time of the others.
func (p *Pool) Start(ctx context.Context) error {
	<-ctx.Done()
	p.stop()
	p.mu.Lock()
	open := p.open
	p.open = map[types.NamespacedName]openConnection{}
	p.mu.Unlock()
	var closing sync.WaitGroup
	for _, connection := range open {
		closing.Go(connection.broker.Close) // unlocked, because Close waits for the handler of a notice
	}
	closing.Wait()
	return nil
}

// Ensure returns the connection of a BrokerConnection. It opens the connection first if there is none with this configuration.
// created is when the BrokerConnection was created. The error is ErrTooManyConnections if the older BrokerConnections of the namespace
// have MaxConnections.
func (p *Pool) Ensure(key types.NamespacedName, created time.Time, config rabbit.Config) (*Broker, error) {
	fingerprint := config.Fingerprint()
	if found, ok := p.get(key); ok && found.fingerprint == fingerprint {
		p.clearSecretMissing(key)
		return found.broker, nil
	}
	p.Close(key)
	if err := p.makeRoom(key, created); err != nil {
		return nil, err
	}
	config.KnownOwners = p.knownOwners
	config.Recreates = func(queue string) bool { return p.recreates(key, queue) }
	p.recordOwner(config.Owner)
	notify := func(notice snapshot.Notice) { p.handleNotice(key, notice) }
	opened, err := p.connect(config, p.logger.WithValues("brokerConnection", key), notify)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[key] = openConnection{broker: opened, fingerprint: fingerprint, created: created}
	return opened, nil
}

// recordOwner records an owner, because the broker may list its connections when its BrokerConnection is gone.
func (p *Pool) recordOwner(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owners[owner] = true
}

// knownOwners returns a function that reports whether an owner is a BrokerConnection of this manager, or was one since the
// manager started. The function lists BrokerConnections once, and only for an owner that is not recorded.
func (p *Pool) knownOwners() func(owner string) bool {
	listed := sync.OnceValue(p.listOwners)
	return func(owner string) bool {
		p.mu.Lock()
		recorded := p.owners[owner]
		p.mu.Unlock()
		return recorded || listed()[owner]
	}
}

func (p *Pool) listOwners() map[string]bool {
	list := &v1alpha1.BrokerConnectionList{}
	if err := p.reader.List(p.stopping, list, client.UnsafeDisableDeepCopy); err != nil {
		p.logger.Error(err, "Cannot list BrokerConnections")
	}
	owners := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		owners[string(list.Items[i].UID)] = true
	}
	return owners
}

// recreates reports whether a ConsumerQueue of a BrokerConnection recreates a queue. It returns true if that is not known.
func (p *Pool) recreates(key types.NamespacedName, queue string) bool {
	queues, err := QueuesOf(p.stopping, p.reader, key)
	return err != nil || slices.ContainsFunc(queues, func(cq v1alpha1.ConsumerQueue) bool {
		return cq.Status.Recreation.IsUnderWay() && cq.Status.Recreation.Queue == queue
	})
}

// Get returns the open connection of a BrokerConnection; nil if there is none.
func (p *Pool) Get(key types.NamespacedName) *Broker {
	found, _ := p.get(key)
	return found.broker
}

func (p *Pool) get(key types.NamespacedName) (openConnection, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.open[key]
	return found, ok
}

// OtherNamespaces returns the open connections of other namespaces to vhosts with the name of own's vhost. A value is true if the
// connection was shown to lead to the vhost of own. Connections that were never matched are left out.
func (p *Pool) OtherNamespaces(ctx context.Context, namespace string, own *Broker) (map[client.ObjectKey]bool, error) {
	p.mu.Lock()
	others := map[client.ObjectKey]*Broker{}
	for key, open := range p.open {
		if key.Namespace != namespace && open.broker.VHost() == own.VHost() {
			others[key] = open.broker
		}
	}
	p.mu.Unlock()
	leadHere := map[client.ObjectKey]bool{}
	for key, other := range others {
		health := other.Health()
		if !health.Cluster.Known() {
			continue
		}
		leads, err := own.LeadsTo(ctx, health)
		if err != nil {
			return nil, err
		}
		leadHere[key] = leads
	}
	return leadHere, nil
}

// GraceLeft returns for how much longer a connection may be used whose Secret is missing; zero if there is no connection.
func (p *Pool) GraceLeft(key types.NamespacedName, limit time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.open[key]
	if !ok {
		return 0
	}
	if found.secretMissingSince.IsZero() {
		found.secretMissingSince = time.Now()
		p.open[key] = found
	}
	return limit - time.Since(found.secretMissingSince)
}

// clearSecretMissing records that the Secret of a connection exists.
func (p *Pool) clearSecretMissing(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok := p.open[key]; ok {
		found.secretMissingSince = time.Time{}
		p.open[key] = found
	}
}

// Close closes a connection, if there is one.
func (p *Pool) Close(key types.NamespacedName) {
	p.mu.Lock()
	found, ok := p.open[key]
	delete(p.open, key)
	p.mu.Unlock()
	if ok {
		found.broker.Close() // unlocked, because Close waits for the handler of a notice
	}
}

// handleNotice enqueues the resources that a notice concerns. A change of health concerns the BrokerConnection, and usually all its
// ConsumerQueues. After a count of messages, the controller of ConsumerQueues selects the resources that it concerns.
func (p *Pool) handleNotice(key types.NamespacedName, notice snapshot.Notice) {
	if notice.Health || notice.Capabilities {
		p.sendKey(p.BrokerConnectionEvents, key)
		if notice.Health && p.healthConcernsQueues(key) {
			p.enqueueAll(key)
		}
	}
	if connection := p.Get(key); notice.Current && connection != nil {
		p.current(connection)
	}
	changed := objectKeys(vhost.Selection{Queues: notice.Queues, Exchanges: notice.Exchanges})
	for _, exchange := range notice.Routes {
		changed = append(changed, objectKeys(vhost.Selection{FollowFrom: exchange})...)
	}
	p.enqueueAffected(key, changed)
	if notice.Messages {
		p.sendKey(p.MessageCountEvents, key)
	}
}

// sendKey sends a BrokerConnection that has only its key to a channel.
func (p *Pool) sendKey(events chan<- event.TypedGenericEvent[*v1alpha1.BrokerConnection], key types.NamespacedName) {
	object := &v1alpha1.BrokerConnection{}
	object.Namespace, object.Name = key.Namespace, key.Name
	send(p, events, object)
}

// send sends an object to a channel, unless the manager stops.
func send[T any](p *Pool, events chan<- event.TypedGenericEvent[T], object T) {
	select {
	case events <- event.TypedGenericEvent[T]{Object: object}:
	case <-p.stopping.Done():
	}
}

// healthConcernsQueues reports whether the vhost can be observed now, or could be at the last notice. While a connection opens, its health
// changes several times, and the ConsumerQueues can only wait.
func (p *Pool) healthConcernsQueues(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.open[key]
	if !ok { // it is being opened
		return true
	}
	before := found.observable
	found.observable = found.broker.Health().Observable()
	p.open[key] = found
	return before || found.observable
}

func (p *Pool) enqueueAll(key types.NamespacedName) {
	all := p.list(key, IndexConnection, key.Name)
	for i := range all {
		p.enqueue(QueuedResource{client.ObjectKeyFromObject(&all[i]), trigger.Resync})
	}
}

// enqueueAffected enqueues, once each, the ConsumerQueues of a connection that want or own one of the objects. objects are keys; see
// objectKeys.
func (p *Pool) enqueueAffected(key types.NamespacedName, objects []string) {
	changed := map[string]bool{}
	for _, object := range objects {
		changed[object] = true
	}
	seen := map[client.ObjectKey]bool{}
	for _, bucket := range bucketsOf(objects) {
		found := p.list(key, IndexBrokerObject, bucket)
		for i := range found {
			resource := client.ObjectKeyFromObject(&found[i])
			if found[i].ConnectionName() != key.Name || seen[resource] {
				continue
			}
			seen[resource] = true
			if slices.ContainsFunc(ObjectKeysOf(&found[i]), func(object string) bool { return changed[object] }) {
				p.enqueue(QueuedResource{resource, trigger.Noticed})
			}
		}
	}
}

// list returns the ConsumerQueues that an index has under a value, in the namespace of a connection. The caller must not change
// them.
func (p *Pool) list(key types.NamespacedName, index, value string) []v1alpha1.ConsumerQueue {
	list := &v1alpha1.ConsumerQueueList{}
	err := p.reader.List(p.stopping, list, client.InNamespace(key.Namespace),
		client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy)
	if err != nil {
		p.logger.Error(err, "Cannot list ConsumerQueues", "brokerConnection", key)
		return nil
	}
	return list.Items
}

// Enqueue enqueues a ConsumerQueue that waits, for example for a refresh.
func (p *Pool) Enqueue(key client.ObjectKey) { p.enqueue(QueuedResource{key, trigger.Noticed}) }

func (p *Pool) enqueue(queued QueuedResource) { send(p, p.ConsumerQueueEvents, queued) }
