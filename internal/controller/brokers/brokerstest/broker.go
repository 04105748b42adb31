package brokerstest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Broker is a connection to a vhost in memory. It sees every change of a test immediately. It has the methods of brokers.Broker, and
// methods with which tests change the vhost and make operations fail.
type Broker struct {
	store *snapshot.Store
	owner string
	vhost string
	errs  brokererr.Errors

	mu           sync.Mutex
	health       rabbit.Health
	messages     map[string]int                // by queue
	queueCounts  map[string]rabbit.QueueCounts // except Ready
	stuck        map[string]int64              // dead letters that wait to be routed, by queue
	deadLetters  map[string][]amqp.Delivery    // that Browse shows, by queue
	consumers    map[string]rabbit.Consumers
	refused      map[string]error // why the broker refused the last Browse, by queue
	countedAt    time.Time        // zero if messages are not counted
	uncounted    bool             // if messages are never counted
	failures     map[vhost.ID]error
	interfere    func(*snapshot.Snapshot)
	refreshes    int
	lastDeletion time.Time
}

// New returns a Broker with an empty vhost. The owner is the UID of its BrokerConnection.
func New(version vhost.Version, vhostName, owner string) *Broker {
	store := &snapshot.Store{}
	store.Replace(snapshot.New(), "")
	return &Broker{
		store: store, owner: owner, vhost: vhostName, errs: brokererr.Errors{VHost: vhostName},
		messages: map[string]int{}, queueCounts: map[string]rabbit.QueueCounts{}, stuck: map[string]int64{},
		deadLetters: map[string][]amqp.Delivery{}, consumers: map[string]rabbit.Consumers{}, refused: map[string]error{},
		countedAt: time.Now(), failures: map[vhost.ID]error{},
		health: rabbit.Health{
			Version: version.String(), ClusterName: "rabbit@memory", Cluster: vhost.Cluster{Name: "rabbit@memory", Endpoint: "memory:5672"},
			Place:     rabbit.Place{Address: "memory:5672"},
			Connected: true, Matched: true, SyncedAt: time.Now(), CurrentAt: time.Now(),
		},
	}
}

// Change changes the vhost as another client would.
func (b *Broker) Change(change func(*snapshot.Snapshot)) {
	b.store.Write(snapshot.Write{Apply: func(s *snapshot.Snapshot) bool {
		change(s)
		return true
	}})
}

// LeaveFence replaces the vhost with one that has no objects, only a fence that no deletion needs.
func (b *Broker) LeaveFence(fence vhost.Policy) {
	fresh := snapshot.New()
	fresh.Fences = []vhost.Policy{fence}
	b.store.Replace(fresh, "")
}

// SetHealth changes the health of the connection.
func (b *Broker) SetHealth(change func(*rabbit.Health)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.health)
}

// Stats returns the numbers that Warren's metrics report.
func (b *Broker) Stats() rabbit.Stats {
	health := b.Health()
	stats := rabbit.Stats{AMQPUp: health.Connected, ManagementUp: health.Err == nil, SyncedAt: health.SyncedAt, ResyncInterval: time.Minute}
	b.store.View(func(s *snapshot.Snapshot) { stats.Size = s.Size() })
	return stats
}

// Messages returns how many messages the queues have.
func (b *Broker) Messages(queues []string) rabbit.Messages {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.uncounted || b.countedAt.IsZero() {
		return rabbit.Messages{Disabled: b.uncounted}
	}
	found := rabbit.Messages{AsOf: b.countedAt, Of: map[string]int64{}, Stuck: map[string]int64{}}
	b.store.View(func(s *snapshot.Snapshot) {
		for _, queue := range queues {
			_, exists := s.Queues[queue]
			switch {
			case exists && b.messages[queue] < 0:
				found.Uncounted = append(found.Uncounted, queue)
			case exists:
				found.Of[queue] = int64(b.messages[queue])
				if b.stuck[queue] > 0 {
					found.Stuck[queue] = b.stuck[queue]
				}
			}
		}
	})
	return found
}

// SetCountedAt sets when messages were counted. With the zero time no count is known.
func (b *Broker) SetCountedAt(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.countedAt = at
}

// DisableCounts turns message counts off, as management_agent.disable_metrics_collector does.
func (b *Broker) DisableCounts() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uncounted = true
}

// SetMessages sets how many messages a queue has. A negative number means that the queue does not answer.
func (b *Broker) SetMessages(queue string, count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages[queue] = count
}

