package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/hooks"
	"github.com/warren-mq/warren/consumer/internal/memory"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// fixture runs a consumer on an in-memory broker inside a bubble of synctest.
type fixture struct {
	*memory.Broker

	consumer *consumer.Consumer
	stop     context.CancelFunc
	ended    chan error
	contract contract.Contract

	mu     sync.Mutex
	states []string
}

func withTransport(b transport.Transport) consumer.ConnOption {
	option, _ := hooks.WithTransport(b).(consumer.ConnOption)
	return option
}

func quiet() consumer.Option {
	return consumer.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
}

func run[T any](t *testing.T, current contract.Contract, handle consumer.Handler[T], options ...consumer.Option) *fixture {
	t.Helper()
	return start(t, current, func(*memory.Broker) {}, handle, options...)
}

// start calls prepare with the broker before it runs the consumer.
func start[T any](t *testing.T, current contract.Contract, prepare func(*memory.Broker), handle consumer.Handler[T], options ...consumer.Option) *fixture {
	t.Helper()
	return startWith(t, current, prepare, func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
		return consumer.New(conn, source, handle, options...)
	}, options...)
}

// create is consumer.New or NewBatch with a handler.
type create func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error)

func startWith(t *testing.T, current contract.Contract, prepare func(*memory.Broker), makeConsumer create, options ...consumer.Option) *fixture {
	t.Helper()
	b := &fixture{Broker: memory.New(current), ended: make(chan error, 1), contract: current}
	prepare(b.Broker)
	t.Cleanup(b.Close)
	observe := consumer.WithObserver(consumer.Observer{State: func(to consumer.Transition) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.states = append(b.states, string(to.To))
	}})
	made, err := makeConsumer(consumer.NewConn(nil, withTransport(b.Broker)), current, append([]consumer.Option{quiet(), observe}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	b.consumer = made
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	go func() { b.ended <- made.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	return b
}

func (b *fixture) send(t *testing.T, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if !b.Publish("", b.contract.Queue, amqp.Publishing{MessageId: body, Body: []byte(body)}) {
			t.Fatalf("queue %q is not there", b.contract.Queue)
		}
	}
}

// end stops the consumer and returns the result of Run.
func (b *fixture) end() error {
	b.stop()
	return <-b.ended
}

// dead lists the dead letters as body, kind of failure and retry count.
func (b *fixture) dead() []string {
	var found []string
	for _, m := range b.Messages(b.contract.DeadLetterQueue) {
		found = append(found, fmt.Sprintf("%s %v %v", m.Body, m.Headers["x-failure-kind"], m.Headers["x-retry-count"]))
	}
	return found
}

// pass lets d pass and waits until all goroutines are blocked.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// attempts records when each message was handled.
type attempts struct {
	mu    sync.Mutex
	began time.Time
	all   []string
}

func (a *attempts) note(m *consumer.Message[string]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, fmt.Sprintf("%s %d/%d at %s", m.Body, m.Attempt(), m.MaxAttempts(), time.Since(a.began)))
}

func TestAFailedMessageIsRedeliveredAfterTheDelayOfEachTier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &attempts{began: time.Now()}
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			seen.note(m)
			return errors.New("no stock")
		})
		b.send(t, "a")
		pass(3 * time.Hour)
		equal(t, "attempts", []string{
			"a 1/4 at 0s", "a 2/4 at 30s", "a 3/4 at 5m30s", "a 4/4 at 35m30s",
		}, seen.all)
		equal(t, "dead letters", []string{"a exhausted 4"}, b.dead())
		equal(t, "unsettled", 0, b.Unsettled(b.contract.DeadLetterQueue))
		equal(t, "Run", nil, b.end())
	})
}

