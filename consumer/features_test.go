package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

func TestMux(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		mux := consumer.NewMux(consumer.ByType)
		consumer.AddHandler(mux, "placed", func(_ context.Context, m *consumer.Message[struct{ Number int }]) error {
			got = append(got, fmt.Sprint("placed ", m.Body.Number))
			return nil
		})
		consumer.AddHandler(mux, "note", func(_ context.Context, m *consumer.Message[string]) error {
			got = append(got, "note "+m.Body)
			return nil
		})
		number := func(d *consumer.Delivery) (int, error) { return strconv.Atoi(string(d.Raw.Body)) }
		consumer.AddHandler(mux, "number", consumer.Decode(number, func(_ context.Context, m *consumer.Message[int]) error {
			got = append(got, fmt.Sprint("number ", m.Body))
			return nil
		}))
		b := memory.New(contract.Default("orders"))
		made, err := consumer.New(consumer.NewConn(nil, withTransport(b)), contract.Default("orders"), mux.Handle, quiet(), consumer.WithConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- made.Run(ctx) }()
		for _, m := range []amqp.Publishing{
			{Type: "placed", Body: []byte(`{"Number": 7}`)},
			{Type: "note", Body: []byte("hello")},
			{Type: "placed", Body: []byte(`{`)},
			{Type: "other"},
			{Type: "number", Body: []byte("0x7")},
			{Type: "number", Body: []byte("7")},
		} {
			b.Publish("", "orders", m)
		}
		pass(time.Second)
		equal(t, "handled", []string{"placed 7", "note hello", "number 7"}, got)
		kinds := map[any]int{}
		for _, dead := range b.Messages("orders.dlq") {
			kinds[dead.Headers["x-failure-kind"]]++
		}
		equal(t, "dead letters", map[any]int{"undecodable": 2, "permanent": 1}, kinds)
		cancel()
		equal(t, "Run", nil, <-ended)
	})
}

// mapStore is an in-memory Store that returns the errors doneErr and markErr.
type mapStore struct {
	marked           map[string]bool
	doneErr, markErr error
}

func (s *mapStore) Done(_ context.Context, key string) (bool, error) { return s.marked[key], s.doneErr }

func (s *mapStore) Mark(_ context.Context, key string) error {
	if s.markErr == nil {
		s.marked[key] = true
	}
	return s.markErr
}

func TestDedupe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ids       []string
		store     mapStore
		handled   int
		inTheTier int
	}{
		"the same message twice":    {[]string{"a", "a", "b"}, mapStore{}, 2, 0},
		"without a key":             {[]string{"", ""}, mapStore{}, 2, 0},
		"a store that cannot read":  {[]string{"a"}, mapStore{doneErr: io.EOF}, 0, 1},
		"a store that cannot write": {[]string{"a"}, mapStore{markErr: io.EOF}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handled, store := 0, test.store
				store.marked = map[string]bool{}
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
					handled++
					return nil
				}, consumer.WithConcurrency(1), consumer.WithMiddleware(consumer.Dedupe(&store, consumer.ByMessageID)))
				for _, id := range test.ids {
					b.Publish("", "orders", amqp.Publishing{MessageId: id})
				}
				pass(time.Second)
				equal(t, "handled", test.handled, handled)
				equal(t, "in the tier", test.inTheTier, len(b.Messages("orders.retry.30s")))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// limiter grants one permission for each token.
type limiter struct {
	tokens            chan struct{}
	mu                sync.Mutex
	granted, returned int
}

func (l *limiter) Acquire(ctx context.Context) (func(), error) {
	select {
	case <-l.tokens:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.granted++
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.returned++
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *limiter) inUse() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted - l.returned
}

func TestALimiterDelaysMessagesButNotADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := &limiter{tokens: make(chan struct{}, 10)}
		limits.tokens <- struct{}{}
		limits.tokens <- struct{}{}
		handled := 0
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			handled++
			return nil
		}, consumer.WithConcurrency(1), consumer.WithLimiter(limits))
		b.send(t, "a", "b", "c", "d")
		pass(time.Minute)
		equal(t, "handled", 2, handled)
		health := b.consumer.Health()
		equal(t, "paused", true, health.Paused)
		equal(t, "ready", true, health.Ready)
		equal(t, "message", "messages wait for the limiter", health.Message)
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "the drain took", time.Duration(0), time.Since(began))
		equal(t, "permissions in use", 0, limits.inUse())
		equal(t, "left in the queue", 2, len(b.Messages("orders")))
	})
}

