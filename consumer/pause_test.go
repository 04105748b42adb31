package consumer_test

import (
	"context"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// pausable runs a consumer whose contract a test can change.
type pausable struct {
	*fixture

	t    *testing.T
	path string
}

// runFile runs a consumer that reads its contract from a file. handle is called with each body. paused is what the contract asks
// for at first.
func runFile(t *testing.T, path string, paused *contract.Pause, handle func(context.Context, string)) *pausable {
	t.Helper()
	p := &pausable{t: t, path: path}
	p.fixture = &fixture{Broker: memory.New(contract.Default("orders")), ended: make(chan error, 1), contract: contract.Default("orders")}
	p.ask(paused)
	observe := consumer.WithObserver(consumer.Observer{State: func(to consumer.Transition) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.states = append(p.states, string(to.To))
	}})
	made, err := consumer.New(consumer.NewConn(nil, withTransport(p.Broker)), contract.File(p.path),
		func(ctx context.Context, m *consumer.Message[string]) error {
			handle(ctx, m.Body)
			return nil
		}, quiet(), observe, consumer.WithConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	p.consumer = made
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	go func() { p.ended <- made.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		p.Close()
		synctest.Wait()
	})
	synctest.Wait()
	return p
}

// ask makes the contract ask for a pause, or for none.
func (p *pausable) ask(pause *contract.Pause) {
	p.t.Helper()
	p.contract.Paused = pause
	writeContract(p.t, p.path, p.contract)
}

// isConsumed reports whether the consumer takes a new message from the queue.
func (p *pausable) isConsumed() bool {
	p.t.Helper()
	before := len(p.Messages("orders"))
	p.send(p.t, "probe")
	synctest.Wait()
	return len(p.Messages("orders")) == before
}

// health returns the health without the times, which equal could not name.
func (p *pausable) health() consumer.Health {
	h := p.consumer.Health()
	h.Since, h.PausedUntil = time.Time{}, nil
	return h
}

func TestAConsumerPausesWhileItsContractAsksForIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		p := runFile(t, path, nil, func(context.Context, string) {
			time.Sleep(5 * time.Second)
			handled++
		})
		pass(28 * time.Second)
		p.send(t, "a", "b", "c", "d", "e")
		until := time.Now().Add(10 * time.Minute)
		p.states = nil
		p.ask(&contract.Pause{ID: "k3v9q2m7xa", Until: until})
		pass(10 * time.Second) // the contract is read after 2 s, while "a" is handled
		equal(t, "handled", 1, handled)
		equal(t, "returned", 4, len(p.Messages("orders")))
		equal(t, "unsettled", 0, p.Unsettled("orders"))
		equal(t, "health", consumer.Health{
			Queue: "orders", State: consumer.StatePaused, Ready: true, Live: true, Paused: true,
			Message: "the operator recreates the queue and has asked the consumers to pause",
		}, p.health())
		equal(t, "paused until", until, *p.consumer.Health().PausedUntil)

		p.ask(nil)
		pass(5 * time.Second)
		equal(t, "states", []string{"Paused", "Connecting", "DeclaringQoS", "Consuming", "Delivering"}, p.states)
		pass(time.Minute)
		equal(t, "handled afterwards", 5, handled)
		equal(t, "paused afterwards", false, p.consumer.Health().Paused || p.consumer.Health().PausedUntil != nil)
		equal(t, "Run", nil, p.end())
	})
}

// A consumer ends a pause by itself, even if the operator or its clock fails.
func TestHowLongAConsumerPauses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ until, want time.Duration }{
		"until has passed":                           {-time.Second, 0},
		"until comes first":                          {3 * time.Minute, 3 * time.Minute},
		"the clock of the operator is an hour ahead": {70 * time.Minute, 10 * time.Minute},
		"until is garbage":                           {100 * 365 * 24 * time.Hour, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "contract.json")
			synctest.Test(t, func(t *testing.T) {
				pause := func(id string) *contract.Pause {
					return &contract.Pause{ID: id, Until: time.Now().Add(test.until)}
				}
				p := runFile(t, path, pause("first"), func(context.Context, string) {})
				equal(t, "consumed at first", test.want == 0, p.isConsumed())
				equal(t, "ready", true, p.consumer.Health().Ready)
				if test.want > 0 {
					pass(test.want - 2*time.Second)
					equal(t, "consumed before the end", false, p.isConsumed())
					pass(3 * time.Second)
				}
				equal(t, "consumed after the end", true, p.isConsumed())
				p.ask(pause("first"))
				pass(time.Minute)
				if test.until > 10*time.Minute {
					equal(t, "consumed although the same pause is asked for again", true, p.isConsumed())
				}
				p.ask(pause("second"))
				pass(time.Minute)
				equal(t, "consumed during another pause", test.want == 0, p.isConsumed())
				equal(t, "Run", nil, p.end())
			})
		})
	}
}

// A handler that outlasts the drain timeout must not delay the recreation.
func TestAPauseInterruptsHandlersAfterTheDrainTimeout(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	synctest.Test(t, func(t *testing.T) {
		var causes []error
		p := runFile(t, path, nil, func(ctx context.Context, _ string) {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
		})
		p.send(t, "a")
		p.ask(&contract.Pause{ID: "k3v9q2m7xa", Until: time.Now().Add(10 * time.Minute)})
		pass(51 * time.Second) // 30 s until the contract is read, 20 s of draining
		equal(t, "causes", []error{consumer.ErrDraining}, causes)
		equal(t, "Run", nil, p.end())
	})
}

