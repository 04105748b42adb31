package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/events"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// eventListener hears what changes in the vhost, so that nobody waits for the next refresh. Connections that share an observation
// hear it once, and take turns when one of them closes. Whatever is missed, or cannot be understood, a refresh finds.
//
// The listener has an AMQP connection of its own, to the vhost of the event exchange.
type eventListener struct {
	config   Config
	dialer   dialer
	log      logr.Logger
	health   *healthState
	requests *refreshRequests
	// matched wakes a listener that has been waiting for AMQP to be matched.
	matched chan struct{}
}

// eventsVHost is where the plugin has its exchange, unless it is configured otherwise.
const eventsVHost = "/"

// listenTo hears the events of a view until the context ends.
func (l *eventListener) listenTo(ctx context.Context, view *view) {
	retry := backoff{first: l.dialer.timeouts.firstRetry, limit: l.dialer.timeouts.lastListen}
	for ctx.Err() == nil {
		if l.health.read().Matched {
			began := time.Now()
			err := view.listening.Hold(ctx, l.dialer.errs, func() error {
				err := l.listen(ctx, view)
				l.ended(ctx, view, err)
				return err
			})
			if err == nil || time.Since(began) > minStableDuration {
				retry.reset()
			}
		}
		timer := time.NewTimer(retry.wait())
		select {
		case <-timer.C:
		case <-l.matched:
			retry.reset()
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// ended takes note that nothing is heard any more.
func (l *eventListener) ended(ctx context.Context, view *view, err error) {
	was, news := view.events.end(err)
	if news && ctx.Err() == nil { // while the broker is unreachable, others say so
		l.log.V(1).Info("No events are heard", "vhost", l.config.VHost, "reason", err.Error())
		view.tellAll(snapshot.Notice{Capabilities: true})
	}
	if was && ctx.Err() == nil { // who leaves the view reads another one
		l.requests.request()
	}
}

// listen subscribes and hears; it returns why that ended.
func (l *eventListener) listen(ctx context.Context, view *view) error {
	connection, subscription, err := l.subscribe(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var marking sync.WaitGroup
	defer func() {
		cancel()
		connection.Close(l.dialer.timeouts.close)
		marking.Wait()
	}()
	view.events.begin()
	view.tellAll(snapshot.Notice{Capabilities: true})
	l.requests.request() // what changed before the subscription
	reached := make(chan int, 1)
	marking.Go(func() { l.mark(ctx, view, subscription, connection, reached) })
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return l.dialer.errs.Fail(brokererr.ErrUnreachable, "the AMQP connection for events was closed")
		}
		view.events.add(batch.Events)
		if !view.takeAll(batch.Changes) {
			l.requests.request()
		}
		if batch.Marker > 0 {
			if view.events.reach(view.lastRead()) {
				view.tellAll(snapshot.Notice{Current: true})
			}
			select {
			case reached <- batch.Marker:
			default: // nobody waits for a marker that the broker repeats
			}
		}
	}
}

// mark makes a marker whenever somebody wants to know that the snapshot is current, one at a time. Without an answer in time the
// connection is closed.
func (l *eventListener) mark(
	ctx context.Context, view *view, subscription *events.Subscription, connection *amqpconn.Conn, reached <-chan int,
) {
	for number := 1; ; number++ {
		select {
		case <-view.events.wanted:
		case <-ctx.Done():
			return
		}
		watchdog := time.AfterFunc(l.dialer.timeouts.operation, connection.CloseSocket)
		view.events.mark()
		if err := subscription.Mark(number); err != nil {
			connection.CloseSocket()
		}
		select {
		case <-reached:
		case <-ctx.Done():
		}
		watchdog.Stop()
	}
}

// subscribe opens the connection for events.
func (l *eventListener) subscribe(ctx context.Context) (*amqpconn.Conn, *events.Subscription, error) {
	options := l.dialer.options
	options.VHost, options.Product, options.Name = l.exchangeVHost(), amqpconn.EventsProduct, "warren events "+l.config.VHost
	connection, err := amqpconn.Dial(ctx, options)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to vhost %q for events: %w", options.VHost, err)
	}
	watchdog := time.AfterFunc(l.dialer.timeouts.operation, connection.CloseSocket)
	defer watchdog.Stop()
	defer context.AfterFunc(ctx, connection.CloseSocket)()
	subscription, err := events.Subscribe(connection, l.config.VHost)
	if err == nil {
		return connection, subscription, nil
	}
	connection.CloseSocket()
	err = l.dialer.errs.OfOperation(err)
	if errors.Is(err, brokererr.ErrNotFound) {
		err = l.dialer.errs.Fail(brokererr.ErrNotFound, "neither vhost %q nor vhost %q has the exchange %s: enable the plugin "+
			"rabbitmq_event_exchange", l.config.VHost, eventsVHost, management.EventExchange)
	}
	return nil, nil, err
}

// exchangeVHost is where the event exchange is to be found: in the vhost itself, or else where it usually is.
func (l *eventListener) exchangeVHost() string {
	if l.health.read().Capabilities.Events {
		return l.config.VHost
	}
	return eventsVHost
}