// A function of the application may end its goroutine, as testing.T.FailNow does. The message is settled, and the consumer continues.
func TestAFunctionThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	once := func() func() {
		calls := atomic.Int64{}
		return func() {
			if calls.Add(1) <= 2 {
				goexit()
			}
		}
	}
	for name, option := range map[string]func(end func()) consumer.Option{
		"Observer.Settled": func(end func()) consumer.Option {
			return consumer.WithObserver(consumer.Observer{Settled: func(consumer.Settlement) { end() }})
		},
		"Observer.Published": func(end func()) consumer.Option {
			return consumer.WithObserver(consumer.Observer{Published: func(consumer.Publication) { end() }})
		},
		"Limiter.Acquire": func(end func()) consumer.Option {
			return consumer.WithLimiter(consumer.LimiterFunc(func(context.Context) (func(), error) {
				end()
				return nil, nil
			}))
		},
		"release": func(end func()) consumer.Option {
			return consumer.WithLimiter(consumer.LimiterFunc(func(context.Context) (func(), error) { return end, nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := &record{}
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
					return consumer.Permanent(io.EOF)
				}, option(once()), consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
				b.send(t, "a", "b", "c")
				pass(5 * time.Second)
				equal(t, "dead letters", 3, len(b.dead()))
				equal(t, "unsettled", 0, b.Unsettled("orders.dlq"))
				equal(t, "logged", 2, log.count("A function of the application ended its goroutine"))
				began := time.Now()
				equal(t, "Run", nil, b.end())
				equal(t, "the drain took", time.Duration(0), time.Since(began))
			})
		})
	}
}

// A limiter should return an error when its context ends, and a function otherwise.
func TestALimiterWithoutARelease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit   consumer.LimiterFunc
		handled int
	}{
		"grants each permission": {func(context.Context) (func(), error) { return nil, nil }, 2},
		"waits for its context": {func(ctx context.Context) (func(), error) {
			<-ctx.Done()
			return nil, nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handled := atomic.Int64{}
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
					handled.Add(1)
					return nil
				}, consumer.WithLimiter(test.limit))
				b.send(t, "a", "b")
				pass(time.Second)
				equal(t, "handled", test.handled, int(handled.Load()))
				equal(t, "Run", nil, b.end())
				equal(t, "left in the queue", 2-test.handled, len(b.Messages("orders")))
			})
		})
	}
}

// The limiter may use a server that is down.
func TestALimiterThatFailsIsCalledEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failures, handled := 0, make(chan time.Time, 1)
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			handled <- time.Now()
			return nil
		}, consumer.WithLimiter(consumer.LimiterFunc(func(context.Context) (func(), error) {
			if failures == 10 {
				return nil, nil
			}
			failures++
			return nil, io.EOF
		})))
		began := time.Now()
		b.send(t, "a")
		equal(t, "handled after", 10*time.Second, (<-handled).Sub(began))
		equal(t, "Run", nil, b.end())
	})
}

// The permission of a message returns only when the broker has confirmed its copy.
func TestALimiterGetsItsPermissionBackAfterTheSettlement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := &limiter{tokens: make(chan struct{}, 10)}
		limits.tokens <- struct{}{}
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error { return io.EOF }, consumer.WithLimiter(limits))
		b.Refuse("orders.retry.30s", true)
		b.send(t, "a")
		pass(time.Minute)
		equal(t, "permissions in use while the tier is full", 1, limits.inUse())
		b.Refuse("orders.retry.30s", false)
		pass(15 * time.Second)
		equal(t, "in the tier", 1, len(b.Messages("orders.retry.30s")))
		equal(t, "permissions in use", 0, limits.inUse())
		equal(t, "Run", nil, b.end())
	})
}