// Without a tier, the consumer holds a message before it returns it, because the broker redelivers it immediately.
func TestAMessageWithoutATierIsHeld(t *testing.T) {
	t.Parallel()
	held := contract.Default("orders")
	held.Strategy, held.MaxAttempts, held.Tiers = contract.StrategyRequeue, 5, nil
	byBroker := held
	byBroker.RedeliveryDelay = &contract.RedeliveryDelay{Min: contract.Duration(time.Minute), Max: contract.Duration(time.Hour)}
	for name, test := range map[string]struct {
		contract contract.Contract
		returns  error
		want     []string
	}{
		"a failure": {held, io.EOF, []string{"a 1/5 at 0s", "a 2/5 at 100ms", "a 3/5 at 300ms", "a 4/5 at 600ms", "a 5/5 at 1s"}},
		"a failure that the broker delays": {
			byBroker, io.EOF, []string{"a 1/5 at 0s", "a 2/5 at 0s", "a 3/5 at 0s", "a 4/5 at 0s", "a 5/5 at 0s"}, // not in memory
		},
		"a deferral":      {held, consumer.Defer(10 * time.Second), []string{"a 1/5 at 0s", "a 1/5 at 10s", "a 1/5 at 20s"}},
		"a long deferral": {held, consumer.Defer(time.Hour), []string{"a 1/5 at 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := &attempts{began: time.Now()}
				b := run(t, test.contract, func(_ context.Context, m *consumer.Message[string]) error {
					if seen.note(m); len(seen.all) > 10 {
						return nil // ends a hot loop
					}
					return test.returns
				})
				b.send(t, "a")
				pass(29 * time.Second)
				equal(t, "Run", nil, b.end())
				equal(t, "attempts", test.want, seen.all)
			})
		})
	}
}

// brokenError is an error whose nil pointer panics when errors.As unwraps it.
type brokenError struct{ cause error }

func (*brokenError) Error() string { return "broken" }

func (e *brokenError) Unwrap() error { return e.cause }

func TestResultOfAHandlerSettlesTheMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handle consumer.Handler[string]
		text   func(error) string
		dead   []string
		waits  int
	}{
		"nil acks":                   {handle: func(context.Context, *consumer.Message[string]) error { return nil }},
		"Discard acks":               {handle: func(context.Context, *consumer.Message[string]) error { return consumer.Discard(io.EOF) }},
		"an error waits in a tier":   {handle: func(context.Context, *consumer.Message[string]) error { return io.EOF }, waits: 1},
		"RetryAfter waits in a tier": {handle: func(context.Context, *consumer.Message[string]) error { return consumer.RetryAfter(time.Hour, io.EOF) }, waits: 1},
		"Defer waits in a tier":      {handle: func(context.Context, *consumer.Message[string]) error { return consumer.Defer(time.Hour) }, waits: 1},
		"Permanent is dead-lettered": {handle: func(context.Context, *consumer.Message[string]) error { return consumer.Permanent(io.EOF) }, dead: []string{"a permanent 1"}},
		"a wrapped Permanent, too": {handle: func(context.Context, *consumer.Message[string]) error {
			return fmt.Errorf("ship: %w", consumer.Permanent(io.EOF))
		}, dead: []string{"a permanent 1"}},
		"a panic is a failure": {handle: func(context.Context, *consumer.Message[string]) error { panic("no stock") }, waits: 1},
		"an error that panics": {handle: func(context.Context, *consumer.Message[string]) error { return (*brokenError)(nil) }, waits: 1},
		"a panic without a text": {
			handle: func(context.Context, *consumer.Message[string]) error { panic("no stock") },
			text:   func(error) string { panic("no text") }, waits: 1,
		},
		"Permanent without a text": {
			handle: func(context.Context, *consumer.Message[string]) error { return consumer.Permanent(io.EOF) },
			text:   func(error) string { panic("no text") }, dead: []string{"a permanent 1"},
		},
		"an ended goroutine is a failure": {handle: func(context.Context, *consumer.Message[string]) error { goexit(); return nil }, waits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				options := []consumer.Option{consumer.WithConcurrency(1)}
				if test.text != nil {
					options = append(options, consumer.WithFailureText(test.text))
				}
				b := run(t, contract.Default("orders"), test.handle, options...)
				b.send(t, "a")
				synctest.Wait()
				pass(time.Second)
				equal(t, "dead letters", test.dead, b.dead())
				equal(t, "waiting", test.waits, b.Unsettled(b.contract.DeadLetterQueue))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestWorkersOutliveTheirHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := []string{}
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			switch {
			case strings.HasPrefix(m.Body, "exit"):
				goexit()
			case strings.HasPrefix(m.Body, "panic"):
				panic(m.Body)
			}
			handled = append(handled, m.Body)
			return nil
		}, consumer.WithConcurrency(1))
		b.send(t, "exit 1", "panic 1", "exit 2", "panic 2", "good")
		pass(time.Second)
		equal(t, "handled", []string{"good"}, handled)
		equal(t, "in a tier", 4, b.Unsettled(b.contract.DeadLetterQueue))
		equal(t, "Run", nil, b.end())
	})
}

