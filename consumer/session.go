package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// session is one channel with its deliveries. It ends with the channel, so a late result never settles a delivery of another
// channel that has the same tag.
type session struct {
	consumer   *Consumer
	id         string
	settings   *settings
	contract   contract.Contract
	connection transport.Connection
	isIsolated bool // connection is the consumer's own
	channel    transport.ConsumingChannel
	acker      *acker
	inbox      chan arrival // deliveries that no worker has received
	closed     chan *amqp.Error
	cancelled  chan string
	over       chan error // why the session ended

	values   context.Context // of Run; never ends
	ctx      context.Context // of handlers and copies
	cancel   context.CancelCauseFunc
	starting context.Context // ends when no further delivery is handled, always before ctx
	stop     context.CancelFunc
	stopped  <-chan struct{} // of starting

	active atomic.Int64 // deliveries that a worker has received and that are not settled
	idle   chan struct{}

	slots     chan struct{}
	gathering chan struct{} // held by the worker that collects a batch

	mu      sync.Mutex
	pending []pendingSettlement

	// subscribing is held during basic.consume and basic.cancel, and guards the next fields. It is no Mutex, because the clock of
	// testing/synctest stops while a goroutine waits for one.
	subscribing     chan struct{}
	received        chan struct{} // closed when all deliveries of the subscription are in inbox; nil while not subscribed
	subscribed      int           // the window of the subscription; 0 while not subscribed
	subscriptions   int           // how many consumer tags were used
	lateSettlements int64         // how many acks and returns may follow the last basic.cancel
	qos             int           // the prefetch of the next basic.consume
	limiterPauses   atomic.Bool   // the session does not consume until the limiter grants permission
}

// arrival is a delivery with the time of its arrival. The broker measures the consumer timeout from then on.
type arrival struct {
	amqp.Delivery

	at time.Time
}

// open opens a channel and subscribes to the queue.
func (c *Consumer) open(ctx context.Context, current contract.Contract, given *settings) (*session, error) {
	dialing, cancel := context.WithTimeoutCause(ctx, connectTimeout, errConnectTimeout)
	defer cancel()
	shared, isOwn := c.connection()
	connection, err := shared.get(dialing)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	c.compareVirtualHosts(connection, current, given.logger)
	stopLimit := context.AfterFunc(limit, connection.Kill) // channel requests have no timeout of their own
	defer stopLimit()
	closed, cancelled := make(chan *amqp.Error, 1), make(chan string, 1)
	channel, err := connection.ConsumingChannel(closed, cancelled)
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	s := &session{
		consumer: c, id: rand.Text()[:10], settings: given, contract: current, connection: connection, isIsolated: isOwn, channel: channel,
		acker: newAcker(channel, given.prefetch), closed: closed, cancelled: cancelled, over: make(chan error, 1),
		idle: make(chan struct{}, 1), slots: c.slots,
		inbox: make(chan arrival, given.prefetch), gathering: make(chan struct{}, 1), subscribing: make(chan struct{}, 1),
	}
	s.values = context.WithoutCancel(ctx)
	s.ctx, s.cancel = context.WithCancelCause(s.values)
	s.starting, s.stop = context.WithCancel(s.ctx)
	s.stopped = s.starting.Done()
	c.setState(StateDeclaringQoS, nil)
	if err := channel.Qos(given.prefetch, 0, false); err != nil {
		s.lose(err)
		return nil, fmt.Errorf("set prefetch: %w", err)
	}
	s.qos = given.prefetch
	c.setState(StateConsuming, nil)
	stopLimit() // adjust has its own limit
	if err := s.adjust(); err != nil {
		s.lose(err)
		return nil, consumeError(err, current)
	}
	return s, nil
}

// virtualHosts is what compareVirtualHosts has compared.
type virtualHosts struct {
	connection transport.Connection
	queue      string
	ofContract string
}

// compareVirtualHosts warns once for each connection and contract that name different virtual hosts. It is no error, because
// contract.Default names "/" wherever the queue is.
func (c *Consumer) compareVirtualHosts(connection transport.Connection, current contract.Contract, logger *slog.Logger) {
	compared := virtualHosts{connection, current.Queue, current.VirtualHost}
	if compared == c.virtualHosts {
		return
	}
	c.virtualHosts = compared
	if connected := connection.VirtualHost(); connected != "" && connected != current.VirtualHost {
		logger.Warn("The contract names another virtual host than the URI; the consumer uses the queue in the virtual host of the URI",
			"queue", current.Queue, "contract_virtual_host", current.VirtualHost, "uri_virtual_host", connected)
	}
}