func TestWithDefaultPrefetch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options  []consumer.Option
		strategy contract.Strategy
		want     int
	}{
		"is that of a consumer without one": {[]consumer.Option{consumer.WithConcurrency(2)}, contract.StrategyPublish, 7},
		"is less than that of the consumer": {[]consumer.Option{consumer.WithConcurrency(2), consumer.WithPrefetch(3)}, contract.StrategyPublish, 3},
		"is raised to the concurrency":      {[]consumer.Option{consumer.WithConcurrency(9)}, contract.StrategyPublish, 9},
		"does not apply under Requeue":      {[]consumer.Option{consumer.WithConcurrency(2)}, contract.StrategyRequeue, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				current := contract.Default("orders")
				if current.Strategy = test.strategy; test.strategy == contract.StrategyRequeue {
					current.Tiers = nil
				}
				b := memory.New(current)
				defer b.Close()
				made, err := consumer.New(consumer.NewConn(nil, withTransport(b), consumer.WithDefaultPrefetch(7)), current,
					func(context.Context, *consumer.Message[string]) error { <-release; return nil }, append(test.options, quiet())...)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- made.Run(ctx) }()
				for range 20 {
					b.Publish("", "orders", amqp.Publishing{})
				}
				pass(time.Second)
				equal(t, "unsettled", test.want, 20-len(b.Messages("orders")))
				close(release)
				cancel()
				equal(t, "Run", nil, <-ended)
			})
		})
	}
}

func TestWithDefaultPrefetchOutsideItsRange(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{-1, 70_000} {
		conn := consumer.NewConn(nil, consumer.WithDefaultPrefetch(prefetch))
		_, err := consumer.New(conn, contract.Default("orders"), ignore)
		if want := fmt.Sprintf("WithDefaultPrefetch(%d) must be between 0 and 65535", prefetch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAckAlways(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results := map[string]contract.Result{}
		decode := func(d *consumer.Delivery) (string, error) {
			if string(d.Raw.Body) == "{" {
				return "", errors.New("unexpected end")
			}
			return string(d.Raw.Body), nil
		}
		b := run(t, contract.Default("orders"), consumer.Decode(decode, func(_ context.Context, m *consumer.Message[string]) error {
			switch m.Body {
			case "fails":
				return errors.New("no stock")
			case "permanent":
				return consumer.Permanent(errors.New("no such customer"))
			}
			return nil
		}), consumer.WithConcurrency(1), consumer.WithMiddleware(consumer.AckAlways), consumer.WithObserver(consumer.Observer{
			Settled: func(end consumer.Settlement) { results[end.Delivery.ID()] = end.Result },
		}))
		b.send(t, "fails", "permanent", "succeeds", "{")
		pass(time.Hour)
		equal(t, "Run", nil, b.end())
		equal(t, "results", map[string]contract.Result{
			"fails": contract.ResultDiscarded, "permanent": contract.ResultDiscarded, "succeeds": contract.ResultSucceeded, "{": contract.ResultUndecodable,
		}, results)
		equal(t, "left", 0, len(b.Messages("orders")))
		equal(t, "dead letters", []string{"{ undecodable 0"}, b.dead())
	})
}

// Copies keep the header with the number of redrives.
func TestRedrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen [][2]int
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			seen = append(seen, [2]int{m.Redrives(), m.Attempt()})
			if m.Attempt() == 1 {
				return errors.New("no stock")
			}
			return nil
		})
		b.Publish("", "orders", amqp.Publishing{Headers: amqp.Table{"x-warren-redrive-count": int32(2)}})
		pass(time.Hour)
		equal(t, "redrives and attempts", [][2]int{{2, 1}, {2, 2}}, seen)
		equal(t, "Run", nil, b.end())
	})
}

func TestReconnectedIsReportedAfterALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reported := make(chan consumer.Reconnection, 10)
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error { return nil },
			consumer.WithObserver(consumer.Observer{Reconnected: func(r consumer.Reconnection) { reported <- r }}))
		pass(time.Second)
		equal(t, "reported at the start", 0, len(reported))
		b.Cut()
		pass(time.Second)
		got := <-reported
		equal(t, "queue", "orders", got.Queue)
		equal(t, "attempts", 1, got.Attempts)
		if got.Took < 200*time.Millisecond || got.Took > 300*time.Millisecond {
			t.Errorf("took %s", got.Took)
		}
		equal(t, "Run", nil, b.end())
	})
}

