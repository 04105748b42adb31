package consumer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// Handler handles a message, and many at the same time. It returns nil: the message is acked. It returns an error: the message comes
// again after a delay, until the attempts are used up and it goes to the dead-letter queue. See Permanent, RetryAfter, Defer and
// Discard for other ends.
//
// The context ends when the handler returns. It ends before if the handler has taken too long, if the broker has taken the message back, or
// at the end of a drain; context.Cause says which: ErrTimeout, ErrDeliveryLost or ErrDraining. Its deadline is that of WithTimeout.
type Handler[T any] func(ctx context.Context, m *Message[T]) error

// Consumer consumes one main queue.
type Consumer struct {
	conn    *Conn
	source  contract.Source
	options []Option
	handle  HandleFunc

	started          atomic.Bool
	contract         atomic.Pointer[contract.Contract]
	settings         atomic.Pointer[settings] // of the contract
	slots            chan struct{}
	contractChecks   chan struct{} // asks for a look at the contract
	permissionChecks chan struct{} // asks for a check of the permissions
	status           status
	workers          workerSet
	stateMu          sync.Mutex // held while the state changes and that is told
	reporter         reporter
	log              limitedLog
}

// New makes a consumer of the queue of a contract, which is a contract.Contract or a contract.File. It fails for what can never work.
func New[T any](conn *Conn, source contract.Source, handle Handler[T], options ...Option) (*Consumer, error) {
	if conn == nil || source == nil || handle == nil {
		return nil, errors.New("consumer: New needs a Conn, a contract and a handler")
	}
	c := &Consumer{conn: conn, source: source, options: options, contractChecks: make(chan struct{}, 1), permissionChecks: make(chan struct{}, 1)}
	c.handle = newHandleFunc(decodeJSON[T], handle)
	loaded, err := load(context.Background(), source)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the operator has not written the file yet
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("consumer: %w", err)
	}
	return c, c.useContract(loaded)
}

// undecodable is the error of a decoder.
type undecodable struct{ error }

func (u undecodable) Unwrap() error { return u.error }

// Decode returns a handler of messages in another encoding than JSON, for New and AddHandler. A message that cannot be decoded goes to the
// dead-letter queue at once.
func Decode[T any](decode func(*Delivery) (T, error), handle Handler[T]) Handler[[]byte] {
	decodeInto := func(d *Delivery, body *T) (err error) {
		*body, err = decode(d)
		return err
	}
	decodeAndHandle := newHandleFunc(decodeInto, handle)
	return func(ctx context.Context, m *Message[[]byte]) error { return decodeAndHandle(ctx, m.Delivery) }
}

// newHandleFunc decodes a body and hands it to the handler.
func newHandleFunc[T any](decode func(d *Delivery, body *T) error, handle Handler[T]) HandleFunc {
	return func(ctx context.Context, d *Delivery) error {
		m := &Message[T]{Delivery: d}
		if err := decodeSafely(decode, m); err != nil {
			return undecodable{err}
		}
		return handle(ctx, m)
	}
}

// decodeSafely makes an error of a decoder's panic: the body would make it panic again.
func decodeSafely[T any](decode func(d *Delivery, body *T) error, m *Message[T]) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the decoder panicked: %v", cause)
		}
	}()
	return decode(m.Delivery, &m.Body)
}

func chain(middleware []Middleware, handle HandleFunc) HandleFunc {
	for _, wrap := range slices.Backward(middleware) {
		handle = wrap(handle)
	}
	return handle
}

// useContract takes over a contract, with the options that follow from it.
func (c *Consumer) useContract(loaded contract.Contract) error {
	s, err := settingsOf(c.options, loaded)
	if err != nil {
		return err
	}
	s.handle = chain(s.middleware, c.handle)
	if loaded.Strategy == contract.StrategyRequeue && loaded.RedeliveryDelay == nil {
		s.logger.Warn("Failed messages come back at once, after a pause of this consumer: retry.redeliveryDelay would have the broker wait",
			"queue", loaded.Queue)
	}
	c.settings.Store(s)
	c.contract.Store(&loaded)
	return nil
}

