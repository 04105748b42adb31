package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// fault is a deliberate mistake of rawProgram. Its code is at the place of the correct code.
type fault string

// The faults.
const (
	noFault                fault = "none"
	acksBefore             fault = "acknowledges before it handles the message"
	acksMultiple           fault = "acknowledges all messages up to the handled one"
	acksCopiesMultiple     fault = "acknowledges all messages up to the copied one"
	rejectsMultiple        fault = "rejects all messages up to the failed one"
	acksTwice              fault = "acknowledges a message twice"
	keepsContract          fault = "reads its contract once"
	forgetsAttempts        fault = without + contract.HeaderRetryCount
	requeuesFailures       fault = "returns failed messages to the queue"
	alwaysFirstTier        fault = "copies to the first tier after each attempt"
	alwaysLastTier         fault = "copies to the last tier after each attempt"
	retriesAll             fault = "retries permanent failures"
	trustsCounts           fault = "trusts x-delivery-count on a first delivery"
	oneHandler             fault = "handles one message at a time"
	noPrefetch             fault = "sets no prefetch"
	dropsProperties        fault = "copies only the body"
	copiesAll              fault = "copies all headers and properties"
	notMandatory           fault = "publishes copies without mandatory"
	parksWithoutMandatory  fault = "publishes copies to the dead-letter exchange without mandatory"
	ignoresNegative        fault = "ignores negative confirms"
	noConfirms             fault = "does not wait for confirms"
	exitsWhenForbidden     fault = "exits when its channel is closed"
	reconnectsWithoutDelay fault = "reconnects without a delay"
	staysDisconnected      fault = "does not reconnect"
	twoConsumers           fault = "adds a consumer at each connect"
	latestChannel          fault = "settles on the newest channel"
	noHeartbeats           fault = "has no heartbeats"
	ignoresCancel          fault = "ignores basic.cancel"
	ignoresChannelClose    fault = "ignores that the broker closed its channel"
	ignoresSignal          fault = "waits for hanging handlers"
	closesImmediately      fault = "closes the connection on SIGTERM"
	neverPauses            fault = "consumes during a pause"
	noCopyID               fault = without + contract.HeaderCopyID
	noFailureMessage       fault = without + contract.HeaderFailureMessage
	noFailureTime          fault = without + contract.HeaderFailureTime
	noFailureClient        fault = without + contract.HeaderFailureClient
	copiesWithoutDelay     fault = "publishes a copy again without a delay"
	opensWithoutDelay      fault = "opens a channel again without a delay"
	newIDs                 fault = "gives each try of a copy another ID"
	copiesTwice            fault = "publishes again without closing the channel"
	sharesConnection       fault = "publishes on the connection on which it consumes"
	ignoresBlocked         fault = "does not wait for the end of an alarm"
	noGuard                fault = "handles messages that were delivered 20 times"
	holdsForever           fault = "holds a message until its copy is accepted"
	blocksConnection       fault = "writes nothing to its connection while a handler runs"
	keepsFourProperties    fault = "copies only four properties"
	copiesText             fault = "copies the body as text"
	copiesPlainHeaders     fault = "copies no tables in headers"
	copiesDeaths           fault = "copies x-death"
	keepsOldFailure        fault = "copies the failure in another queue"
	trustsForeignCounts    fault = "trusts counts of another queue"
	exitsAtStart           fault = "exits if it cannot connect at first"
	connectsWithoutTimeout fault = "connects without a timeout"
	returnsToOldest        fault = "takes a return for the oldest copy"
	acksOnSignal           fault = "acknowledges messages with unconfirmed copies on SIGTERM"
	keepsCopyChannels      fault = "opens a channel for each copy and does not close it"
	connectsForEachCopy    fault = "opens a connection for each copy"
	handlesAgain           fault = "returns a message whose copy is not accepted"
	connectsInLoop         fault = "connects for each try of a copy, without a delay"
	trustsLostConfirms     fault = "takes a lost connection for a confirm"
	acksInBatches          fault = "acknowledges every 40th message"
	waitsForBroker         fault = "waits for the broker on SIGTERM"
	exitsWithError         fault = "exits with an error on SIGTERM"
	forgetsLastAcks        fault = "acknowledges nothing after SIGTERM"
	noArgument             fault = "consumes without x-warren-contract"
	pausesForever          fault = "does not end a pause"
	pausesUntilRemoved     fault = "pauses until the contract asks for no pause"
	ignoresSettings        fault = "has four handlers instead of WARREN_CONCURRENCY"
	polls                  fault = "polls with basic.get"
	rejectsUnconfirmed     fault = "rejects a message whose copy was not confirmed"
	copiesLost             fault = "copies a message whose connection was lost"
	acksNoRetried          fault = "acknowledges no retried message"
	readsNextConfirm       fault = "reads the next confirm for any copy"
	returnsByMessageID     fault = "matches returns by message ID"
	retriesAllProperties   fault = "retries with all headers and properties"
	retriesRefused         fault = "ignores negative confirms of retries"
	retriesWithNewIDs      fault = "gives each try of a retry another ID"
	acksThirds             fault = "acknowledges every third message, with multiple"
	rotatesTiers           fault = "copies to the first tier again after the last one"
	consumesLater          fault = "adds a consumer a second after a reconnect"
	twiceTheHandlers       fault = "has twice the handlers of WARREN_CONCURRENCY"
	acksAtStart            fault = "acknowledges a message soon after its handler has begun"
	forgetsPause           fault = "forgets the pause at a reconnect"
	startsInPause          fault = "ignores a pause that has begun before it starts"
	countsReturns          fault = "counts returns as crashes"
	guardsEarly            fault = "guards after 5 crashes"
	cancelsFirst           fault = "cancels before it finishes"
	startsSlowly           fault = "starts after 20 s"
)