// tag returns the consumer tag. RabbitMQ allows 255 bytes.
func (s *session) tag() string {
	name := s.consumer.conn.name
	return fmt.Sprintf("%s %s %d", name[:min(len(name), 200)], s.id, s.subscriptions)
}

func (s *session) startWorkers() {
	s.consumer.workers.current.Store(s)
	go s.acker.run()
	go s.watch()
	for range s.settings.concurrency {
		go (&worker{session: s}).run()
	}
}

// watch sends the reason for the end of the session to over.
func (s *session) watch() {
	select {
	case reply := <-s.closed:
		s.over <- s.closedBy(reply)
	case _, cancelled := <-s.cancelled:
		if cancelled {
			s.over <- errCancelled
		} else { // amqp091-go closes both
			s.over <- s.closedBy(<-s.closed)
		}
	case <-s.ctx.Done():
	}
}

var (
	errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted, lost its leader, or the consumer timeout passed")
	errClosed    = errors.New("the connection was closed by this program")
)

func (s *session) closedBy(reply *amqp.Error) error {
	if reply == nil {
		return errClosed
	}
	return consumeError(fmt.Errorf("the channel was closed: %w", reply), s.contract)
}

// lose ends a session whose messages the broker takes back or has taken back.
func (s *session) lose(cause error) {
	s.invalidate(cause)
	_ = s.withTimeout(closeTimeout, s.closeChannel) // the broker may have closed it
}

// invalidate makes a session settle nothing any more, and ends the contexts of its handlers and copies.
func (s *session) invalidate(cause error) {
	s.stop()
	s.acker.close()
	s.consumer.workers.current.CompareAndSwap(s, nil)
	s.cancel(cause)
}

// settle carries out the decision of the current contract about a delivery: the exchanges of the contract at the delivery may be deleted.
// Publishing a copy and waiting happen in other goroutines. Like finish, settle may end the goroutine.
func (s *session) settle(d *Delivery, o contract.Outcome, failure error, began time.Time) {
	var refused map[string]error
	if o.Result != contract.ResultSucceeded {
		refused = d.readHeaders()
		o.CopyID = fmt.Sprintf("%s-%d", s.id, d.Raw.DeliveryTag)
		o.Client = s.consumer.conn.name
	}
	end := Settlement{
		Delivery: d, Context: d.handlerValues(s.values), Result: o.Result, Action: s.consumer.contract.Load().Decide(d.facts, o),
		Err: failure, Took: time.Since(began),
	}
	switch {
	case end.Action.Verb == contract.VerbPublish:
		s.consumer.logRefusedHeaders(d, refused)
		go s.settleByCopy(end, o)
	case end.Action.Wait > 0:
		go s.settleLater(end)
	default:
		s.finish(end, s.send(d, end.Action.Verb))
	}
}

func (s *session) settleByCopy(end Settlement, o contract.Outcome) {
	var err error
	end.Action, err = s.forward(end.Delivery, o, end.Action)
	s.finish(end, err)
}

func (s *session) settleLater(end Settlement) {
	s.waitUnlessStopped(min(time.Duration(end.Action.Wait), time.Until(s.settings.returnDeadline(end.Delivery))))
	s.finish(end, s.send(end.Delivery, end.Action.Verb))
}

// isLost reports whether the broker has taken the session's messages back.
func (s *session) isLost() bool {
	cause := context.Cause(s.ctx)
	return cause != nil && !errors.Is(cause, ErrDraining)
}

// isStopped reports whether the session starts no further delivery.
func (s *session) isStopped() bool { return s.starting.Err() != nil }

// send settles a delivery with a verb. After the session has stopped, messages are returned only after basic.cancel.
func (s *session) send(d *Delivery, verb contract.Verb) error {
	if returns := verb == contract.VerbRequeue || verb == contract.VerbReturn; returns && s.isStopped() {
		s.settleAfterCancel(d.Raw.DeliveryTag, verb)
		if s.isLost() {
			return errStale
		}
		return nil
	}
	return s.settleNow(d.Raw.DeliveryTag, verb)
}

