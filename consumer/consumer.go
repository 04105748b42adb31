package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// Handler handles one message. The consumer calls it from several goroutines at the same time. If it returns nil, the consumer
// acks the message. If it returns an error, the message is delivered again after a delay, until it goes to the dead-letter queue
// after the last attempt. Permanent, RetryAfter, Defer and Discard return errors with other results.
//
// The deadline of ctx is that of WithTimeout. ctx ends early if the broker has taken the message back, or if the drain timeout is
// over. context.Cause(ctx) is then ErrTimeout, ErrDeliveryLost or ErrDraining. If a handler ignores its timeout until shortly before the
// broker's consumer timeout, the consumer settles the message as timed out, and ignores what the handler returns.
type Handler[T any] func(ctx context.Context, m *Message[T]) error

// Consumer consumes the main queue of one contract. Create it with New.
type Consumer struct {
	conn    *Conn
	source  contract.Source
	options []Option
	handle  HandleFunc

	started          atomic.Bool
	contract         atomic.Pointer[contract.Contract]
	settings         atomic.Pointer[settings] // for the current contract
	isolatedAt       atomic.Int64             // Unix time in ns when a request about the queue last cost the connection; see withTimeout
	own              sharedConnection         // replaces that of the Conn while isolated
	slots            chan struct{}
	contractChecks   chan struct{} // requests to read the contract
	permissionChecks chan struct{} // requests to check the permissions
	paused           atomic.Bool   // by Pause
	breaker          breaker
	pauseChanges     chan struct{} // requests to follow Pause, Resume and the breaker
	status           status
	pause            pause
	workers          workerSet
	stateMu          sync.Mutex // held while the state changes and the observers are called
	reporter         reporter
	log              limitedLog
	virtualHosts     virtualHosts
}

// New creates a consumer for the queue of a contract. The source is a contract.Contract or a contract.File. A File that does not
// exist yet is no error: Run waits for it. New returns an error if an argument is nil, if the contract is not valid, or if an
// option does not fit the contract.
func New[T any](conn *Conn, source contract.Source, handle Handler[T], options ...Option) (*Consumer, error) {
	if handle == nil {
		return nil, errIncomplete
	}
	return newConsumer(conn, source, newHandleFunc(decodeJSON[T], handle), options)
}

var errIncomplete = errors.New("consumer: a consumer needs a Conn, a contract and a handler")

func newConsumer(conn *Conn, source contract.Source, handle HandleFunc, options []Option) (*Consumer, error) {
	if conn == nil || source == nil {
		return nil, errIncomplete
	}
	byConn := Option(func(s *settings) { s.connPrefetch = conn.prefetch })
	c := &Consumer{
		conn: conn, source: source, options: append([]Option{byConn}, options...), handle: handle,
		own:            sharedConnection{connect: conn.consuming.connect},
		contractChecks: make(chan struct{}, 1), permissionChecks: make(chan struct{}, 1), pauseChanges: make(chan struct{}, 1),
		status: status{unanswered: errUnanswered},
	}
	loaded, err := c.load(context.Background())
	switch {
	case errors.Is(err, fs.ErrNotExist): // the operator has not written the file yet; Run waits for it
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("consumer: %w", err)
	}
	return c, c.useContract(loaded)
}

// useContract stores a contract and the settings that follow from it.
func (c *Consumer) useContract(loaded contract.Contract) error {
	s, err := settingsOf(c.options, loaded)
	if err != nil {
		return err
	}
	handle := c.handle
	if s.breakAfter > 0 {
		handle = recordingEnd(handle)
	}
	s.handle = chain(s.middleware, handle)
	if loaded.Strategy == contract.StrategyRequeue && loaded.RedeliveryDelay == nil {
		s.logger.Warn("The broker redelivers failed messages without delay, so this consumer waits before it returns them; "+
			"set spec.retry.redeliveryDelay to delay them at the broker",
			"queue", loaded.Queue)
	}
	c.settings.Store(s)
	c.contract.Store(&loaded)
	return nil
}

// Run runs several consumers until ctx ends, and drains them together. If one of them returns an error, the others are drained,
// too. Run returns the errors of all consumers, joined.
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

// contractInterval is how often the contract is read again.
const contractInterval = 30 * time.Second

// Run consumes until ctx ends, then drains. It reconnects without a limit of attempts. It returns nil if every handler has returned.
// Handlers whose messages were settled as timed out do not count. Even then, RabbitMQ redelivers a message if the drain timeout ended its
// handler's context or its wait for a confirm. The same happens if the connection was lost before its ack arrived. Run returns a
// *DrainError if handlers did not return within the drain timeout, and another error if the first contract cannot be read, is not valid or
// does not fit the options. Run can be called only once.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("consumer: Run was called before")
	}
	defer c.reporter.close()
	defer together(c.conn.use(), c.own.close)
	defer c.setState(StateDisconnected, nil)
	defer c.breaker.stop()
	defer inBackground(ctx, c.checkPermissions, c.watchHandlers)()
	stopped := make(chan time.Time, 1) // when ctx ended
	defer context.AfterFunc(ctx, func() { stopped <- time.Now() })()
	retry := backoff{}
	for {
		s, err := c.nextSession(ctx)
		if err != nil && c.contract.Load() == nil && !errors.Is(err, fs.ErrNotExist) {
			if ctx.Err() != nil { // the reason why the contract could not be read
				return nil
			}
			return err
		}
		if err == nil {
			began := time.Now()
			if err = c.deliver(ctx, s); err == nil {
				return cmp.Or(c.drain(s), c.awaitHandlers(<-stopped))
			}
			if time.Since(began) > retry.delay { // the session lasted longer than the delay before it
				retry.reset()
			}
		}
		if errors.Is(err, errContractChanged) || errors.Is(err, errIsolationOver) || errors.Is(err, errPaused) {
			c.endSession(s, err)
			continue
		}
		if ctx.Err() == nil {
			c.setState(StateReconnecting, err)
		}
		if !sleep(ctx, retry.next()) {
			return c.awaitHandlers(<-stopped)
		}
	}
}