// Run runs several consumers until ctx ends, and drains them together. If one ends with an error before, all are drained.
func Run(ctx context.Context, consumers ...*Consumer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make([]error, len(consumers))
	var running sync.WaitGroup
	for i, c := range consumers {
		running.Go(func() {
			if ended[i] = c.Run(ctx); ended[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(ended...)
}

// contractInterval is how often a contract is looked at.
const contractInterval = 30 * time.Second

// Run consumes until ctx ends, and drains then. It reconnects for as long as it takes. The error is a *DrainError if handlers
// did not end in time, or says what is wrong with the contract. Call it once.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("consumer: Run was called before")
	}
	defer c.reporter.close()
	defer c.conn.use()()
	defer c.setState(StateDisconnected, nil)
	defer c.inBackground(ctx, c.checkPermissions, c.watchHandlers)()
	retry := backoff{}
	for {
		c.setState(StateConnecting, nil)
		err := c.reload(ctx)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var s *session
		if err == nil {
			s, err = c.connect(ctx)
		}
		if err == nil {
			began := time.Now()
			if err = c.deliver(ctx, s); err == nil {
				return c.drain(s)
			}
			if time.Since(began) > retry.delay { // a session that pays for the pause before it
				retry.reset()
			}
		}
		if errors.Is(err, errContractChanged) {
			if err := c.drain(s); err != nil { // what lingers keeps its slot
				c.settings.Load().logger.Warn("The contract has changed, and handlers go on", "error", err)
			}
			continue
		}
		if ctx.Err() == nil {
			c.setState(StateReconnecting, err)
		}
		if !sleep(ctx, retry.next()) {
			return nil
		}
	}
}

// inBackground runs functions until stop is called, which waits for their end.
func (c *Consumer) inBackground(ctx context.Context, work ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	for _, run := range work {
		working.Go(func() { run(ctx) })
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// load reads a contract, which may come over a network.
func load(ctx context.Context, source contract.Source) (contract.Contract, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return source.Load(ctx)
}

// reload reads the contract again. Once the consumer has a contract, one that cannot be read or does not fit the options changes nothing.
func (c *Consumer) reload(ctx context.Context) error {
	loaded, err := load(ctx, c.source)
	current := c.contract.Load()
	if err == nil && (current == nil || !reflect.DeepEqual(*current, loaded)) {
		err = c.useContract(loaded)
	}
	if err != nil && current != nil {
		c.settings.Load().logger.Warn("The new contract cannot be used; the consumer keeps the former one", "error", err)
		return nil
	}
	return err
}

// errContractChanged ends a session, for the next one is another.
var errContractChanged = errors.New("the contract has changed")

// checkContract reads the contract while messages are delivered. What changes only where messages go holds from the next delivery on.
func (c *Consumer) checkContract(ctx context.Context) error {
	loaded, err := load(ctx, c.source)
	current := c.contract.Load()
	switch {
	case err != nil:
		c.settings.Load().logger.Warn("The new contract cannot be used; the consumer keeps the former one", "error", err)
		return nil
	case reflect.DeepEqual(*current, loaded):
		return nil
	case sameSession(*current, loaded):
		c.contract.Store(&loaded)
		notify(c.permissionChecks)
		return nil
	}
	if _, err := settingsOf(c.options, loaded); err != nil {
		c.settings.Load().logger.Warn("The new contract cannot be used; the consumer keeps the former one", "error", err)
		return nil
	}
	return errContractChanged
}

func sameSession(a, b contract.Contract) bool {
	a.Tiers, b.Tiers = nil, nil
	a.Park, b.Park = nil, nil
	a.MaxAttempts, b.MaxAttempts = 0, 0
	a.DeadLetterQueue, b.DeadLetterQueue = "", ""
	a.RejectDeadLetters, b.RejectDeadLetters = false, false
	a.RedeliveryDelay, b.RedeliveryDelay = nil, nil
	return reflect.DeepEqual(a, b)
}

// connect begins a session.
func (c *Consumer) connect(ctx context.Context) (*session, error) {
	current, given := c.contract.Load(), c.settings.Load()
	if cap(c.slots) != given.concurrency { // else handlers that linger keep their slots
		c.slots = make(chan struct{}, given.concurrency)
	}
	opened := make(chan openedSession, 1)
	go func() {
		s, err := c.open(ctx, *current, given)
		opened <- openedSession{s, err}
	}()
	select {
	case result := <-opened:
		return result.session, result.err
	case <-ctx.Done(): // a request may be on its way
		go func() {
			if late := <-opened; late.session != nil {
				late.session.lose(context.Cause(ctx))
			}
		}()
		return nil, context.Cause(ctx)
	}
}

type openedSession struct {
	session *session
	err     error
}

// deliver runs a session until ctx ends, which is no error, or the session does.
func (c *Consumer) deliver(ctx context.Context, s *session) error {
	c.setState(StateDelivering, nil)
	notify(c.permissionChecks)
	s.startWorkers()
	ticker := time.NewTicker(contractInterval)
	defer ticker.Stop()
	for {
		c.status.recordProgress()
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.ended():
			s.lose(fmt.Errorf("%w: %w", ErrDeliveryLost, err))
			return err
		case <-ticker.C:
			if err := c.checkContract(ctx); err != nil {
				return err
			}
		case <-c.contractChecks:
			if err := c.checkContract(ctx); err != nil {
				return err
			}
		}
	}
}

// notify sends unless a request is pending.
func notify(requests chan<- struct{}) {
	select {
	case requests <- struct{}{}:
	default:
	}
}

// consumeError says what to do about an error of the broker.
func consumeError(err error, current contract.Contract) error {
	var reply *amqp.Error
	isReply := errors.As(err, &reply)
	switch {
	case isReply && reply.Code == amqp.NotFound:
		return fmt.Errorf("queue %q not found: is the ConsumerQueue Ready, and does the URI lead to virtual host %q? %w",
			current.Queue, current.VirtualHost, err)
	case isReply && reply.Code == amqp.AccessRefused:
		return fmt.Errorf("queue %q cannot be consumed; does the user have the permission read in virtual host %q? %w",
			current.Queue, current.VirtualHost, err)
	}
	return err
}
