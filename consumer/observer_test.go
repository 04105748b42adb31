package consumer_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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

// lateContract is a contract that does not exist before written is set.
type lateContract struct {
	contract.Contract

	written atomic.Bool
}

func (l *lateContract) Load(context.Context) (contract.Contract, error) {
	if !l.written.Load() {
		return contract.Contract{}, fs.ErrNotExist
	}
	return l.Contract, nil
}

// The consumer calls these functions in a goroutine of its own, State also before it has read the contract.
func TestAnObserverThatPanics(t *testing.T) {
	t.Parallel()
	for name, observer := range map[string]consumer.Observer{
		"Observer.State":       {State: func(consumer.Transition) { panic("no state") }},
		"Observer.Reconnected": {Reconnected: func(consumer.Reconnection) { panic("no reconnection") }},
		"Observer.Stuck":       {Stuck: func(consumer.StuckHandler) { panic("no stuck handler") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release, log, source := make(chan struct{}), &record{}, &lateContract{Contract: contract.Default("orders")}
				b := startWith(t, source.Contract, func(*memory.Broker) {},
					func(conn *consumer.Conn, _ contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						return consumer.New(conn, source, func(_ context.Context, m *consumer.Message[string]) error {
							if m.Body == "hangs" {
								hang(release)
							}
							return nil
						}, options...)
					}, consumer.WithTimeout(time.Second), consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))),
					consumer.WithObserver(observer))
				pass(time.Second)
				source.written.Store(true)
				b.send(t, "hangs")
				pass(time.Minute)
				b.Cut()
				pass(time.Minute)
				b.send(t, "good")
				close(release)
				pass(time.Second)
				equal(t, "unsettled", 0, b.Unsettled(""))
				equal(t, "Run", nil, b.end())
				if log.count("function="+name+" panic=") == 0 {
					t.Error("no panic was logged")
				}
			})
		})
	}
}

// spanKey is the key of a value that middleware adds to a context, as it does with a span.
type spanKey struct{}

// traced adds a value for each call of the handler.
func traced(next consumer.HandleFunc) consumer.HandleFunc {
	return func(ctx context.Context, d *consumer.Delivery) error {
		return next(context.WithValue(ctx, spanKey{}, "span of "+d.ID()), d)
	}
}

// contexts records what observers find in their contexts.
type contexts struct {
	mu  sync.Mutex
	all map[string]bool
}

func (c *contexts) add(ctx context.Context, event string, d *consumer.Delivery) {
	span, _ := ctx.Value(spanKey{}).(string)
	text := fmt.Sprintf("%s %s: %q, %v", event, d.ID(), span, ctx.Value(runKey{}))
	_, limited := ctx.Deadline()
	if limited || ctx.Done() != nil || ctx.Err() != nil {
		text += " ends"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]bool{}
	}
	c.all[text] = true
}

func (c *contexts) observe() consumer.Option {
	return consumer.WithObserver(consumer.Observer{
		Settled:   func(end consumer.Settlement) { c.add(end.Context, "settled", end.Delivery) },
		Published: func(p consumer.Publication) { c.add(p.Context, "published", p.Delivery) },
	})
}

// runKey is the key of a value in the context of Run.
type runKey struct{}

// The context of an observer never ends, because a copy may be published long after its handler returned.
func TestAnObserverFindsTheValuesOfTheHandlersContext(t *testing.T) {
	t.Parallel()
	const settled, published = "settled a: %q, of Run", "published a: %q, of Run"
	const span, none = "span of a", ""
	single := func(handle consumer.Handler[string]) create {
		return func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
			return consumer.New(conn, source, handle, options...)
		}
	}
	fails := single(func(context.Context, *consumer.Message[string]) error { return io.EOF })
	for name, test := range map[string]struct {
		create     create
		middleware []consumer.Middleware
		published  bool
		want       string
	}{
		"a success": {
			single(func(context.Context, *consumer.Message[string]) error { return nil }),
			[]consumer.Middleware{traced},
			false, span,
		},
		"a failure": {fails, []consumer.Middleware{traced}, true, span},
		"a panic": {
			single(func(context.Context, *consumer.Message[string]) error { panic("no stock") }),
			[]consumer.Middleware{traced},
			true, span,
		},
		"a handler that ignores its timeout": {
			single(func(context.Context, *consumer.Message[string]) error {
				time.Sleep(10 * time.Hour)
				return nil
			}),
			[]consumer.Middleware{traced},
			true, span,
		},
		"a batch": {
			func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				return consumer.NewBatch(conn, source, 2, time.Second, func(context.Context, *consumer.Batch[string]) error {
					return io.EOF
				}, options...)
			},
			[]consumer.Middleware{traced},
			true, span,
		},
		"middleware that calls the handler twice": {
			fails,
			[]consumer.Middleware{func(next consumer.HandleFunc) consumer.HandleFunc {
				return func(ctx context.Context, d *consumer.Delivery) error {
					_ = traced(next)(ctx, d)
					return next(context.WithValue(ctx, spanKey{}, "another span"), d)
				}
			}},
			true, span,
		},
		"middleware that does not wait for the handler": {
			single(func(context.Context, *consumer.Message[string]) error {
				time.Sleep(time.Minute)
				return nil
			}),
			[]consumer.Middleware{func(next consumer.HandleFunc) consumer.HandleFunc {
				return func(ctx context.Context, d *consumer.Delivery) error {
					go func() { _ = traced(next)(ctx, d) }()
					time.Sleep(time.Second)
					return io.EOF
				}
			}},
			true, span,
		},
		"middleware that does not call the handler": {
			fails,
			[]consumer.Middleware{func(consumer.HandleFunc) consumer.HandleFunc {
				return func(context.Context, *consumer.Delivery) error { return io.EOF }
			}},
			true, none,
		},
		"a body that cannot be decoded": {
			func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				return consumer.New(conn, source, func(context.Context, *consumer.Message[int]) error { return nil }, options...)
			},
			[]consumer.Middleware{traced},
			true, span,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := &contexts{}
				b := memory.New(contract.Default("orders"))
				made, err := test.create(consumer.NewConn(nil, withTransport(b)), contract.Default("orders"), quiet(), seen.observe(),
					consumer.WithMiddleware(test.middleware...))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), runKey{}, "of Run"))
				ended := make(chan error, 1)
				go func() { ended <- made.Run(ctx) }()
				b.Publish("", "orders", amqp.Publishing{MessageId: "a", Body: []byte("a")})
				pass(29 * time.Minute)
				want := map[string]bool{fmt.Sprintf(settled, test.want): true}
				if test.published {
					want[fmt.Sprintf(published, test.want)] = true
				}
				equal(t, "seen", want, seen.all)
				cancel()
				if err := <-ended; err != nil {
					t.Log(err) // a handler still runs
				}
				pass(10 * time.Hour)
				b.Close()
			})
		})
	}
}