func (s *session) settleNow(tag uint64, verb contract.Verb) error {
	switch verb {
	case contract.VerbReject:
		return s.acker.reject(tag, false)
	case contract.VerbRequeue:
		return s.acker.reject(tag, true)
	case contract.VerbReturn:
		return s.acker.returnMessage(tag)
	case contract.VerbAck, contract.VerbPublish:
	}
	return s.acker.ack(tag)
}

// waitUnlessStopped waits, or returns early when the session stops.
func (s *session) waitUnlessStopped(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopped:
	}
}

// parkingTimeout is for how long the consumer tries to publish a copy to the dead-letter queue before it rejects the message
// instead.
const parkingTimeout = 30 * time.Second

// forward publishes the copy of a delivery, acks the original, and returns the action that was carried out. Meanwhile the original
// stays unacked. After an error, forward publishes the copy again, by the rules of the current contract, until the session ends. Shortly
// before the consumer timeout it returns the message to the queue, because the broker would otherwise take back all messages of the
// channel.
func (s *session) forward(d *Delivery, o contract.Outcome, a contract.Action) (contract.Action, error) {
	defer s.consumer.status.clearWaitingCopy(d)
	// Give the copy a short time even if the handler returned late. Otherwise the consumer would return the message to the queue, and
	// the failure would not count as an attempt.
	deadline := later(s.settings.returnDeadline(d), time.Now().Add(s.settings.brokerTimeout/40))
	ctx, cancel := context.WithDeadlineCause(s.ctx, deadline, errTooLate)
	defer cancel()
	began, retry, unknown, alone := time.Now(), backoff{}, 0, false
	message, facts, unchanged := d.Raw, d.facts, false
	for a.Verb == contract.VerbPublish {
		switch {
		case s.ctx.Err() != nil:
			return a, errStale
		case ctx.Err() != nil:
			return contract.Action{Verb: contract.VerbReturn, Kind: a.Kind}, s.send(d, contract.VerbReturn)
		}
		err := s.publish(ctx, d, message, a, alone)
		switch {
		case err == nil:
			return a, s.send(d, contract.VerbAck)
		case isNeverAccepted(err) && !a.GivenUp: // another attempt cannot succeed
			o.Result = contract.ResultPermanent
		case isNeverAccepted(err) && !unchanged: // the changes of the handler may be the reason
			message, facts.Headers, unchanged = d.delivered, d.delivered.Headers, true
		case isRefusal(err):
			s.consumer.status.recordWaitingCopy(d, err)
			if a.Otherwise != "" && time.Since(began) >= parkingTimeout {
				otherwise := contract.Action{Verb: a.Otherwise, Kind: a.Kind, GivenUp: a.GivenUp}
				return otherwise, s.send(d, a.Otherwise)
			}
			notify(s.consumer.contractChecks) // a new contract may have replaced a missing tier
			sleep(ctx, retry.next())
		case errors.As(err, new(*UnknownOutcomeError)):
			if unknown++; unknown > 1 { // the first time, publish again immediately
				s.consumer.status.recordWaitingCopy(d, err)
				sleep(ctx, retry.next())
				alone = preconditionFailed(err) != nil // the copy may be why the broker closed the channel
			}
		default:
			s.consumer.status.recordWaitingCopy(d, err)
			sleep(ctx, retry.next())
		}
		a = s.consumer.contract.Load().Decide(facts, o)
	}
	return a, s.send(d, a.Verb)
}

// publish publishes the copy of a delivery that has the content of a message.
func (s *session) publish(ctx context.Context, d *Delivery, message amqp.Delivery, a contract.Action, alone bool) error {
	began := time.Now()
	err := s.consumer.conn.copies.publish(ctx, *a.Route, copyOf(message, a, s.connection.MaxFrame()), alone)
	s.consumer.reportPublished(Publication{
		Delivery: d, Context: d.handlerValues(s.values), Route: *a.Route, Err: err, Took: time.Since(began),
	})
	return err
}

// finish reports the end of a delivery. err is not nil if the delivery could not be settled. It calls functions of the application,
// which may end this goroutine with runtime.Goexit; the deferred calls still run. A goroutine for each message would cost too much.
func (s *session) finish(end Settlement, err error) {
	defer s.deliveryDone()
	if release := end.Delivery.release; release != nil {
		defer s.consumer.logEnd(releaseName, release)
	}
	end.Stale = err != nil
	s.consumer.reportSettled(end)
}

// deliveryDone counts a delivery as done and signals idle after the last one.
func (s *session) deliveryDone() {
	if s.active.Add(-1) == 0 {
		notify(s.idle)
	}
}