// If each connection lasts longer than it takes to connect, the consumer reconnects without a growing delay.
func TestReconnectsImmediatelyAfterALongSession(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		held        time.Duration
		maxDuration time.Duration
	}{
		"held for 3 s":                 {3 * time.Second, 300 * time.Millisecond},
		"ended immediately, ten times": {0, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reported := make(chan consumer.Reconnection, 20)
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error { return nil },
					consumer.WithObserver(consumer.Observer{Reconnected: func(r consumer.Reconnection) { reported <- r }}))
				last := time.Duration(0)
				for range 10 {
					pass(test.held)
					b.Cut()
					last = (<-reported).Took
				}
				if last > test.maxDuration || 2*last < test.maxDuration {
					t.Errorf("the last reconnection took %s, should be at most %s and not much less", last, test.maxDuration)
				}
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestAMessageThatCrashesTheProcessIsParkedUnhandled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
			handled++
			<-ctx.Done() // the connection is closed, as after a crash
			return nil
		}, consumer.WithMaxCrashes(3), consumer.WithFailureText(func(error) string { panic("no text") }))
		b.send(t, "a")
		for range 5 {
			time.Sleep(time.Minute)
			b.Cut()
		}
		pass(time.Minute)
		equal(t, "handled", 3, handled)
		equal(t, "dead letters", []string{"a crashed 0"}, b.dead())
		equal(t, "text", any("WithFailureText panicked: no text"), b.Messages("orders.dlq")[0].Headers[contract.HeaderFailureMessage])
		equal(t, "Run", nil, b.end())
	})
}

func writeContract(t *testing.T, path string, c contract.Contract) {
	t.Helper()
	document, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(path, document, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAChangedContractIsUsed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		var states []consumer.State
		made, err := consumer.New(consumer.NewConn(nil, withTransport(b)), contract.File(path),
			func(context.Context, *consumer.Message[string]) error { return io.EOF }, quiet(),
			consumer.WithObserver(consumer.Observer{State: func(to consumer.Transition) { states = append(states, to.To) }}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- made.Run(ctx) }()
		pass(time.Minute)
		equal(t, "ready without a contract", false, made.Health().Ready)

		current := contract.Default("orders")
		writeContract(t, path, current)
		pass(time.Minute)
		equal(t, "ready with a contract", true, made.Health().Ready)
		b.Publish("", "orders", amqp.Publishing{Body: []byte("a")})
		pass(time.Second)
		equal(t, "in the first tier", 1, len(b.Messages("orders.retry.30s")))

		current.Tiers = current.Tiers[2:]
		writeContract(t, path, current)
		states = nil
		pass(31 * time.Second)
		equal(t, "states after the tiers have changed", 0, len(states))
		b.Publish("", "orders", amqp.Publishing{Body: []byte("b")})
		pass(time.Second)
		equal(t, "the new message is in the last tier", true, slices.ContainsFunc(b.Messages("orders.retry.30m"),
			func(m amqp.Delivery) bool { return string(m.Body) == "b" }))

		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		equal(t, "ready with a broken contract", true, made.Health().Ready)

		current.Strategy, current.Tiers = contract.StrategyRequeue, nil
		writeContract(t, path, current)
		pass(31 * time.Second)
		equal(t, "states after the strategy has changed", []consumer.State{
			consumer.StateShuttingDown, consumer.StateDrainingQueue, consumer.StateConnecting, consumer.StateDeclaringQoS, consumer.StateConsuming, consumer.StateDelivering,
		}, states)
		cancel()
		equal(t, "Run", nil, <-ended)
		b.Close()
	})
}

