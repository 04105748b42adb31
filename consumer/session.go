package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// session is the life of one channel. Whatever belongs to a delivery of the channel ends with it: a late result finds no channel
// where its tag could mean another delivery.
type session struct {
	consumer   *Consumer
	id         string
	settings   *settings
	contract   contract.Contract
	connection transport.Connection
	channel    transport.Channel
	acker      *acker
	inbox      chan arrival // deliveries that no worker has taken
	closed     chan *amqp.Error
	cancelled  chan string
	over       chan error // how the session ended

	ctx     context.Context // of handlers and copies
	cancel  context.CancelCauseFunc
	stopped chan struct{} // closed: nothing more is started
	stop    func()

	active atomic.Int64 // deliveries at work, copies included
	idle   chan struct{}

	slots chan struct{}

	mu      sync.Mutex
	pending []pendingSettlement

	subscribing     sync.Mutex    // held while the broker is asked to begin or to end sending; guards the next fields
	received        chan struct{} // closed when all deliveries of the subscription are in the inbox; nil if the consumer is not subscribed
	consumingPaused atomic.Bool   // the subscription is cancelled until the limiter grants
}

// arrival is a delivery with the time of its arrival, from which the broker counts the consumer timeout.
type arrival struct {
	amqp.Delivery

	at time.Time
}

// open opens a channel and consumes.
func (c *Consumer) open(ctx context.Context, current contract.Contract, given *settings) (*session, error) {
	dialing, cancel := context.WithTimeoutCause(ctx, connectTimeout, errConnectTimeout)
	defer cancel()
	connection, err := c.conn.consuming.get(dialing)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	defer context.AfterFunc(limit, connection.Kill)() // requests have no limit of their own; other consumers use the connection, too
	channel, err := connection.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	s := &session{
		consumer: c, id: rand.Text()[:10], settings: given, contract: current, connection: connection, channel: channel,
		acker:  newAcker(channel, given.prefetch),
		closed: channel.NotifyClose(make(chan *amqp.Error, 1)), cancelled: channel.NotifyCancel(make(chan string, 1)),
		over: make(chan error, 1), stopped: make(chan struct{}), idle: make(chan struct{}, 1), slots: c.slots,
		inbox: make(chan arrival, given.prefetch),
	}
	s.stop = sync.OnceFunc(func() { close(s.stopped) })
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.setState(StateDeclaringQoS, nil)
	if err := channel.Qos(given.prefetch, 0, false); err != nil {
		s.lose(err)
		return nil, fmt.Errorf("set prefetch: %w", err)
	}
	c.setState(StateConsuming, nil)
	if err := s.subscribe(); err != nil {
		s.lose(err)
		return nil, consumeError(err, current)
	}
	return s, nil
}

// tag names the consumer at the broker; tags have at most 255 bytes.
func (s *session) tag() string {
	name := s.consumer.conn.name
	return name[:min(len(name), 200)] + " " + s.id
}

// startWorkers starts the workers.
func (s *session) startWorkers() {
	go s.acker.run()
	go s.watch()
	for range s.settings.concurrency {
		go (&worker{session: s}).run()
	}
}

// subscribe makes the broker send messages, unless the session is over.
func (s *session) subscribe() error {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	if s.isStopped() || s.received != nil {
		return nil
	}
	deliveries, err := s.channel.Consume(s.contract.Queue, s.tag(), false, false, false, false, nil)
	if err != nil {
		return err
	}
	s.received = make(chan struct{})
	go s.receive(deliveries, s.received)
	return nil
}

func (s *session) receive(deliveries <-chan amqp.Delivery, received chan<- struct{}) {
	defer close(received)
	for raw := range deliveries {
		select {
		case s.inbox <- arrival{raw, time.Now()}:
		case <-s.ctx.Done(): // the broker takes the message back
		}
	}
}

// unsubscribe makes the broker send nothing more, and returns the deliveries that no worker has taken. Acks go first: quorum queues
// forget acks that arrive shortly before the channel ends.
func (s *session) unsubscribe() ([]arrival, error) {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	if s.received == nil {
		return nil, nil
	}
	if err := s.acker.flush(); err != nil {
		return nil, err
	}
	if err := s.withTimeout(func() error { return s.channel.Cancel(s.tag(), false) }); err != nil {
		return nil, err
	}
	var untouched []arrival
	for {
		select {
		case next := <-s.inbox:
			untouched = append(untouched, next)
			continue
		case <-s.received:
		}
		break
	}
	s.received = nil
	for len(s.inbox) > 0 {
		select {
		case next := <-s.inbox:
			untouched = append(untouched, next)
		default: // a worker was faster
		}
	}
	return untouched, nil
}

// errTooLate is why a message is returned that was not handled.
var errTooLate = errors.New("too little of the consumer timeout is left")

