package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
)

// eventListener receives the events about changes in the vhost, so that no change waits for the next refresh. Connections that
// share an observation have one subscription, and another connection subscribes when the first one closes. The next refresh finds
// changes whose events were missed or could not be decoded.
//
// A broker can accept a subscription but send nothing, because its bindings were removed, the plugin was disabled, or a node treats the
// exchange as unbound. So the feed counts as working only after a marker has arrived, and another marker follows in each period.
//
// The listener has its own AMQP connection, to the vhost of the event exchange.
type eventListener struct {
	Settings
	requests *refreshRequests
}

// eventsVHost is the vhost of the event exchange in the default configuration of the plugin.
const eventsVHost = "/"

// listenTo receives the events of a view until the context ends.
func (l *eventListener) listenTo(ctx context.Context, view *view) {
	again := retry.Backoff{First: l.Timeouts.FirstRetry, Limit: l.Timeouts.LastListen}
	for ctx.Err() == nil {
		if l.Health.Read().Matched {
			began := time.Now()
			// The state of the view has the error already.
			_ = view.listening.Hold(ctx, l.Errors, func() error { return l.listenOnce(ctx, view) })
			if time.Since(began) > timing.MinStable {
				again.Reset()
			}
		}
		if l.sleep(ctx, again.Wait()) {
			again.Reset()
		}
	}
}

// listenOnce receives events until the subscription ends. After silence, it waits until the broker has removed all bindings of the
// exchange. A node that treats the exchange as unbound sends events again only after that, when a new binding is declared.
func (l *eventListener) listenOnce(ctx context.Context, view *view) error {
	err := l.listen(ctx, view)
	l.ended(ctx, view, err)
	if errors.Is(err, eventfeed.ErrSilent) {
		l.sleep(ctx, view.events.Pause())
	}
	return err
}

// sleep waits, and returns early if the context ends or AMQP is matched. It returns true if AMQP was matched.
func (l *eventListener) sleep(ctx context.Context, wait time.Duration) (matched bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.Matcher.Matched:
		return true
	case <-ctx.Done():
	}
	return false
}

// ended records that events no longer arrive.
func (l *eventListener) ended(ctx context.Context, view *view, err error) {
	was, news := view.events.End(err)
	if ctx.Err() != nil {
		return // a connection that leaves the view continues with another one
	}
	if news { // while the broker is unreachable, the health reports that
		level := 1
		if errors.Is(err, eventfeed.ErrSilent) {
			level = 0
		}
		l.Log.V(level).Info("No events arrive from the broker", "vhost", l.VHost, "reason", err.Error())
		view.broadcast(snapshot.Notice{Capabilities: true})
	}
	if was {
		l.requests.RequestRefresh()
	}
}

// listen subscribes and receives events. It returns why the subscription ended.
func (l *eventListener) listen(ctx context.Context, view *view) error {
	connection, subscription, err := l.subscribe(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	reached := make(chan int, 1)
	var watching sync.WaitGroup
	defer func() {
		cancel(nil)
		connection.Close(l.Timeouts.Close)
		watching.Wait()
	}()
	watching.Go(func() { cancel(l.watch(ctx, view, &markers{subscription, connection, reached})) })
	for {
		batch, err := subscription.Next(ctx)
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			return cause
		}
		if err != nil {
			return l.Errors.Fail(brokererr.ErrUnreachable, "the AMQP connection for events was closed")
		}
		view.events.Add(batch)
		if !view.takeAll(batch.Changes, l.Health.Read().OrdersEvents()) {
			l.requests.RequestRefresh()
		}
		if batch.Marker > 0 {
			if view.events.Reach(view.lastRead()) {
				view.broadcast(snapshot.Notice{Current: true})
			}
			select {
			case <-reached: // drop an older marker, or one that the broker repeats
			default:
			}
			reached <- batch.Marker
		}
	}
}

// markers sends the markers of one subscription.
type markers struct {
	subscription *eventfeed.Subscription
	connection   *amqpconn.Conn
	// reached has the numbers of the markers that arrived.
	reached <-chan int
}