// The operator waits until all consumers have gone, so a message at work must be settled and a connection that was lost meanwhile
// must not bring a consumer back.
func TestAConsumerThatReconnectsDuringAPauseDoesNotConsume(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	synctest.Test(t, func(t *testing.T) {
		p := runFile(t, path, nil, func(context.Context, string) {})
		p.ask(&contract.Pause{ID: "k3v9q2m7xa", Until: time.Now().Add(10 * time.Minute)})
		p.Cut()
		pass(2 * time.Second)
		equal(t, "consumed", false, p.isConsumed())
		equal(t, "state", consumer.StatePaused, p.consumer.Health().State)
		equal(t, "Run", nil, p.end())
	})
}

// A pause of the contract does not hide that the breaker is open: neither while handlers end, nor afterwards.
func TestAPauseOfTheContractWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	synctest.Test(t, func(t *testing.T) {
		current := contract.Default("orders")
		writeContract(t, path, current)
		b := startWith(t, current, func(*memory.Broker) {},
			func(conn *consumer.Conn, _ contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				return consumer.New(conn, contract.File(path), func(_ context.Context, m *consumer.Message[string]) error {
					if m.Body == "slow" {
						time.Sleep(40 * time.Second)
					}
					return io.EOF
				}, options...)
			}, consumer.WithBreaker(1, time.Hour))
		b.send(t, "slow")
		synctest.Wait() // otherwise the breaker may open before a handler has the message
		b.send(t, "fails")
		pass(time.Second)
		current.Paused = &contract.Pause{ID: "k3v9q2m7xa", Until: time.Now().Add(10 * time.Minute)}
		writeContract(t, path, current)
		for _, handlers := range []int{1, 0} {
			pass(30 * time.Second) // the contract is read every 30 s
			health := b.consumer.Health()
			equal(t, "handlers that run", handlers, health.Active)
			equal(t, "ready and paused", []bool{false, true}, []bool{health.Ready, health.Paused})
			equal(t, "message", "the breaker is open: the handler failed 1 times in a row; the log has its errors", health.Message)
		}
		equal(t, "the contract asks for the pause", true, b.consumer.Health().PausedUntil != nil)
		equal(t, "Run", nil, b.end())
	})
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			time.Sleep(time.Minute)
			handled++
			return nil
		}, consumer.WithConcurrency(1), consumer.WithPrefetch(3))
		b.send(t, "a", "b", "c", "d")
		synctest.Wait()
		b.consumer.Pause()
		pass(time.Second)
		equal(t, "in the queue", 3, len(b.Messages("orders")))
		equal(t, "handlers that may finish", 1, b.consumer.Health().Active)
		pass(time.Hour)
		equal(t, "handled", 1, handled)
		health := b.consumer.Health()
		equal(t, "state", consumer.StatePaused, health.State)
		equal(t, "ready, live and paused", []bool{true, true, true}, []bool{health.Ready, health.Live, health.Paused})
		equal(t, "message", "Consumer.Pause was called; Consumer.Resume ends the pause", health.Message)
		b.consumer.Resume()
		pass(time.Hour)
		equal(t, "handled afterwards", 4, handled)
		equal(t, "paused afterwards", false, b.consumer.Health().Paused)
		equal(t, "states", []string{"Connecting", "DeclaringQoS", "Consuming", "Delivering", "Paused", "Delivering"}, b.states)
		equal(t, "connections, with that of the publisher", 2, b.Dials())
		equal(t, "Run", nil, b.end())
	})
}

// A pause outlasts a lost connection, and a drain does not wait for its end.
func TestAPauseOutlastsAReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			handled++
			return nil
		})
		b.consumer.Pause()
		b.consumer.Pause()
		b.send(t, "a")
		pass(time.Second)
		b.Cut()
		pass(time.Minute)
		equal(t, "handled", 0, handled)
		equal(t, "state", consumer.StatePaused, b.consumer.Health().State)
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "the drain took", time.Duration(0), time.Since(began))
		equal(t, "in the queue", 1, len(b.Messages("orders")))
	})
}

// If a message waits for the limiter when a pause begins, the consumer returns the message and the permission.
func TestALimiterThatGrantsPermissionDuringAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits, handled := &limiter{tokens: make(chan struct{}, 10)}, atomic.Int64{}
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			handled.Add(1)
			return nil
		}, consumer.WithLimiter(limits))
		b.send(t, "a", "b")
		pass(time.Second)
		b.consumer.Pause()
		pass(time.Second)
		for range cap(limits.tokens) {
			limits.tokens <- struct{}{}
		}
		pass(time.Second)
		equal(t, "handled", int64(0), handled.Load())
		equal(t, "in the queue", 2, len(b.Messages("orders")))
		equal(t, "permissions in use", 0, limits.inUse())
		b.consumer.Resume()
		pass(time.Second)
		equal(t, "handled afterwards", int64(2), handled.Load())
		equal(t, "Run", nil, b.end())
	})
}