// A running consumer keeps its contract if the new one does not fit the options, also after a reconnect.
func TestAContractThatDoesNotFitTheOptionsChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	synctest.Test(t, func(t *testing.T) {
		current := contract.Default("orders")
		writeContract(t, path, current)
		b := memory.New(current)
		var states []consumer.State
		made, err := consumer.New(consumer.NewConn(nil, withTransport(b)), contract.File(path),
			func(context.Context, *consumer.Message[string]) error { return nil }, quiet(), consumer.WithTimeout(20*time.Minute),
			consumer.WithObserver(consumer.Observer{State: func(to consumer.Transition) { states = append(states, to.To) }}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- made.Run(ctx) }()
		synctest.Wait()
		limit := contract.Duration(10 * time.Minute)
		current.ConsumerTimeout = &limit
		writeContract(t, path, current)
		states = nil
		pass(5 * time.Minute)
		equal(t, "states", 0, len(states))
		b.Cut()
		pass(10 * time.Second)
		equal(t, "ready after a reconnect", true, made.Health().Ready)
		cancel()
		equal(t, "Run", nil, <-ended)
	})
}

func TestNewRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	handle := func(context.Context, *consumer.Message[string]) error { return nil }
	conn := consumer.NewConn(consumer.URI("amqp://localhost"))
	broken := contract.Default("orders")
	broken.MaxAttempts = 0
	for name, test := range map[string]struct {
		contract contract.Contract
		options  []consumer.Option
		want     string
	}{
		"the contract":                {broken, nil, "maxAttempts is 0"},
		"the concurrency":             {contract.Default("orders"), []consumer.Option{consumer.WithConcurrency(-1)}, "WithConcurrency(-1)"},
		"a small prefetch":            {contract.Default("orders"), []consumer.Option{consumer.WithPrefetch(5)}, "WithPrefetch(5) must be between the concurrency, 10"},
		"a long timeout":              {contract.Default("orders"), []consumer.Option{consumer.WithTimeout(time.Hour)}, "at most 27m0s, nine tenths of the consumer timeout of the broker"},
		"nearly the consumer timeout": {contract.Default("orders"), []consumer.Option{consumer.WithTimeout(28 * time.Minute)}, "WithTimeout(28m0s) must be at most 27m0s"},
		"a negative timeout":          {contract.Default("orders"), []consumer.Option{consumer.WithTimeout(-time.Second)}, "WithTimeout(-1s)"},
		"the drain timeout":           {contract.Default("orders"), []consumer.Option{consumer.WithDrainTimeout(-1)}, "WithDrainTimeout"},
		"the maximum of crashes":      {contract.Default("orders"), []consumer.Option{consumer.WithMaxCrashes(-1)}, "WithMaxCrashes"},
		"a breaker without interval":  {contract.Default("orders"), []consumer.Option{consumer.WithBreaker(3, 0)}, "WithBreaker(3, 0s) must be positive"},
		"a negative breaker":          {contract.Default("orders"), []consumer.Option{consumer.WithBreaker(-1, time.Second)}, "WithBreaker(-1, 1s) must be"},
		"no logger":                   {contract.Default("orders"), []consumer.Option{consumer.WithLogger(nil)}, "must not be given nil"},
		"no middleware":               {contract.Default("orders"), []consumer.Option{consumer.WithMiddleware(nil)}, "must not be given nil"},
		"middleware with a nil in it": {contract.Default("orders"), []consumer.Option{consumer.WithMiddleware(consumer.AckAlways, nil)}, "must not be given nil"},
	} {
		if _, err := consumer.New(conn, test.contract, handle, test.options...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want %q, got %v", name, test.want, err)
		}
	}
	if _, err := consumer.New[string](nil, contract.Default("orders"), handle); err == nil {
		t.Error("New took no Conn")
	}
	decode := func(*consumer.Delivery) (string, error) { return "", nil }
	for name, handle := range map[string]consumer.Handler[[]byte]{
		"no handler":               nil,
		"a decoder for no handler": consumer.Decode[string](decode, nil),
		"no decoder":               consumer.Decode(nil, handle),
	} {
		if _, err := consumer.New(conn, contract.Default("orders"), handle); err == nil {
			t.Errorf("New took %s", name)
		}
	}
}

func TestMuxRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	mux, handle := consumer.NewMux(consumer.ByType), func(context.Context, *consumer.Message[string]) error { return nil }
	consumer.AddHandler(mux, "placed", handle)
	for name, test := range map[string]struct {
		call func()
		want string
	}{
		"no key":      {func() { consumer.NewMux(nil) }, "consumer: NewMux was given nil"},
		"no handler":  {func() { consumer.AddHandler[string](mux, "note", nil) }, `consumer: AddHandler was given nil for "note"`},
		"no decoder":  {func() { consumer.AddHandler(mux, "note", consumer.Decode(nil, handle)) }, `consumer: AddHandler was given nil for "note"`},
		"a key twice": {func() { consumer.AddHandler(mux, "placed", handle) }, `consumer: AddHandler was called twice for "placed"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() { equal(t, "panic", any(test.want), recover()) }()
			test.call()
		})
	}
}

func TestHealthHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error { return nil })
		probe := func(path string) int {
			recorder := httptest.NewRecorder()
			consumer.HealthHandler(b.consumer).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			return recorder.Code
		}
		synctest.Wait()
		equal(t, "/readyz", http.StatusOK, probe("/readyz"))
		equal(t, "/livez", http.StatusOK, probe("/livez"))
		b.Delete("orders")
		pass(10 * time.Minute)
		equal(t, "/readyz without a queue", http.StatusServiceUnavailable, probe("/readyz"))
		equal(t, "/livez without a queue", http.StatusOK, probe("/livez"))
		equal(t, "message", true, strings.Contains(b.consumer.Health().Message, `queue "orders" does not exist in virtual host "/"; check that the ConsumerQueue is Ready`))
		equal(t, "Run", nil, b.end())
		equal(t, "/livez in the end", http.StatusServiceUnavailable, probe("/livez"))
	})
}

func TestCredentialsOfAFolder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a URI":              {map[string]string{"uri": "amqp://a:b@c:1/d\n"}, "amqp://a:b@c:1/d"},
		"parts":              {map[string]string{"host": "rabbit", "username": "u", "password": "p@/ss", "virtual-host": "a/b"}, "amqp://u:p%40%2Fss@rabbit:5672/a%2Fb"},
		"the default vhost":  {map[string]string{"host": "rabbit", "port": "5671"}, "amqps://rabbit:5671/%2F"},
		"an address of IPv6": {map[string]string{"host": "::1"}, "amqp://[::1]:5672/%2F"},
	} {
		folder := t.TempDir()
		for file, text := range test.files {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := consumer.Dir(folder).URI(t.Context())
		equal(t, name+": error", nil, err)
		equal(t, name, test.want, got)
	}
	if _, err := consumer.Dir(t.TempDir()).URI(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestBinding(t *testing.T) {
	root := t.TempDir()
	t.Setenv("SERVICE_BINDING_ROOT", root)
	if _, err := consumer.LoadBinding("orders"); err == nil || !strings.Contains(err.Error(), "spec.contract.configMap") {
		t.Errorf("an empty folder: %v", err)
	}
	folder := filepath.Join(root, "orders")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	writeContract(t, filepath.Join(folder, "contract.json"), contract.Default("orders"))
	binding, err := consumer.LoadBinding("orders")
	equal(t, "error", nil, err)
	current, err := binding.Contract.Load(t.Context())
	equal(t, "error", nil, err)
	equal(t, "queue", "orders", current.Queue)

	t.Setenv("SERVICE_BINDING_ROOT", "")
	if _, err := consumer.LoadBinding("orders"); err == nil || !strings.Contains(err.Error(), "AMQP_URL") {
		t.Errorf("no variables: %v", err)
	}
	t.Setenv("AMQP_URL", "amqp://localhost")
	document, err := json.Marshal(contract.Default("invoices"))
	equal(t, "error", nil, err)
	for name, value := range map[string]string{"a document": string(document), "a path": filepath.Join(folder, "contract.json")} {
		t.Setenv("WARREN_CONTRACT", value)
		binding, err := consumer.LoadBinding("orders")
		equal(t, name+": error", nil, err)
		_, err = binding.Contract.Load(t.Context())
		equal(t, name+": error", nil, err)
	}
}