// watch sends a marker after the subscription, whenever a caller waits for one, and once per Timeouts.Marker. It returns why the
// subscription must end.
func (l *eventListener) watch(ctx context.Context, view *view, markers *markers) error {
	check := time.NewTicker(l.Timeouts.Event)
	defer check.Stop()
	for number := 1; ; number++ {
		view.events.Mark()
		if err := l.mark(ctx, markers, number); err != nil {
			return err
		}
		if number == 1 {
			view.events.Begin()
			view.broadcast(snapshot.Notice{Capabilities: true})
			l.requests.RequestRefresh() // to read the changes before the subscription
		}
		if err := l.awaitNext(ctx, view, check.C); err != nil {
			return err
		}
	}
}

// awaitNext returns when the next marker is due, or an error if events are silent.
func (l *eventListener) awaitNext(ctx context.Context, view *view, check <-chan time.Time) error {
	due := time.NewTimer(l.Timeouts.Marker)
	defer due.Stop()
	for {
		select {
		case <-view.events.Wanted():
			return nil
		case <-due.C:
			return nil
		case <-check:
			if err := l.findUnannounced(view); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mark sends a marker and waits for its event. It fails with eventfeed.ErrSilent if the event does not arrive although the connection
// works.
func (l *eventListener) mark(ctx context.Context, markers *markers, number int) error {
	if err := l.limited(markers.connection, func() error { return markers.subscription.Mark(number) }); err != nil {
		return l.described(err)
	}
	late := time.NewTimer(l.Timeouts.Event)
	defer late.Stop()
	silent := false
	for reached := 0; reached < number && !silent; {
		select {
		case reached = <-markers.reached:
		case <-late.C:
			silent = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := l.limited(markers.connection, func() error { return markers.subscription.Unmark(number) }); err != nil {
		return l.described(err)
	}
	if silent {
		return l.Errors.Fail(eventfeed.ErrSilent, "no event arrived within %v about a binding that Warren created at exchange %s. "+
			"Warren subscribes again. If this error persists, disable the plugin rabbitmq_event_exchange and enable it again",
			l.Timeouts.Event, management.EventExchange)
	}
	return nil
}

// findUnannounced fails if a refresh found a change that no event announced.
func (l *eventListener) findUnannounced(view *view) error {
	change := view.events.Overdue(l.Timeouts.Event)
	if change == "" {
		return nil
	}
	return l.Errors.Fail(eventfeed.ErrSilent, "a refresh found that %s, and no event announced the change within %v. "+
		"Warren subscribes again. If this error persists, enable the plugin rabbitmq_event_exchange on all nodes", change, l.Timeouts.Event)
}

// limited runs an operation, and closes the connection if the broker does not answer in time.
func (l *eventListener) limited(connection *amqpconn.Conn, operation func() error) error {
	watchdog := time.AfterFunc(l.Timeouts.Operation, connection.CloseSocket)
	defer watchdog.Stop()
	return operation()
}

// subscribe opens the connection for events.
func (l *eventListener) subscribe(ctx context.Context) (*amqpconn.Conn, *eventfeed.Subscription, error) {
	options := l.Dialer.Options
	options.VHost, options.Product, options.Name = l.exchangeVHost(), amqpconn.EventsProduct, "warren events "+l.VHost
	connection, err := amqpconn.Dial(ctx, options)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to vhost %q for events: %w", options.VHost, err)
	}
	defer context.AfterFunc(ctx, connection.CloseSocket)()
	var subscription *eventfeed.Subscription
	err = l.limited(connection, func() (err error) {
		subscription, err = eventfeed.Subscribe(connection, l.VHost)
		return err
	})
	if err != nil {
		connection.CloseSocket()
		return nil, nil, l.described(err)
	}
	return connection, subscription, nil
}

// described classifies an error of an operation for events.
func (l *eventListener) described(err error) error {
	err = l.Errors.OfOperation(err)
	if errors.Is(err, brokererr.ErrNotFound) {
		return l.Errors.Fail(brokererr.ErrNotFound, "neither vhost %q nor vhost %q has the exchange %s: enable the plugin "+
			"rabbitmq_event_exchange", l.VHost, eventsVHost, management.EventExchange)
	}
	return err
}

// exchangeVHost returns the vhost of the event exchange: the vhost itself if it has one, else the default.
func (l *eventListener) exchangeVHost() string {
	if l.Health.Read().Capabilities.Events {
		return l.VHost
	}
	return eventsVHost
}
