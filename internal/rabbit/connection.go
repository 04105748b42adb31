package rabbit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/brokermatch"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
)

type (
	// Health is the state of a connection.
	Health = health.Health
	// Place is how other connections can check where the AMQP connection leads.
	Place = health.Place
)

// drainTimeout is how long Close waits for deletions to undo what they have begun. The next connection finishes the rest; see
// safedelete/recovery.go.
const drainTimeout = 4 * time.Second

// Connection is a connection to one vhost of a broker until Close. Its methods may be called at the same time.
type Connection struct {
	config    Config
	errs      brokererr.Errors
	dialer    brokermatch.Dialer
	places    *brokermatch.PlaceChecker
	log       logr.Logger
	health    *health.State
	notices   *notices
	channels  *amqpconn.Pool
	readAPI   *management.Client // of the refresher
	writeAPI  *management.Client // of deletions, for all their requests
	views     *views
	operators *operatorSurvey
	refresher *refresher
	deleter   *safedelete.Deleter
	refused   refusedLooks

	ctx     context.Context // of the connection, not of a call
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Open starts to connect and to read the vhost, and returns immediately; Health reports the progress. Its only error is that of
// Config.Validate. notify is called with what changed, from one goroutine, one call at a time; it must not call Close.
func Open(config Config, logger logr.Logger, notify func(snapshot.Notice)) (*Connection, error) {
	return open(config, logger, notify, timing.Default)
}

func open(config Config, logger logr.Logger, notify func(snapshot.Notice), timeouts timing.Timeouts) (*Connection, error) {
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
		config.Observations = NewObservations()
	}
	errs := config.errors()
	c := &Connection{
		config: config, errs: errs, log: logger, dialer: brokermatch.Dialer{Options: config.dialOptions(to, timeouts.Dial), Timeouts: timeouts, Errs: errs},
		readAPI:  management.NewClient(config.managementOptions(to, timeouts.Request, 1)),
		writeAPI: management.NewClient(config.managementOptions(to, timeouts.Request, safedelete.RequestLimit)),
		channels: amqpconn.NewPool(errs, timeouts.Operation), notices: newNotices(notify),
	}
	c.places = brokermatch.NewPlaceChecker(errs, c.writeAPI)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.health = health.New(config.VHost, logger, func() { c.notices.add(snapshot.Notice{Health: true}) })
	c.deleter = safedelete.New(safedelete.Settings{
		VHost: config.VHost, Owner: config.Owner, User: config.Username, Errors: errs, Log: logger,
		Standing: &config.Observations.standing, HoldsLease: config.HoldsLease,
		Times: timesOf(timeouts),
	}, deletionBroker{c}, deletionBroker{c}, c.writeAPI)
	c.views = &views{
		observations: config.Observations, lifetime: c.ctx,
		viewer: viewer{
			notify: c.notices.add, isDeleting: c.deleter.IsDeleting, patience: timeouts.Binding,
			silences: retry.Backoff{First: timeouts.Silence, Limit: timeouts.LastListen},
		},
	}
	c.operators = &operatorSurvey{
		config: config, errs: errs, api: c.writeAPI, views: c.views, health: c.health, last: survey{places: management.NewPlaces(1)},
	}
	matcher := brokermatch.New(brokermatch.Settings{
		AMQPURI: config.AMQPURI, ManagementURI: config.ManagementURI, ServerName: config.ServerName, Owner: config.Owner,
		Errors: errs, Timeouts: timeouts, API: c.readAPI, Channels: c.channels, Health: c.health,
	})
	c.refresher = &refresher{
		config: config, errs: errs, timeouts: timeouts, log: logger, api: c.readAPI, health: c.health, notify: c.notices.add, views: c.views,
		matcher: matcher, channels: c.channels,
		operators: c.operators, clearLeftovers: c.deleter.ClearLeftovers,
		requests: &refreshRequests{vhost: config.VHost, wake: make(chan struct{}, 1), closed: c.ctx.Done()},
	}
	listener := &eventListener{
		config: config, dialer: c.dialer, log: logger, health: c.health, requests: c.refresher.requests, matched: matcher.Matched,
	}
	c.views.listen = listener.listenTo
	supervisor := &brokermatch.Supervisor{Dialer: c.dialer, Matcher: matcher, Reconnected: c.refresher.requests.markStale}
	c.running.Go(func() { c.notices.run(c.ctx) })
	c.running.Go(func() { supervisor.Run(c.ctx) })
	c.running.Go(func() { c.refresher.run(c.ctx) })
	return c, nil
}

// Close ends everything, and returns when all goroutines have ended. It may be called more than once.
func (c *Connection) Close() {
	c.deleter.Stop(drainTimeout)
	c.cancel()
	c.running.Wait()
	c.views.listening.Wait()
	c.channels.Running.Wait()
	c.deleter.Close()
	c.readAPI.Close()
	c.writeAPI.Close()
	c.views.close()
}

// Health returns the state of the connection.
func (c *Connection) Health() Health {
	health := c.health.Read()
	health.CurrentAt = health.SyncedAt
	if view := c.views.get(); view != nil {
		since, reason, currentAt := view.events.State()
		health.EventsSince, health.EventsReason = since, reason
		if currentAt.After(health.CurrentAt) {
			health.CurrentAt = currentAt
		}
	}
	return health
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
	return c.views.observe(selection)
}

// Refresh returns after a refresh that began after the call. One refresh serves all callers that wait for it.
func (c *Connection) Refresh(ctx context.Context) error { return c.refresher.requests.wait(ctx) }

// RequestRefresh requests a refresh that begins after the call, and does not wait for it.
func (c *Connection) RequestRefresh() { c.refresher.requests.request() }

// RequestCatchUp requests a snapshot that is current as of the call, and does not wait for it. If events arrive, that takes
// milliseconds; otherwise a refresh does it. On several nodes a refresh does it, too, because their events do not arrive in the
// order of the changes.
func (c *Connection) RequestCatchUp() {
	awaited := c.awaitMarker(func(current bool) {
		if !current {
			c.RequestRefresh()
		}
	})
	if !awaited {
		c.RequestRefresh()
	}
}

// CatchUp is RequestCatchUp that waits until the snapshot is current as of the call.
func (c *Connection) CatchUp(ctx context.Context) error {
	current := make(chan bool, 1)
	if !c.awaitMarker(func(is bool) { current <- is }) {
		return c.Refresh(ctx)
	}
	select {
	case is := <-current:
		if is {
			return nil
		}
	case <-ctx.Done():
		return fmt.Errorf("waiting for the events of vhost %q: %w", c.config.VHost, ctx.Err())
	case <-c.ctx.Done():
		return brokererr.ErrClosed
	}
	return c.Refresh(ctx)
}

// awaitMarker calls tell with whether the snapshot is current as of the call, when events have shown that. It returns false if
// events do not suffice.
func (c *Connection) awaitMarker(tell func(current bool)) bool {
	view := c.views.get()
	return view != nil && c.health.Read().OrdersEvents() && view.events.Await(view.lastRead(), tell)
}
