package observe

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/brokermatch"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
)

// Settings configure an observer.
type Settings struct {
	VHost, Username, Owner string
	// Broker distinguishes two brokers by their endpoints, and by the settings that decide which certificates are valid.
	Broker string
	// See rabbit.Config for ResyncInterval, MessageCountsInterval and KnownOwners.
	ResyncInterval        time.Duration
	MessageCountsInterval time.Duration
	KnownOwners           func() func(owner string) bool
	// Observations are shared by all observers of the process.
	Observations *Observations

	Errors   brokererr.Errors
	Timeouts timing.Timeouts
	Log      logr.Logger
	Health   *health.State
	// ReadAPI reads the vhost. WriteAPI looks for other instances.
	ReadAPI, WriteAPI *management.Client
	Channels          *amqpconn.Pool
	Matcher           *brokermatch.Matcher
	Dialer            brokermatch.Dialer

	// Notify receives notices of changes. It must not block.
	Notify func(snapshot.Notice)
	// IsDeleting reports whether the connection is deleting a queue. ClearLeftovers is called after each refresh with the time at which the
	// refresh began.
	IsDeleting     func(queue string) bool
	ClearLeftovers func(read time.Time)
}

// Observer observes the vhost of one connection. It is safe for concurrent use.
type Observer struct {
	Settings
	*views
	*refreshRequests
	*otherInstances

	refresher *refresher
}

// New returns an Observer that works until its lifetime ends.
func New(lifetime context.Context, settings Settings) *Observer {
	requests := &refreshRequests{vhost: settings.VHost, wake: make(chan struct{}, 1), closed: lifetime.Done()}
	listener := &eventListener{Settings: settings, requests: requests}
	views := newViews(lifetime, settings, listener.listenTo)
	instances := &otherInstances{Settings: settings, views: views, last: survey{listing: retry.NewSlots(1)}}
	refresher := &refresher{Settings: settings, views: views, instances: instances, requests: requests}
	return &Observer{Settings: settings, views: views, refreshRequests: requests, otherInstances: instances, refresher: refresher}
}

// Run refreshes the vhost until the context ends, and returns when all goroutines have ended.
func (o *Observer) Run(ctx context.Context) {
	o.refresher.run(ctx)
	o.listening.Wait()
}

// State returns the state of the connection, including the state of events.
func (o *Observer) State() health.Health {
	state := o.Health.Read()
	state.CurrentAt = state.SyncedAt
	if view := o.get(); view != nil {
		since, reason, currentAt := view.events.State()
		state.EventsSince, state.EventsReason = since, reason
		if currentAt.After(state.CurrentAt) {
			state.CurrentAt = currentAt
		}
	}
	return state
}

// RequestCatchUp requests a snapshot that is current as of the call, and does not wait for it. If events arrive, the snapshot is current
// within milliseconds. A refresh is needed without events, and in a cluster of several nodes, whose events do not arrive in the order of
// the changes.
func (o *Observer) RequestCatchUp() {
	awaited := o.awaitMarker(func(current bool) {
		if !current {
			o.RequestRefresh()
		}
	})
	if !awaited {
		o.RequestRefresh()
	}
}

// CatchUp is RequestCatchUp, but waits until the snapshot is current as of the call.
func (o *Observer) CatchUp(ctx context.Context) error {
	current := make(chan bool, 1)
	if !o.awaitMarker(func(is bool) { current <- is }) {
		return o.Refresh(ctx)
	}
	select {
	case is := <-current:
		if is {
			return nil
		}
	case <-ctx.Done():
		return fmt.Errorf("waiting for the events of vhost %q: %w", o.VHost, ctx.Err())
	case <-o.refreshRequests.closed:
		return brokererr.ErrClosed
	}
	return o.Refresh(ctx)
}

// awaitMarker calls done once events have shown whether the snapshot is current as of the call. It returns false if events do not
// suffice.
func (o *Observer) awaitMarker(done func(current bool)) bool {
	view := o.get()
	return view != nil && o.Health.Read().OrdersEvents() && view.events.Await(view.lastRead(), done)
}