// nextSession reads the contract, waits for the end of a pause, and connects.
func (c *Consumer) nextSession(ctx context.Context) (*session, error) {
	for {
		if c.pause.left(time.Now()) <= 0 {
			c.setState(StateConnecting, nil)
		}
		if err := c.reload(ctx); err != nil {
			return nil, err
		}
		if !c.awaitPause(ctx) {
			return c.connect(ctx)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// endSession drains a session because the contract has changed, the isolation is over, or the contract asks for a pause, during which the
// consumer stays ready. Handlers that still run keep their slots. The consumer's own connection is closed, because a pause may be long.
func (c *Consumer) endSession(s *session, why error) {
	drain := c.drain
	if errors.Is(why, errPaused) {
		c.setState(StatePaused, c.breaker.err())
		drain = (*session).drain
	}
	if err := drain(s); err != nil {
		c.settings.Load().logger.Warn("Handlers of the previous session are still running", "why", why, "error", err)
	}
	c.own.close()
}

// inBackground runs functions until stop is called. stop waits until they have returned.
func inBackground(ctx context.Context, work ...func(context.Context)) (stop func()) {
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

// load reads the contract, with a timeout because a source may use the network. It records the pause that the contract asks for
// and returns the contract without it.
func (c *Consumer) load(ctx context.Context) (contract.Contract, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	loaded, err := c.source.Load(ctx)
	if err != nil {
		return contract.Contract{}, err
	}
	c.pause.note(loaded.Paused, time.Now())
	loaded.Paused = nil
	return loaded, nil
}

// reload reads the contract before a connect. If the consumer has a contract, reload keeps it when the new one cannot be read or
// does not fit the options.
func (c *Consumer) reload(ctx context.Context) error {
	loaded, err := c.load(ctx)
	current := c.contract.Load()
	if err == nil && (current == nil || !reflect.DeepEqual(*current, loaded)) {
		err = c.useContract(loaded)
	}
	if err != nil && current != nil {
		c.keepContract(err)
		return nil
	}
	return err
}

// keepContract logs why the consumer keeps its current contract.
func (c *Consumer) keepContract(err error) {
	c.settings.Load().logger.Warn("Cannot use the new contract; keeping the current contract", "error", err)
}

// errContractChanged ends a session so that the next one uses the new contract.
var errContractChanged = errors.New("the contract has changed")

// checkContract reads the contract while messages are delivered. Changes that concern only failed messages apply from the next
// failure on, also to deliveries whose handlers run. Other changes return errContractChanged, and a pause returns errPaused.
func (c *Consumer) checkContract(ctx context.Context) error {
	loaded, err := c.load(ctx)
	current := c.contract.Load()
	switch {
	case err != nil:
		c.keepContract(err)
		return nil
	case c.pause.left(time.Now()) > 0:
		return errPaused
	case reflect.DeepEqual(*current, loaded):
		return nil
	case sameSession(*current, loaded):
		c.contract.Store(&loaded)
		notify(c.permissionChecks)
		return nil
	}
	if _, err := settingsOf(c.options, loaded); err != nil {
		c.keepContract(err)
		return nil
	}
	return errContractChanged
}

// sameSession reports whether a session for contract a can continue with contract b.
func sameSession(a, b contract.Contract) bool {
	a.Tiers, b.Tiers = nil, nil
	a.Park, b.Park = nil, nil
	a.MaxAttempts, b.MaxAttempts = 0, 0
	a.DeadLetterQueue, b.DeadLetterQueue = "", ""
	a.RejectDeadLetters, b.RejectDeadLetters = false, false
	a.RedeliveryDelay, b.RedeliveryDelay = nil, nil
	return reflect.DeepEqual(a, b)
}

func (c *Consumer) connect(ctx context.Context) (*session, error) {
	current, given := c.contract.Load(), c.settings.Load()
	if cap(c.slots) != given.concurrency { // otherwise handlers that still run keep their slots
		c.slots = make(chan struct{}, given.concurrency)
	}
	return openInTime(ctx, func() (*session, error) {
		return c.open(ctx, *current, given)
	}, func(late *session) { late.lose(context.Cause(ctx)) })
}

// deliver runs a session. It returns nil when ctx ends, errContractChanged, errIsolationOver, errPaused, or the reason why the session
// ended.
func (c *Consumer) deliver(ctx context.Context, s *session) error {
	c.followPause(ctx, s)
	notify(c.permissionChecks)
	s.startWorkers()
	ticker := time.NewTicker(contractInterval)
	defer ticker.Stop()
	for {
		c.status.recordProgress()
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.over:
			s.lose(fmt.Errorf("%w: %w", ErrDeliveryLost, err))
			return err
		case <-c.pauseChanges:
			c.followPause(ctx, s)
		case <-ticker.C:
			if s.isIsolated && !c.isIsolated() {
				return errIsolationOver
			}
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

// notify sends a request unless one is pending.
func notify(requests chan<- struct{}) {
	select {
	case requests <- struct{}{}:
	default:
	}
}