// SetStuck sets how many dead letters of a queue wait to be routed.
func (b *Broker) SetStuck(queue string, count int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stuck[queue] = count
}

// Fail makes every operation on an object fail with an error, until it is called again with nil.
func (b *Broker) Fail(id vhost.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[id] = err
}

// FailAll makes every operation fail with an error, until it is called again with nil.
func (b *Broker) FailAll(err error) { b.Fail(vhost.ID{}, err) }

// Refreshes returns how often the vhost was refreshed.
func (b *Broker) Refreshes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refreshes
}

// Owner returns the UID of the BrokerConnection.
func (b *Broker) Owner() string { return b.owner }

// VHost returns the name of the vhost.
func (b *Broker) VHost() string { return b.vhost }

// LeadsTo reports whether another connection has the same address and cluster.
func (b *Broker) LeadsTo(_ context.Context, other rabbit.Health) (bool, error) {
	here := b.Health()
	return here.Place.Address == other.Place.Address && here.Cluster.Is(other.Cluster), nil
}

// Health returns the health of the connection.
func (b *Broker) Health() rabbit.Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}

// Observe returns the selected objects of the vhost.
func (b *Broker) Observe(selection vhost.Selection) (vhost.Observed, bool) {
	observed, read := b.store.Observe(selection)
	observed.Cluster = b.Health().Cluster.Key()
	return observed, read
}

// Refresh counts a refresh and sets its time.
func (b *Broker) Refresh(ctx context.Context) error {
	b.RequestRefresh()
	return errors.Join(ctx.Err(), b.Health().Err)
}

// RequestRefresh counts a refresh and sets its time.
func (b *Broker) RequestRefresh() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refreshes++
	b.health.SyncedAt = time.Now()
	b.health.CurrentAt = b.health.SyncedAt
}

// RequestCatchUp counts a refresh, as RequestRefresh does.
func (b *Broker) RequestCatchUp() { b.RequestRefresh() }

// CatchUp sets the time as of which the snapshot is current. It first applies the change of Interfere.
func (b *Broker) CatchUp(ctx context.Context) error {
	b.applyInterference()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.health.CurrentAt = time.Now()
	return errors.Join(ctx.Err(), b.health.Err)
}

// Interfere makes another client change the vhost once, at the beginning of the next Apply or CatchUp.
func (b *Broker) Interfere(change func(*snapshot.Snapshot)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.interfere = change
}

func (b *Broker) applyInterference() {
	b.mu.Lock()
	change := b.interfere
	b.interfere = nil
	b.mu.Unlock()
	if change != nil {
		b.Change(change)
	}
}

// Apply declares and binds, as rabbit.Connection.Apply does.
func (b *Broker) Apply(_ context.Context, changes topology.Topology) error {
	b.applyInterference()
	var failures []error
	failed := vhost.IDs{}
	perform := func(op string, id vhost.ID, operation func(*snapshot.Snapshot) error) {
		if err := b.perform(op, id, operation); err != nil {
			failures = append(failures, err)
			failed[id] = true
		}
	}
	for _, exchange := range changes.Exchanges {
		if exchange.Declare {
			perform(brokererr.OpDeclare, exchange.ID(), func(s *snapshot.Snapshot) error { return b.declareExchange(s, exchange) })
		}
	}
	for _, queue := range changes.Queues {
		perform(brokererr.OpDeclare, queue.ID(), func(s *snapshot.Snapshot) error { return b.declareQueue(s, queue) })
	}
	for _, binding := range changes.Bindings {
		if !failed.HasEitherEnd(binding.ID()) {
			perform(brokererr.OpBind, binding.ID(), func(s *snapshot.Snapshot) error { return b.bind(s, binding) })
		}
	}
	return errors.Join(failures...)
}

// perform returns a failure as an ObjectError.
func (b *Broker) perform(op string, id vhost.ID, operation func(*snapshot.Snapshot) error) error {
	b.mu.Lock()
	err := cmp.Or(b.failures[id], b.failures[vhost.ID{}])
	b.mu.Unlock()
	if err == nil {
		b.store.Write(snapshot.Write{ID: id, Apply: func(s *snapshot.Snapshot) bool {
			err = operation(s)
			return err == nil
		}})
	}
	if err == nil {
		return nil
	}
	id.Arguments = ""
	return &brokererr.ObjectError{Op: op, ID: id, VHost: b.vhost, Err: err}
}