// without begins the names of faults that end with the header that the copies lack.
const without = "copies without "

// rawProgram implements the protocol with amqp091-go, with one fault.
type rawProgram struct {
	fault    fault
	contract atomic.Pointer[contract.Contract]
	slots    chan struct{}
	handlers sync.WaitGroup
	copies   copier
	writing  sync.RWMutex // of blocksConnection: read-locked while a handler runs
	handled  atomic.Int64 // of acksInBatches
	paused   atomic.Bool  // a pause has begun
	forgot   atomic.Bool  // of forgetsPause
	ignored  string       // of startsInPause: the pause

	mu      sync.Mutex
	current *amqp.Channel    // of the newest session
	shared  *amqp.Connection // the same
}

func (p *rawProgram) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if p.fault == startsSlowly {
		time.Sleep(20 * time.Second)
	}
	if err := p.load(); err != nil {
		return err
	}
	if asked := p.contract.Load().Paused; p.fault == startsInPause && asked != nil {
		p.ignored = asked.ID
	}
	if p.fault != keepsContract {
		go p.reload(ctx)
	}
	handlers := setting("WARREN_CONCURRENCY")
	if p.fault == ignoresSettings {
		handlers = 4
	}
	if p.fault == twiceTheHandlers {
		handlers *= 2
	}
	p.slots = make(chan struct{}, handlers)
	for connects := 1; ctx.Err() == nil; connects++ {
		if p.fault == forgetsPause && connects > 1 {
			p.waitConnected(ctx)
		} else {
			p.waitWhile(ctx, p.isPaused)
		}
		unpaused, end := context.WithCancel(ctx)
		go func() {
			p.waitWhile(unpaused, func() bool { return !p.isPaused() || p.fault == forgetsPause && p.forgot.Load() })
			end()
		}()
		err := p.consume(unpaused, connects)
		end()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if p.fault == exitsAtStart && connects == 1 {
			return err
		}
		if p.fault == staysDisconnected {
			<-ctx.Done()
		}
		pause := 500 * time.Millisecond
		if p.fault == reconnectsWithoutDelay {
			pause = 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	if p.fault == waitsForBroker {
		for _, err := p.dial(); err != nil; _, err = p.dial() {
			time.Sleep(time.Second)
		}
	}
	if p.fault == exitsWithError {
		return ctx.Err()
	}
	return nil
}

func (p *rawProgram) load() error {
	read, err := contract.File(os.Getenv("WARREN_CONTRACT")).Load(context.Background())
	if err == nil {
		p.contract.Store(&read)
	}
	return err
}

func (p *rawProgram) reload(ctx context.Context) {
	for ticks := time.Tick(5 * time.Second); ctx.Err() == nil; <-ticks {
		if err := p.load(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

func (p *rawProgram) isPaused() bool {
	asked := p.contract.Load().Paused
	if asked != nil {
		p.paused.Store(true)
	}
	switch p.fault {
	case neverPauses:
		return false
	case pausesForever:
		return p.paused.Load()
	case pausesUntilRemoved:
		return asked != nil
	case startsInPause:
		if asked != nil && asked.ID == p.ignored {
			return false
		}
	}
	return asked != nil && time.Now().Before(asked.Until)
}

// waitWhile waits until a condition is false or ctx ends.
func (p *rawProgram) waitWhile(ctx context.Context, condition func() bool) {
	for ctx.Err() == nil && condition() {
		time.Sleep(100 * time.Millisecond)
	}
}

// waitConnected waits during a pause, at most until the connection is lost.
func (p *rawProgram) waitConnected(ctx context.Context) {
	if !p.isPaused() {
		return
	}
	connection, err := p.dial()
	if err != nil {
		return
	}
	defer connection.Close()
	p.waitWhile(ctx, func() bool { return p.isPaused() && !connection.IsClosed() })
	p.forgot.Store(p.isPaused())
}

// session is one connection.
type session struct {
	*rawProgram

	consumes *amqp.Channel
	lost     context.Context // done when the connection is closed
}

func (p *rawProgram) dial() (*amqp.Connection, error) {
	config := amqp.Config{Heartbeat: 5 * time.Second, Locale: "en_US", Dial: amqp.DefaultDial(10 * time.Second)}
	switch p.fault {
	case noHeartbeats:
		config.Heartbeat = -1
	case connectsWithoutTimeout:
		config.Dial = net.Dial
	case blocksConnection:
		config.Dial = func(network, address string) (net.Conn, error) {
			connection, err := net.Dial(network, address)
			return blockedConn{connection, &p.writing}, err
		}
	}
	return amqp.DialConfig(os.Getenv("AMQP_URL")[:len(os.Getenv("AMQP_URL"))-len("?heartbeat=5")], config)
}

// blockedConn writes nothing while a handler runs.
type blockedConn struct {
	net.Conn

	writing *sync.RWMutex
}

func (c blockedConn) Write(content []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.Conn.Write(content)
}

// consume consumes until the connection or ctx ends.
func (p *rawProgram) consume(ctx context.Context, connects int) error {
	connection, err := p.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	s := &session{rawProgram: p}
	if s.consumes, err = connection.Channel(); err != nil {
		return err
	}
	p.mu.Lock()
	p.current, p.shared = s.consumes, connection
	p.mu.Unlock()
	lost, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	s.lost = lost
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	go func() { lose(fmt.Errorf("connection lost: %w", <-closed)) }()
	if p.fault != noPrefetch && p.fault != ignoresSettings && p.fault != acksInBatches {
		if err := s.consumes.Qos(setting("WARREN_PREFETCH"), 0, false); err != nil {
			return err
		}
	}
	arguments := amqp.Table{contract.ArgConfigMap: p.contract.Load().ConfigMap}
	if p.fault == noArgument {
		arguments = nil
	}
	if p.fault == polls {
		return s.dispatch(ctx, s.poll())
	}
	deliveries, err := s.consumes.Consume(p.contract.Load().Queue, "program", p.fault == acksBefore, false, false, false, arguments)
	if err != nil {
		return err
	}
	if p.fault == consumesLater && connects > 1 {
		time.AfterFunc(time.Second, func() { _, _ = s.consumes.Consume(p.contract.Load().Queue, "later", false, false, false, false, nil) })
	}
	for extra := range connects - 1 {
		if p.fault == twoConsumers {
			if _, err := s.consumes.Consume(p.contract.Load().Queue, fmt.Sprint("extra", extra), false, false, false, false, nil); err != nil {
				return err
			}
		}
	}
	return s.dispatch(ctx, deliveries)
}

// poll gets messages until the channel is closed.
func (s *session) poll() <-chan amqp.Delivery {
	deliveries := make(chan amqp.Delivery)
	go func() {
		defer close(deliveries)
		for {
			message, exists, err := s.consumes.Get(s.contract.Load().Queue, false)
			switch {
			case err != nil:
				return
			case exists:
				deliveries <- message
			default:
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return deliveries
}

// dispatch starts handlers until the session is lost or drained.
func (s *session) dispatch(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	for {
		select {
		case <-ctx.Done():
			return s.drain()
		case <-s.lost.Done():
			return context.Cause(s.lost)
		case s.slots <- struct{}{}:
		}
		select {
		case <-ctx.Done():
			<-s.slots
			return s.drain()
		case <-s.lost.Done():
			<-s.slots
			return context.Cause(s.lost)
		case delivery, open := <-deliveries:
			if !open {
				<-s.slots
				if closed := s.consumes.IsClosed(); s.fault == ignoresCancel && !closed || s.fault == ignoresChannelClose && closed {
					deliveries = nil // wait for the end of the connection or of ctx
					continue
				}
				return errors.New("the broker cancelled the consumer or closed the channel")
			}
			work := func() {
				defer func() { <-s.slots }()
				s.handle(ctx, delivery)
			}
			if s.fault == oneHandler {
				work()
				continue
			}
			s.handlers.Go(work)
		}
	}
}

// drain waits for handlers, settles their messages, and cancels the consumer: acks before basic.cancel survive the close of the
// channel.
func (s *session) drain() error {
	if s.fault == closesImmediately {
		return nil
	}
	if s.fault == cancelsFirst {
		_ = s.consumes.Cancel("program", false)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.handlers.Wait()
	}()
	patience := time.After(time.Duration(setting("WARREN_DRAIN_MILLISECONDS")) * time.Millisecond)
	if s.fault == ignoresSignal {
		patience = nil
	}
	select {
	case <-done:
	case <-patience:
	}
	if s.contract.Load().SingleActiveConsumer {
		return nil // a cancel would return the messages too late: another consumer would get later ones first
	}
	return s.consumes.Cancel("program", false)
}

func (s *session) handle(ctx context.Context, d amqp.Delivery) {
	began := time.Now()
	facts := contract.Facts{Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered, Headers: plain(d.Headers).(map[string]any)}
	outcome := contract.Outcome{
		Result: contract.ResultUndecodable, Text: "failed", CopyID: rand.Text(), Client: "raw", Time: began,
	}
	if s.fault == trustsForeignCounts {
		delete(facts.Headers, contract.HeaderFailureQueue)
	}
	if s.fault == acksAtStart {
		time.AfterFunc(100*time.Millisecond, func() { _ = s.consumes.Ack(d.DeliveryTag, false) })
	}
	if s.crashes(facts) >= contract.DefaultMaxCrashes && s.fault != noGuard {
		outcome.Result = contract.ResultCrashed
	} else if j, err := parseJob(d.Body); err == nil {
		outcome.Result = s.work(j, s.attempt(facts), d.Redelivered)
	}
	if s.fault == retriesAll && outcome.Result == contract.ResultPermanent {
		outcome.Result = contract.ResultFailed
	}
	if s.fault == trustsCounts && s.attempt(facts) > s.contract.Load().MaxAttempts {
		outcome.Result = contract.ResultPermanent
	}
	action := s.contract.Load().Decide(facts, outcome)
	if s.fault == requeuesFailures && action.Kind == contract.KindFailed {
		action = contract.Action{Verb: contract.VerbReturn}
	}
	time.Sleep(time.Duration(action.Wait))
	if action.Verb != contract.VerbPublish {
		if s.fault == forgetsLastAcks && ctx.Err() != nil {
			return
		}
		s.settle(d, action.Verb)
		return
	}
	if s.fault == acksOnSignal {
		defer context.AfterFunc(ctx, func() { s.settle(d, contract.VerbAck) })()
	}
	for pause := 250 * time.Millisecond; ctx.Err() == nil && (s.lost.Err() == nil || s.fault == copiesLost); pause = min(2*pause, 2*time.Second) {
		action = s.contract.Load().Decide(facts, outcome) // the contract may have changed
		if s.fault == newIDs || s.fault == retriesWithNewIDs && !action.GivenUp {
			outcome.CopyID = rand.Text()
		}
		accepted, err := s.copies.publish(s.rawProgram, s.copyOf(d, action), s.routeOf(action), s.isMandatory(action))
		if accepted {
			s.settle(d, contract.VerbPublish)
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if err != nil && s.fault == exitsWhenForbidden {
			os.Exit(1) //nolint:gocritic // the deferred function belongs to another fault
		}
		if s.fault == handlesAgain {
			s.settle(d, contract.VerbReturn)
			return
		}
		if err != nil && s.fault == rejectsUnconfirmed {
			s.settle(d, contract.VerbReject)
			return
		}
		left := time.Hour
		if timeout := s.contract.Load().ConsumerTimeout; timeout != nil && s.fault != holdsForever {
			left = time.Duration(*timeout)*9/10 - time.Since(began)
		}
		if left < 0 {
			s.settle(d, contract.VerbReturn)
			return
		}
		if s.fault != copiesWithoutDelay && s.fault != connectsInLoop {
			time.Sleep(min(pause, left))
		}
	}
}

func (s *session) crashes(facts contract.Facts) int {
	crashes := s.contract.Load().Progress(facts).Crashes
	switch s.fault {
	case countsReturns:
		acquired, _ := facts.Headers["x-acquired-count"].(int64)
		return int(acquired)
	case guardsEarly:
		return 4 * crashes
	}
	return crashes
}

func (s *session) attempt(facts contract.Facts) int {
	if forged, ok := facts.Headers["x-delivery-count"].(int64); ok && s.fault == trustsCounts {
		return int(forged) + 1
	}
	return s.contract.Load().Progress(facts).Attempt
}

// work carries out the verb of a body.
func (s *session) work(j job, attempt int, redelivered bool) contract.Result {
	fmt.Println("start", j.id)
	first := attempt == 1 && !redelivered
	switch {
	case j.verb == "fail" && attempt <= j.argument:
		return contract.ResultFailed
	case j.verb == "permanent":
		return contract.ResultPermanent
	case j.verb == "crash" && first:
		os.Exit(3)
	case j.verb == "hang" && first:
		select {}
	case j.verb == "slow":
		if s.fault == blocksConnection {
			s.writing.RLock()
			defer s.writing.RUnlock()
		}
		lost := s.lost.Done()
		if s.fault != copiesLost {
			lost = nil
		}
		select {
		case <-time.After(time.Duration(j.argument) * time.Millisecond):
		case <-lost:
			return contract.ResultFailed
		}
	}
	fmt.Println("done", j.id)
	return contract.ResultSucceeded
}

// settle settles a delivery on its channel. After an error, the broker redelivers the message.
func (s *session) settle(d amqp.Delivery, verb contract.Verb) {
	channel := s.consumes
	if s.fault == latestChannel {
		s.mu.Lock()
		channel = s.current
		s.mu.Unlock()
	}
	if s.fault == acksBefore || s.fault == acksAtStart {
		return
	}
	switch verb {
	case contract.VerbAck:
		batches := map[fault]int64{acksInBatches: 40, acksThirds: 3}
		if size, batched := batches[s.fault]; batched {
			if s.handled.Add(1)%size == 0 {
				_ = channel.Ack(d.DeliveryTag, true)
			}
			return
		}
		if _, retried := d.Headers[contract.HeaderRetryCount]; retried && s.fault == acksNoRetried {
			return
		}
		_ = channel.Ack(d.DeliveryTag, s.fault == acksMultiple)
		if s.fault == acksTwice {
			_ = channel.Ack(d.DeliveryTag, false)
		}
	case contract.VerbPublish: // the broker has the copy
		_ = channel.Ack(d.DeliveryTag, s.fault == acksCopiesMultiple)
	case contract.VerbReject:
		if s.fault == rejectsMultiple {
			_ = channel.Nack(d.DeliveryTag, true, false)
			return
		}
		_ = channel.Reject(d.DeliveryTag, false)
	case contract.VerbRequeue:
		_ = channel.Reject(d.DeliveryTag, true)
	case contract.VerbReturn:
		_ = channel.Nack(d.DeliveryTag, false, true)
	}
}
