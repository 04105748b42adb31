package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
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
	keepsContract          fault = "reads its contract once"
	forgetsAttempts        fault = "copies without x-retry-count"
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
	ignoresSignal          fault = "waits for hanging handlers"
	closesImmediately      fault = "closes the connection on SIGTERM"
	neverPauses            fault = "consumes during a pause"
)

// rawProgram implements the protocol with amqp091-go, with one fault.
type rawProgram struct {
	fault    fault
	contract atomic.Pointer[contract.Contract]
	slots    chan struct{}
	handlers sync.WaitGroup

	mu      sync.Mutex
	current *amqp.Channel // of the newest session
}

func (p *rawProgram) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := p.load(); err != nil {
		return err
	}
	if p.fault != keepsContract {
		go p.reload(ctx)
	}
	p.slots = make(chan struct{}, setting("WARREN_CONCURRENCY"))
	for connects := 1; ctx.Err() == nil; connects++ {
		p.waitWhile(ctx, p.isPaused)
		unpaused, end := context.WithCancel(ctx)
		go func() {
			p.waitWhile(unpaused, func() bool { return !p.isPaused() })
			end()
		}()
		err := p.consume(unpaused, connects)
		end()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if p.fault == staysDisconnected {
			<-ctx.Done()
		}
		if p.fault == exitsWhenForbidden {
			return errors.New("the channel was closed")
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
	paused := p.contract.Load().Paused
	return paused != nil && time.Now().Before(paused.Until) && p.fault != neverPauses
}

// waitWhile waits until a condition is false or ctx ends.
func (p *rawProgram) waitWhile(ctx context.Context, condition func() bool) {
	for ctx.Err() == nil && condition() {
		time.Sleep(100 * time.Millisecond)
	}
}

// session is one connection.
type session struct {
	*rawProgram

	consumes *amqp.Channel
	lost     context.Context // done when the connection or the channel for copies is closed

	mu       sync.Mutex // one copy at a time
	publish  *amqp.Channel
	returned chan amqp.Return
}

// consume consumes until the connection or ctx ends.
func (p *rawProgram) consume(ctx context.Context, connects int) error {
	config := amqp.Config{Heartbeat: 5 * time.Second, Locale: "en_US"}
	if p.fault == noHeartbeats {
		config.Heartbeat = -1
	}
	connection, err := amqp.DialConfig(os.Getenv("AMQP_URL")[:len(os.Getenv("AMQP_URL"))-len("?heartbeat=5")], config)
	if err != nil {
		return err
	}
	defer connection.Close()
	s := &session{rawProgram: p}
	if s.consumes, err = connection.Channel(); err != nil {
		return err
	}
	if s.publish, err = connection.Channel(); err != nil {
		return err
	}
	p.mu.Lock()
	p.current = s.consumes
	p.mu.Unlock()
	lost, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	s.lost = lost
	for _, closed := range []chan *amqp.Error{connection.NotifyClose(make(chan *amqp.Error, 1)), s.publish.NotifyClose(make(chan *amqp.Error, 1))} {
		go func() { lose(fmt.Errorf("connection lost: %w", <-closed)) }()
	}
	s.returned = s.publish.NotifyReturn(make(chan amqp.Return, 1))
	if err := s.publish.Confirm(false); err != nil {
		return err
	}
	if p.fault != noPrefetch {
		if err := s.consumes.Qos(setting("WARREN_PREFETCH"), 0, false); err != nil {
			return err
		}
	}
	arguments := amqp.Table{contract.ArgConfigMap: p.contract.Load().ConfigMap}
	deliveries, err := s.consumes.Consume(p.contract.Load().Queue, "program", p.fault == acksBefore, false, false, false, arguments)
	if err != nil {
		return err
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
			if !open && s.fault == ignoresCancel {
				<-ctx.Done()
			}
			if !open {
				<-s.slots
				return errors.New("the broker cancelled the consumer")
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
	return s.consumes.Cancel("program", false)
}

func (s *session) handle(ctx context.Context, d amqp.Delivery) {
	facts := contract.Facts{Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered, Headers: plain(d.Headers).(map[string]any)}
	outcome := contract.Outcome{Result: contract.ResultUndecodable}
	if j, err := parseJob(d.Body); err == nil {
		outcome = contract.Outcome{Result: s.work(j, s.attempt(facts), d.Redelivered), Text: j.verb}
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
		s.settle(d, action.Verb)
		return
	}
	for ctx.Err() == nil && s.lost.Err() == nil {
		action = s.contract.Load().Decide(facts, outcome) // the contract may have changed
		taken, err := s.copy(d, action)
		if taken {
			s.settle(d, contract.VerbAck)
			return
		}
		if err != nil {
			return // the session ends, and the broker redelivers the message
		}
		time.Sleep(500 * time.Millisecond)
	}
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
		time.Sleep(time.Duration(j.argument) * time.Millisecond)
	}
	fmt.Println("done", j.id)
	return contract.ResultSucceeded
}

// copy publishes a copy and reports whether the broker accepted it.
func (s *session) copy(d amqp.Delivery, action contract.Action) (taken bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	message := amqp.Publishing{
		Headers: action.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
	switch s.fault {
	case dropsProperties:
		message = amqp.Publishing{Headers: amqp.Table{contract.HeaderRetryCount: action.Headers[contract.HeaderRetryCount]}, Body: d.Body}
	case forgetsAttempts:
		delete(message.Headers, contract.HeaderRetryCount)
	case copiesAll:
		message.Expiration, message.UserId = d.Expiration, d.UserId
		for name, value := range d.Headers {
			message.Headers[name] = cmp.Or[any](message.Headers[name], value)
		}
	}
	route, tiers := *action.Route, s.contract.Load().Tiers
	switch {
	case s.fault == alwaysFirstTier && !action.GivenUp:
		route = tiers[0].Route
	case s.fault == alwaysLastTier && !action.GivenUp:
		route = tiers[len(tiers)-1].Route
	}
	mandatory := s.fault != notMandatory && (s.fault != parksWithoutMandatory || !action.GivenUp)
	confirm, err := s.publish.PublishWithDeferredConfirm(route.Exchange, route.RoutingKey, mandatory, false, message)
	if err != nil || s.fault == noConfirms {
		return err == nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	confirmed, err := confirm.WaitContext(ctx)
	if err != nil {
		return false, err
	}
	select {
	case <-s.returned: // basic.return arrives before the confirm
		return false, nil
	default:
		return confirmed || s.fault == ignoresNegative, nil
	}
}

// settle settles a delivery on its channel. After an error, the broker redelivers the message.
func (s *session) settle(d amqp.Delivery, verb contract.Verb) {
	channel := s.consumes
	if s.fault == latestChannel {
		s.rawProgram.mu.Lock()
		channel = s.current
		s.rawProgram.mu.Unlock()
	}
	if s.fault == acksBefore {
		return
	}
	switch verb {
	case contract.VerbAck:
		_ = channel.Ack(d.DeliveryTag, s.fault == acksMultiple)
	case contract.VerbReject:
		_ = channel.Reject(d.DeliveryTag, false)
	case contract.VerbRequeue:
		_ = channel.Reject(d.DeliveryTag, true)
	case contract.VerbReturn:
		_ = channel.Nack(d.DeliveryTag, false, true)
	case contract.VerbPublish: // settled by an ack
	}
}

// plain converts tables of amqp091-go to maps, which package contract reads.
func plain(value any) any {
	switch value := value.(type) {
	case amqp.Table:
		table := make(map[string]any, len(value))
		for name, each := range value {
			table[name] = plain(each)
		}
		return table
	case []any:
		list := slices.Clone(value)
		for i, each := range list {
			list[i] = plain(each)
		}
		return list
	}
	return value
}