func (b *Broker) declareExchange(s *snapshot.Snapshot, exchange topology.Exchange) error {
	existing, exists := s.Exchange(exchange.Name)
	if exists && existing.Type != string(exchange.Type) {
		return b.errs.Fail(brokererr.ErrPreconditionFailed, "inequivalent arg 'type' for exchange '%s'", exchange.Name)
	}
	s.PutExchange(exchange.Name, vhost.Exchange{Type: string(exchange.Type), Durable: true})
	return nil
}

func (b *Broker) declareQueue(s *snapshot.Snapshot, queue topology.Queue) error {
	existing, exists := s.Queues[queue.Name]
	if exists && !existing.Arguments.Equal(queue.Arguments) {
		return b.errs.Fail(brokererr.ErrPreconditionFailed, "inequivalent arg for queue '%s'", queue.Name)
	}
	s.PutQueue(queue.Name, vhost.Queue{Durable: true, Arguments: vhost.Normalize(queue.Arguments)})
	return nil
}

func (b *Broker) bind(s *snapshot.Snapshot, binding topology.Binding) error {
	if _, exists := s.Exchange(binding.Source); !exists {
		return b.errs.Fail(brokererr.ErrNotFound, "no exchange '%s'", binding.Source)
	}
	if _, exists := s.Queues[binding.Destination]; !exists {
		return b.errs.Fail(brokererr.ErrNotFound, "no queue '%s'", binding.Destination)
	}
	s.PutBinding(binding.Observed())
	return nil
}

// Remove unbinds and deletes, as rabbit.Connection.Remove does.
func (b *Broker) Remove(_ context.Context, cluster string, removal rabbit.Removal) error {
	health := b.Health()
	if health.OtherInstances != "" {
		return b.errs.Fail(brokererr.ErrShared, "%s", health.OtherInstances)
	}
	elsewhere := b.errs.SameCluster(health.Cluster, cluster)
	var failures []error
	perform := func(op string, id vhost.ID, operation func(*snapshot.Snapshot) error) {
		failures = append(failures, b.perform(op, id, func(s *snapshot.Snapshot) error {
			if elsewhere != nil {
				return elsewhere
			}
			return operation(s)
		}))
	}
	for _, binding := range removal.Bindings {
		perform(brokererr.OpUnbind, binding.ID(), func(s *snapshot.Snapshot) error {
			s.DropBinding(binding.Observed())
			return nil
		})
	}
	for _, name := range removal.Queues {
		perform(brokererr.OpDelete, vhost.QueueID(name), func(s *snapshot.Snapshot) error {
			s.DropQueue(name)
			return nil
		})
	}
	for _, name := range removal.Exchanges {
		perform(brokererr.OpDelete, vhost.ExchangeID(name), func(s *snapshot.Snapshot) error {
			if len(s.BindingsFrom[name]) > 0 {
				return b.errs.Fail(brokererr.ErrInUse, "exchange '%s'", name)
			}
			s.DropExchange(name)
			return nil
		})
	}
	return errors.Join(failures...)
}

// DeleteEmpty deletes either all queues or, if one has messages, none. rabbit.Connection.DeleteEmpty does the same.
func (b *Broker) DeleteEmpty(ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error) error {
	if err := b.errs.SameCluster(b.Health().Cluster, cluster); err != nil {
		return err
	}
	if stillDeletable != nil {
		if err := stillDeletable(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, queue := range queues {
		if err := b.failures[vhost.QueueID(queue)]; err != nil {
			return err
		}
		if count := b.messages[queue]; count != 0 {
			return b.errs.Fail(brokererr.ErrNotEmpty, "queue %q holds %d messages", queue, count)
		}
	}
	b.Change(func(s *snapshot.Snapshot) {
		for _, queue := range queues {
			s.DropQueue(queue)
		}
	})
	b.lastDeletion = time.Now()
	return nil
}

// LastDeletion returns when DeleteEmpty last deleted queues.
func (b *Broker) LastDeletion() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastDeletion
}

// Fences returns the names of the fences of LeaveFence. Deletions in memory need no fences.
func (b *Broker) Fences() (names []string) {
	b.store.View(func(s *snapshot.Snapshot) {
		for _, fence := range s.Fences {
			names = append(names, fence.Name)
		}
	})
	return names
}

// Close does nothing.
func (b *Broker) Close() {}