// pauseConsuming stops the broker from sending messages until the limiter grants. Otherwise the broker would take back, and RabbitMQ before 4.3
// count as delivered, all messages that wait here for the consumer timeout, again and again.
func (s *session) pauseConsuming(d *Delivery, began time.Time) {
	first := s.consumingPaused.CompareAndSwap(false, true)
	if first {
		defer s.consumingPaused.Store(false)
		untouched, err := s.unsubscribe()
		if err == nil {
			for _, next := range untouched {
				_ = s.acker.returnMessage(next.DeliveryTag) // fails with the session
			}
		}
	}
	s.settle(d, contract.Outcome{Result: contract.ResultReturned}, errTooLate, began)
	if !first {
		return
	}
	release, err := s.acquire(stopContext{s.ctx, s.stopped})
	if err != nil {
		return
	}
	release()
	_ = s.withTimeout(s.subscribe) // fails with the session
}

// watch tells how the session ended.
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
	errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted, lost its leader, or the consumer timeout is over")
	errClosed    = errors.New("the connection was closed by this program")
)

func (s *session) closedBy(reply *amqp.Error) error {
	if reply == nil {
		return errClosed
	}
	return consumeError(fmt.Errorf("the channel was closed: %w", reply), s.contract)
}

func (s *session) ended() <-chan error { return s.over }

// lose ends a session whose messages the broker takes back, or has taken back.
func (s *session) lose(cause error) {
	s.stop()
	s.acker.close()
	s.cancel(cause)
	_ = s.withTimeout(s.channel.Close) // which the broker may have done
}

// settle does what the contract says about a delivery that ended, and returns when nothing is left to do but to wait.
func (s *session) settle(d *Delivery, o contract.Outcome, failure error, began time.Time) {
	if o.Result != contract.ResultSucceeded {
		o.CopyID = fmt.Sprintf("%s-%d", s.id, d.Raw.DeliveryTag)
		o.Client = s.consumer.conn.name
	}
	end := Settlement{Delivery: d, Result: o.Result, Action: d.contract.Decide(d.facts, o), Err: failure, Took: time.Since(began)}
	switch {
	case end.Action.Verb == contract.VerbPublish:
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

// isLost says that the broker has taken the session's messages back.
func (s *session) isLost() bool {
	cause := context.Cause(s.ctx)
	return cause != nil && !errors.Is(cause, ErrDraining)
}

// isStopped says that nothing more is started.
func (s *session) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// send settles a delivery.
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

// waitUnlessStopped keeps a message in hand, until the consumer drains.
func (s *session) waitUnlessStopped(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopped:
	}
}

// parkingTimeout is for how long a message is tried to be parked that could be rejected as well.
const parkingTimeout = 30 * time.Second

// forward publishes the copy of a delivery, and then acks the original. What the broker does not take is published again, for as long
// as the session lives, where the newest contract says: the original is safe meanwhile. A copy of which nobody knows whether
// the broker took it is published once for each time that the channel is lost. Before the consumer timeout the message goes back to the
// queue: otherwise the broker would take back all messages of the channel. The action is what was done in the end.
func (s *session) forward(d *Delivery, o contract.Outcome, a contract.Action) (contract.Action, error) {
	defer s.consumer.status.clearRefusedCopy(d)
	ctx, cancel := context.WithDeadlineCause(s.ctx, s.settings.returnDeadline(d), errTooLate)
	defer cancel()
	began, retry := time.Now(), backoff{}
	for a.Verb == contract.VerbPublish {
		switch {
		case s.ctx.Err() != nil:
			return a, errStale
		case ctx.Err() != nil:
			return contract.Action{Verb: contract.VerbReturn, Kind: a.Kind}, s.send(d, contract.VerbReturn)
		}
		err := s.publish(ctx, d, a)
		switch {
		case err == nil:
			return a, s.send(d, contract.VerbAck)
		case errors.Is(err, errTooLarge): // no attempt can help
			o.Result = contract.ResultPermanent
		case isRefusal(err):
			s.consumer.status.recordRefusedCopy(d, err)
			if a.Otherwise != "" && time.Since(began) >= parkingTimeout {
				otherwise := contract.Action{Verb: a.Otherwise, Kind: a.Kind, GivenUp: a.GivenUp}
				return otherwise, s.send(d, a.Otherwise)
			}
			notify(s.consumer.contractChecks) // a tier that is missing may have been replaced
			sleep(ctx, retry.next())
		case errors.As(err, new(*UnknownOutcomeError)):
		default:
			sleep(ctx, retry.next())
		}
		a = s.consumer.contract.Load().Decide(d.facts, o)
	}
	return a, s.send(d, a.Verb)
}

func (s *session) publish(ctx context.Context, d *Delivery, a contract.Action) error {
	began := time.Now()
	message, err := copyOf(d.Raw, a, s.connection.MaxFrame())
	if err == nil {
		err = s.consumer.conn.copies.publish(ctx, *a.Route, message)
	}
	s.consumer.reportPublished(Publication{Delivery: d, Route: *a.Route, Err: err, Took: time.Since(began)})
	return err
}

// finish notes the end of a delivery.
func (s *session) finish(end Settlement, err error) {
	end.Stale = err != nil
	s.consumer.reportSettled(end)
	s.deliveryDone()
}

// deliveryDone takes a delivery from those that are at work.
func (s *session) deliveryDone() {
	if s.active.Add(-1) == 0 {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}
