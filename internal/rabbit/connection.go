package rabbit

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokermatch"
	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/observe"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

type (
	// Health is the state of a connection.
	Health = health.Health
	// Place identifies the vhost that the AMQP connection leads to.
	Place = health.Place
	// Messages is how many messages queues held when they were last counted.
	Messages = observe.Messages
	// Consumers describes other consumers of a queue.
	Consumers = observe.Consumers
	// Removal is what Connection.Remove removes.
	Removal = change.Removal
	// QueueCounts are the numbers of messages of a queue before a move.
	QueueCounts = mover.QueueCounts
)

// drainTimeout is how long Close waits while running deletions roll back. The next connection completes the rollback; see
// safedelete/recovery.go.
const drainTimeout = 4 * time.Second

// Connection is a connection to one vhost of a broker until Close. It is safe for concurrent use.
type Connection struct {
	config   Config
	log      logr.Logger
	channels *amqpconn.Pool
	readAPI  *management.Client // of refreshes
	writeAPI *management.Client // of deletions, for all their requests
	places   *brokermatch.PlaceChecker
	observer *observe.Observer
	changer  *change.Changer
	deleter  *deleter
	mover    *queueMover
	counter  mover.Counter

	ctx     context.Context // of the connection, not of a call
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Open starts to connect and to read the vhost, and returns immediately; Health reports the progress. It returns only errors of
// Config.Validate. It calls notify with each notice, one at a time and from one goroutine. notify must not call Close.
func Open(config Config, logger logr.Logger, notify func(snapshot.Notice)) (*Connection, error) {
	return OpenWith(config, logger, notify, timing.Default)
}

// OpenWith is Open with other timeouts, for tests.
func OpenWith(config Config, logger logr.Logger, notify func(snapshot.Notice), timeouts timing.Timeouts) (*Connection, error) {
	to, err := config.parse()
	if err != nil {
		return nil, err
	}
	if config.Limits == nil {
		config.Limits = management.NewLimits(0)
	}
	if config.HoldsLease == nil {
		config.HoldsLease = func() bool { return true }
	}
	if config.Observations == nil {
		config.Observations = observe.NewObservations()
	}
	errs := config.errors()
	c := &Connection{
		config: config, log: logger, channels: amqpconn.NewPool(errs, timeouts.Operation),
		readAPI:  management.NewClient(config.managementOptions(to, timeouts.Request, 1)),
		writeAPI: management.NewClient(config.managementOptions(to, timeouts.Request, safedelete.RequestLimit)),
	}
	dialer := brokermatch.Dialer{Options: config.dialOptions(to, timeouts.Dial), Timeouts: timeouts, Errs: errs}
	notices := observe.NewNotices(notify)
	c.places = brokermatch.NewPlaceChecker(errs, c.writeAPI)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	state := health.New(config.VHost, logger, func() { notices.Add(snapshot.Notice{Health: true}) })
	deletions := &deletionBroker{Pool: c.channels, dialer: dialer}
	c.deleter = &deleter{Deleter: safedelete.New(safedelete.Settings{
		VHost: config.VHost, Owner: config.Owner, User: config.Username, Errors: errs, Log: logger,
		Standing: &config.Observations.Standing, KnownOwners: config.KnownOwners, Recreates: config.Recreates,
		HoldsLease: config.HoldsLease, Timeouts: timeouts,
	}, deletions, deletions, c.writeAPI)}
	matcher := brokermatch.New(brokermatch.Settings{
		AMQPURI: config.AMQPURI, ManagementURI: config.ManagementURI, ServerName: config.ServerName, Owner: config.Owner,
		Errors: errs, Timeouts: timeouts, API: c.readAPI, Channels: c.channels, Health: state,
	})
	c.observer = observe.New(c.ctx, observe.Settings{
		VHost: config.VHost, Username: config.Username, Owner: config.Owner, Broker: config.brokerFingerprint(),
		ResyncInterval: config.ResyncInterval, MessageCountsInterval: config.MessageCountsInterval, KnownOwners: config.KnownOwners,
		Observations: config.Observations, Errors: errs, Timeouts: timeouts, Log: logger, Health: state,
		ReadAPI: c.readAPI, WriteAPI: c.writeAPI, Channels: c.channels, Matcher: matcher, Dialer: dialer,
		Notify: notices.Add, IsDeleting: c.deleter.IsDeleting, ClearLeftovers: c.deleter.ClearLeftovers,
	})
	c.changer = &change.Changer{
		VHost: config.VHost, Errors: errs, Channels: c.channels, Observer: c.observer, HoldsLease: config.HoldsLease,
	}
	c.mover = &queueMover{errs: errs, channels: c.channels, dialer: dialer, observer: c.observer, notify: notices.Add}
	c.counter = mover.Counter{Errors: errs, Channels: c.channels, API: c.writeAPI}
	c.deleter.observer, deletions.Observer, deletions.changer = c.observer, c.observer, c.changer
	supervisor := &brokermatch.Supervisor{Dialer: dialer, Matcher: matcher, Reconnected: c.observer.MarkStale}
	c.running.Go(func() { notices.Run(c.ctx) })
	c.running.Go(func() { supervisor.Run(c.ctx) })
	c.running.Go(func() { c.observer.Run(c.ctx) })
	return c, nil
}

// Parts are the parts of a connection, for tests of their packages.
type Parts struct {
	Observer *observe.Observer
	Deleter  *safedelete.Deleter
	Channels *amqpconn.Pool
	// ReadAPI is the client of refreshes, and API the client of deletions.
	ReadAPI, API *management.Client
}

// Parts returns the parts of the connection, for tests of their packages.
func (c *Connection) Parts() Parts {
	return Parts{Observer: c.observer, Deleter: c.deleter.Deleter, Channels: c.channels, ReadAPI: c.readAPI, API: c.writeAPI}
}

// Close closes the connection, and returns when all its goroutines have ended. It may be called more than once.
func (c *Connection) Close() {
	c.deleter.Stop(drainTimeout)
	c.cancel()
	c.running.Wait()
	c.channels.Running.Wait()
	c.deleter.Close()
	c.places.Close()
	c.readAPI.Close()
	c.writeAPI.Close()
	c.observer.Close()
}

// Health returns the state of the connection.
func (c *Connection) Health() Health { return c.observer.State() }

// Stats returns the values of the metrics.
func (c *Connection) Stats() Stats {
	return statsOf(c.config, c.observer, c.deleter.Deleter, c.channels.Limit())
}

// VHost returns the name of the vhost.
func (c *Connection) VHost() string { return c.config.VHost }

// Owner returns Config.Owner.
func (c *Connection) Owner() string { return c.config.Owner }

// LeadsTo reports whether another connection, with this health and to a vhost of the same name, was shown to lead to the vhost of
// this connection.
func (c *Connection) LeadsTo(ctx context.Context, other Health) (bool, error) {
	return c.places.LeadsTo(ctx, c.Health(), other)
}

// Observe returns the selected objects of the vhost from the snapshot in memory; false before the first refresh. It includes the
// exchanges that can be reached from selection.FollowFrom, with their bindings.
func (c *Connection) Observe(selection vhost.Selection) (vhost.Observed, bool) {
	return c.observer.Observe(selection)
}

// Refresh returns after a refresh that began after the call. One refresh serves all callers that wait for it.
func (c *Connection) Refresh(ctx context.Context) error { return c.observer.Refresh(ctx) }

// RequestRefresh requests a refresh that begins after the call, and does not wait for it.
func (c *Connection) RequestRefresh() { c.observer.RequestRefresh() }

// RequestCatchUp requests a snapshot that is current as of the call, and does not wait for it.
func (c *Connection) RequestCatchUp() { c.observer.RequestCatchUp() }

// CatchUp is RequestCatchUp, but waits until the snapshot is current as of the call.
func (c *Connection) CatchUp(ctx context.Context) error { return c.observer.CatchUp(ctx) }

// Messages returns how many messages queues held when they were last counted.
func (c *Connection) Messages(queues []string) Messages { return c.observer.Messages(queues) }

// Consumers describes other consumers of a queue. Call it after each count to keep the queue in the counts; see Notice.Messages.
func (c *Connection) Consumers(queue string) Consumers { return c.observer.Consumers(queue) }

// RefusedBrowse returns why the broker refused the last browse of a queue; nil if it did not.
func (c *Connection) RefusedBrowse(queue string) error {
	err, _ := c.mover.refused.Load(queue)
	refused, _ := err.(error)
	return refused
}

// Apply declares the exchanges and queues of a topology, and binds its bindings; see change.Changer.
func (c *Connection) Apply(ctx context.Context, changes topology.Topology) error {
	return c.changer.Apply(ctx, changes)
}

// Remove unbinds and deletes; see change.Changer. cluster is the key of the identity that the cluster of the broker must have.
func (c *Connection) Remove(ctx context.Context, cluster string, removal Removal) error {
	return c.changer.Remove(ctx, cluster, removal)
}

// DeleteEmpty deletes queues that are provably empty; see safedelete.Deleter. cluster is as for Remove.
func (c *Connection) DeleteEmpty(
	ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error,
) error {
	return c.deleter.DeleteEmpty(ctx, cluster, queues, stillDeletable)
}

// Fences returns the names of this Owner's fences: the policies of running deletions, and the policies that the last refresh
// showed. Each refresh removes fences that a crash has left behind.
func (c *Connection) Fences() []string { return c.deleter.Fences() }

// LastDeletion returns when DeleteEmpty last deleted queues; zero if it never did.
func (c *Connection) LastDeletion() time.Time { return c.deleter.LastDeletion() }

// Recreator recreates queues on the cluster with this key.
func (c *Connection) Recreator(cluster string) *recreate.Recreator {
	broker := recreationBroker{c.channels, c.observer, c.changer, c.mover, c.deleter, c.ctx}
	return recreate.New(recreate.Settings{
		Cluster: cluster, VHost: c.config.VHost, Username: c.config.Username, Owner: c.config.Owner, Errors: c.config.errors(), Log: c.log,
	}, broker, broker, c.deleter, c.writeAPI)
}

// Move moves messages out of a queue; see mover.Run. It opens its own AMQP connections to the cluster with this key, and
// sets Dial and Errs of the configuration.
func (c *Connection) Move(ctx context.Context, cluster string, config mover.Config) (mover.Progress, error) {
	return c.mover.Move(ctx, cluster, config)
}

// Browse shows the messages of a queue; see mover.Browse and Move.
func (c *Connection) Browse(ctx context.Context, cluster string, config mover.BrowseConfig) (mover.Browsed, error) {
	return c.mover.Browse(ctx, cluster, config)
}

// CountQueue counts the messages of a queue of this type on the cluster with this key; false if there is no such queue. If other clients
// may hold messages, it waits until the broker has counted these.
func (c *Connection) CountQueue(ctx context.Context, cluster, queue, queueType string) (counted QueueCounts, exists bool, err error) {
	return c.counter.Count(ctx, cluster, queue, queueType)
}