func TestUndecodableMessagesAreDeadLettered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), consumer.Decode(func(d *consumer.Delivery) (int, error) {
			if string(d.Raw.Body) == "panic" {
				panic("odd body")
			}
			return 0, errors.New("unexpected {")
		}, func(context.Context, *consumer.Message[int]) error { return nil }))
		b.send(t, "a", "panic")
		pass(time.Second)
		dead := b.dead()
		slices.Sort(dead)
		equal(t, "dead letters", []string{"a undecodable 0", "panic undecodable 0"}, dead)
		equal(t, "Run", nil, b.end())
	})
}

func TestStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error { return nil })
		synctest.Wait()
		b.Cut()
		pass(time.Second)
		equal(t, "health", true, b.consumer.Health().Ready)
		equal(t, "Run", nil, b.end())
		up := []string{"Connecting", "DeclaringQoS", "Consuming", "Delivering"}
		equal(t, "states", slices.Concat(up, []string{"Reconnecting"}, up, []string{"ShuttingDown", "DrainingQueue", "Disconnected"}), b.states)
	})
}

func TestADrainWaitsForHandlersAndReturnsUnhandledMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			time.Sleep(10 * time.Second)
			handled++
			return nil
		}, consumer.WithConcurrency(1), consumer.WithPrefetch(3))
		b.send(t, "a", "b", "c")
		synctest.Wait()
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "took", 10*time.Second, time.Since(began))
		equal(t, "handled", 1, handled)
		left := b.Messages("orders")
		equal(t, "left in the queue", 2, len(left))
		for _, m := range left {
			equal(t, "counted deliveries", nil, m.Headers["x-delivery-count"])
		}
	})
}

func TestADrainCancelsSlowHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		b.send(t, "a")
		synctest.Wait()
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "took", 20*time.Second, time.Since(began))
		equal(t, "cause", consumer.ErrDraining, cause)
		equal(t, "left in the queue", 1, len(b.Messages("orders")))
	})
}

// A handler that asks Draining can end before the drain timeout.
func TestAHandlerLearnsOfADrainAtItsBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
			<-consumer.Draining(ctx)
			equal(t, "the context has ended", nil, ctx.Err())
			return nil
		}, consumer.WithMiddleware(func(next consumer.HandleFunc) consumer.HandleFunc {
			return func(ctx context.Context, d *consumer.Delivery) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				return next(ctx, d)
			}
		}))
		b.send(t, "a")
		pass(time.Minute)
		equal(t, "handlers that run", 1, b.consumer.Health().Active)
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "the drain took", time.Duration(0), time.Since(began))
		equal(t, "unsettled", 0, b.Unsettled(""))
		equal(t, "outside of a handler", true, consumer.Draining(t.Context()) == nil)
	})
}

func TestADrainAbandonsHandlersThatIgnoreTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			time.Sleep(time.Hour)
			return nil
		})
		b.send(t, "a")
		synctest.Wait()
		began := time.Now()
		err := b.end()
		equal(t, "took", 22*time.Second, time.Since(began))
		abandoned := &consumer.DrainError{}
		if !errors.As(err, &abandoned) {
			t.Fatalf("Run returned %v", err)
		}
		equal(t, "abandoned", []string{"a"}, abandoned.Abandoned)
		equal(t, "left in the queue", 1, len(b.Messages("orders")))
		pass(time.Hour) // the result of the handler is ignored
		equal(t, "left in the queue", 1, len(b.Messages("orders")))
	})
}

func TestALostDeliveryCancelsItsHandlerAndIsNotSettled(t *testing.T) {
	t.Parallel()
	for name, returned := range map[string]func(context.Context) error{
		"that returns nil":                      func(context.Context) error { return nil },
		"that returns the error of its context": context.Context.Err,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var causes []error
				count, stale := 0, make(chan bool, 2)
				b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
					if count++; count > 1 {
						return nil
					}
					<-ctx.Done()
					causes = append(causes, context.Cause(ctx))
					return returned(ctx)
				}, consumer.WithObserver(consumer.Observer{Settled: func(end consumer.Settlement) { stale <- end.Stale }}))
				b.send(t, "a")
				synctest.Wait()
				b.Cut()
				pass(time.Second)
				equal(t, "causes", 1, len(causes))
				equal(t, "lost", true, errors.Is(causes[0], consumer.ErrDeliveryLost))
				equal(t, "handled", 2, count)
				equal(t, "stale, and then settled", []bool{true, false}, []bool{<-stale, <-stale})
				equal(t, "unsettled", 0, b.Unsettled(""))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestAHandlerThatTimesOutFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(ctx context.Context, m *consumer.Message[string]) error {
			if m.Attempt() == 2 {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, consumer.WithTimeout(time.Minute))
		b.send(t, "a")
		pass(61 * time.Second)
		waiting := b.Messages("orders.retry.30s")
		equal(t, "in the tier", 1, len(waiting))
		equal(t, "kind", any("timeout"), waiting[0].Headers["x-failure-kind"])
		pass(time.Minute)
		equal(t, "unsettled", 0, b.Unsettled(""))
		equal(t, "Run", nil, b.end())
	})
}

func TestARefusedCopyIsPublishedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ begin, end func(b *fixture) }{
		"the tier is missing":    {func(b *fixture) { b.Delete("orders.retry.30s") }, func(b *fixture) { b.Declare(b.contract) }},
		"the tier is full":       {func(b *fixture) { b.Refuse("orders.retry.30s", true) }, func(b *fixture) { b.Refuse("orders.retry.30s", false) }},
		"publishers are blocked": {func(b *fixture) { b.Block(true) }, func(b *fixture) { b.Block(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error { return io.EOF })
				synctest.Wait()
				test.begin(b)
				b.send(t, "a")
				pass(10 * time.Minute)
				equal(t, "ready", name == "publishers are blocked", b.consumer.Health().Ready)
				if open := b.Channels(); open > 3 {
					t.Errorf("%d channels are open", open)
				}
				test.end(b)
				pass(15 * time.Second)
				equal(t, "ready in the end", true, b.consumer.Health().Ready)
				equal(t, "in the tier", 1, len(b.Messages("orders.retry.30s")))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestAMessageIsRejectedIfParkingIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var actions []contract.Action
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error { return consumer.Permanent(io.EOF) },
			consumer.WithObserver(consumer.Observer{Settled: func(end consumer.Settlement) { actions = append(actions, end.Action) }}))
		synctest.Wait()
		b.Refuse("orders.dlq", true)
		b.send(t, "a")
		pass(29 * time.Second)
		equal(t, "dead letters", 0, len(b.dead()))
		pass(20 * time.Second)
		equal(t, "dead letters", []string{"a <nil> <nil>"}, b.dead()) // rejected: the broker dead-lettered it
		equal(t, "actions", []contract.Action{{Verb: contract.VerbReject, Kind: contract.KindPermanent, GivenUp: true}}, actions)
		equal(t, "ready, as no message waits", true, b.consumer.Health().Ready)
		equal(t, "Run", nil, b.end())
	})
}
