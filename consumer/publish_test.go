package consumer_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
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
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// A frame has 131,072 bytes. A message cannot be retried if its headers leave no room for x-retry-count and the original route.
func TestCopiesFitIntoAFrame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header     int
		properties amqp.Publishing
		tier       int
		dead       []string
	}{
		"a small header":                 {1, amqp.Publishing{}, 1, nil},
		"no room for the failure":        {130_000, amqp.Publishing{}, 1, nil},
		"no room for the count":          {130_950, amqp.Publishing{}, 0, []string{"large permanent 1"}},
		"no room for anything":           {131_024, amqp.Publishing{}, 0, []string{"large <nil> <nil>"}},
		"room for the count, not the ID": {130_970, amqp.Publishing{}, 0, []string{"large permanent 1"}},
		"one byte too few beside the properties": {
			130_607,
			amqp.Publishing{MessageId: strings.Repeat("m", 255), Priority: 1, Timestamp: time.Unix(1, 0)},
			0,
			[]string{"large permanent 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
					return errors.New(strings.Repeat("no stock ", 1000))
				})
				message := test.properties
				message.Headers, message.Body = amqp.Table{"large": strings.Repeat("x", test.header)}, []byte("large")
				b.Publish("", "orders", message)
				pass(time.Second)
				equal(t, "in the tier", test.tier, len(b.Messages("orders.retry.30s")))
				equal(t, "dead letters", test.dead, b.dead())
				equal(t, "ready", true, b.consumer.Health().Ready)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestConnPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		equal(t, "published", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{Body: []byte("a")}))
		equal(t, "in the queue", 1, len(b.Messages("orders")))
		equal(t, "delivery mode", amqp.Persistent, b.Messages("orders")[0].DeliveryMode)
		unroutable := &consumer.UnroutableError{}
		if err := conn.Publish(t.Context(), "", "nowhere", consumer.Publishing{}); !errors.As(err, &unroutable) {
			t.Errorf("a message without a queue: %v", err)
		}
		b.Refuse("orders", true)
		refused := &consumer.RefusedError{}
		if err := conn.Publish(t.Context(), "", "orders", consumer.Publishing{}); !errors.As(err, &refused) {
			t.Errorf("a full queue: %v", err)
		}
		b.Refuse("orders", false)
		b.Cut()
		equal(t, "published after a cut", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{}))
		if err := conn.Publish(t.Context(), "", "orders", consumer.Publishing{Headers: amqp.Table{"large": strings.Repeat("x", 131_072)}}); !errors.As(err, &refused) {
			t.Errorf("large headers: %v", err)
		}
		equal(t, "published after large headers", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{}))
		if err := conn.Publish(t.Context(), "", "orders", consumer.Publishing{Headers: amqp.Table{"number": uint64(1)}}); err == nil || isUnknown(err) {
			t.Errorf("a header that cannot be sent: %v", err)
		}
		b.Block(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := conn.Publish(ctx, "", "orders", consumer.Publishing{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a blocked broker: %v", err)
		}
	})
}

func TestWithTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	trusted, _ := certified.Client().Transport.(*http.Transport)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", certified.TLS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // no broker: it closes each connection after the handshake of TLS
		for connection, err := listener.Accept(); err == nil; connection, err = listener.Accept() {
			_, _ = connection.Read(make([]byte, 1))
			_ = connection.Close()
		}
	}()
	for name, test := range map[string]struct {
		options []consumer.ConnOption
		trusts  bool
	}{
		"an unknown CA":       {nil, false},
		"the configuration's": {[]consumer.ConnOption{consumer.WithTLS(trusted.TLSClientConfig)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri := consumer.URI("amqps://" + listener.Addr().String())
			conn := consumer.NewConn(uri, test.options...)
			defer conn.Close()
			err := conn.Publish(t.Context(), "", "orders", consumer.Publishing{})
			if err == nil || errors.As(err, new(*tls.CertificateVerificationError)) == test.trusts {
				t.Errorf("Publish: %v", err)
			}
		})
	}
}

// amqp091-go closes the connection for a name of more than 255 bytes, and with it the messages that wait for their confirm.
func TestPublishRefusesLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for name, test := range map[string]struct {
		exchange, key string
		message       consumer.Publishing
	}{
		"an exchange":              {exchange: long},
		"a routing key":            {key: long},
		"a user ID":                {message: consumer.Publishing{UserId: long}},
		"an expiration":            {message: consumer.Publishing{Expiration: long}},
		"a header":                 {message: consumer.Publishing{Headers: amqp.Table{long: true}}},
		"a name in a header":       {message: consumer.Publishing{Headers: amqp.Table{"table": amqp.Table{long: true}}}},
		"a name in a list of them": {message: consumer.Publishing{Headers: amqp.Table{"list": []any{amqp.Table{long: true}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := memory.New(contract.Default("orders"))
				conn := consumer.NewConn(nil, withTransport(b))
				defer conn.Close()
				err := conn.Publish(t.Context(), test.exchange, test.key, test.message)
				if !errors.As(err, new(*consumer.RefusedError)) || !strings.Contains(err.Error(), "more than 255 bytes") {
					t.Errorf("Publish: %v", err)
				}
				equal(t, "published afterwards", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{}))
				equal(t, "connections", 1, b.Dials())
			})
		})
	}
}

// The broker closes the channel if the exchange does not exist or is forbidden. These errors are certain: the broker does not
// have the message.
func TestPublishToAnExchangeThatTheBrokerRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		publish := func(exchange string) error {
			return conn.Publish(t.Context(), exchange, "orders", consumer.Publishing{})
		}

		unroutable := &consumer.UnroutableError{}
		if err := publish("shop"); !errors.As(err, &unroutable) || !strings.Contains(err.Error(), "NOT_FOUND - no exchange 'shop'") {
			t.Errorf("a missing exchange: %v", err)
		}
		b.Forbid("", true)
		refused := &consumer.RefusedError{}
		for range 100 {
			if err := publish(""); !errors.As(err, &refused) || !strings.Contains(err.Error(), "ACCESS_REFUSED - write access to exchange 'amq.default'") {
				t.Errorf("a forbidden exchange: %v", err)
			}
		}
		b.Bind("shop", "orders", "orders")
		pass(time.Second)
		equal(t, "published to the exchange once it is there", nil, publish("shop"))
		b.Forbid("", false)
		pass(10 * time.Second)
		equal(t, "published once it is allowed", nil, publish(""))
		equal(t, "connections", 1, b.Dials())
		equal(t, "in the queue", 2, len(b.Messages("orders")))
	})
}

// The user may read the queue, but not write to the tiers, the dead-letter exchange, or both.
func TestAForbiddenPublishIsARefusal(t *testing.T) {
	t.Parallel()
	const text = "ACCESS_REFUSED - write access to exchange"
	for name, test := range map[string]struct {
		exchange string
		failure  error
		dead     []string // while it is forbidden
		waits    int
	}{
		"to the tiers":                {"", io.EOF, nil, 1},
		"to the dead-letter exchange": {"orders.dlx", consumer.Permanent(io.EOF), []string{"a <nil> <nil>"}, 0}, // rejected
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				refusals := atomic.Int64{}
				b := start(t, contract.Default("orders"), func(b *memory.Broker) { b.Forbid(test.exchange, true) },
					func(context.Context, *consumer.Message[string]) error { return test.failure },
					consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
						if p.Err != nil {
							refusals.Add(1)
						}
					}}))
				pass(time.Second)
				health := b.consumer.Health()
				equal(t, "ready before a message has failed", false, health.Ready)
				equal(t, fmt.Sprintf("%q has the broker's text", health.Message), true, strings.Contains(health.Message, text))
				b.send(t, "a")
				pass(time.Minute)
				if times := refusals.Load(); times < 5 || times > 15 {
					t.Errorf("the copy was published %d times in a minute", times)
				}
				equal(t, "connections", 2, b.Dials())
				equal(t, "dead letters", test.dead, b.dead())
				equal(t, "waiting", test.waits, b.Unsettled(b.contract.DeadLetterQueue))
				b.Forbid(test.exchange, false)
				pass(time.Minute)
				equal(t, "ready once it is allowed", true, b.consumer.Health().Ready)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// unreachable fails the first attempts to open the connection of copies.
type unreachable struct {
	*memory.Broker

	fails int
}

func (u *unreachable) Dial(ctx context.Context, name string, blocked func(bool)) (transport.Connection, error) {
	if strings.HasSuffix(name, "publishes copies") {
		if u.fails--; u.fails >= 0 {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return u.Broker.Dial(ctx, name, blocked)
}

// A consumer is not ready while it has failed messages and cannot publish their copies, whatever the reason is.
func TestAConsumerThatCannotPublishCopiesIsNotReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails   int // attempts to connect
		prepare func(*memory.Broker)
		bodies  []string
		want    string // the message of Health
	}{
		"the connection cannot be opened":                 {math.MaxInt, func(*memory.Broker) {}, []string{"a"}, "unexpected EOF"},
		"the first check of the permission has no answer": {math.MaxInt, func(*memory.Broker) {}, nil, "unexpected EOF"},
		"the broker never confirms": {
			0, func(b *memory.Broker) { b.Silence("orders.retry.30s", true) },
			[]string{"a"},
			"no confirm arrived for 30s",
		},
		"the first check of the permission failed": {1, func(b *memory.Broker) { b.Forbid("", true) }, nil, "ACCESS_REFUSED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var broker unreachable
				b := startWith(t, contract.Default("orders"), func(b *memory.Broker) {
					test.prepare(b)
					broker = unreachable{b, test.fails}
				}, func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
					return consumer.New(consumer.NewConn(nil, withTransport(&broker)), source,
						func(context.Context, *consumer.Message[string]) error { return io.EOF }, options...)
				})
				b.send(t, test.bodies...)
				pass(5 * time.Minute)
				health := b.consumer.Health()
				equal(t, "ready", false, health.Ready)
				equal(t, fmt.Sprintf("%q has the reason", health.Message), true, strings.Contains(health.Message, test.want))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// A broker that does not answer has granted nothing.
func TestARefusalAppliesUntilTheNextAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broker unreachable
		b := startWith(t, contract.Default("orders"), func(b *memory.Broker) {
			b.Forbid("", true)
			broker = unreachable{b, 0}
		}, func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
			return consumer.New(consumer.NewConn(nil, withTransport(&broker)), source, ignore, options...)
		})
		pass(time.Second)
		broker.fails = math.MaxInt
		b.Cut()
		pass(40 * time.Second)
		health := b.consumer.Health()
		equal(t, "state", consumer.StateDelivering, health.State)
		equal(t, "ready", false, health.Ready)
		equal(t, "Run", nil, b.end())
	})
}

// Kubernetes must not end the old pods of a rollout before the new ones may publish copies.
func TestAConsumerIsReadyOnceTheBrokerHasAnsweredTheCheckOfThePermission(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails   int // attempts to connect
		blocked bool
		ready   []bool // immediately, and after 5 s
	}{
		"immediately":                      {0, false, []bool{true, true}},
		"after a failed attempt":           {1, false, []bool{false, true}},
		"not while no attempt succeeds":    {math.MaxInt, false, []bool{false, false}},
		"but the broker blocks publishers": {0, true, []bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var broker unreachable
				b := startWith(t, contract.Default("orders"), func(b *memory.Broker) {
					b.Block(test.blocked)
					broker = unreachable{b, test.fails}
				}, func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
					return consumer.New(consumer.NewConn(nil, withTransport(&broker)), source,
						func(context.Context, *consumer.Message[string]) error { return nil }, options...)
				})
				pass(time.Millisecond)
				equal(t, "state", consumer.StateDelivering, b.consumer.Health().State)
				equal(t, "ready immediately", test.ready[0], b.consumer.Health().Ready)
				pass(5 * time.Second)
				equal(t, "ready after 5 s", test.ready[1], b.consumer.Health().Ready)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// RabbitMQ closes the channel of a copy that is larger than its maximum, which became smaller in RabbitMQ 4.0.
func TestACopyThatTheBrokerNeverAcceptsIsADeadLetter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply   string
		unknown int
	}{
		"because it is too large":      {"PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000", 0},
		"for a reason that is unknown": {"PRECONDITION_FAILED - invalid message", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mu, published, unknown := sync.Mutex{}, map[string]int{}, 0
				current := contract.Default("orders")
				current.Tiers = current.Tiers[1:]
				b := start(t, current, func(b *memory.Broker) { b.Limit(1000, test.reply) },
					func(context.Context, *consumer.Message[string]) error { return io.EOF }, consumer.WithConcurrency(1),
					consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
						mu.Lock()
						defer mu.Unlock()
						published[p.Delivery.ID()]++
						if errors.As(p.Err, new(*consumer.UnknownOutcomeError)) {
							unknown++
						}
					}}))
				b.send(t, "first")
				b.Publish("", "orders", amqp.Publishing{MessageId: "large", Body: make([]byte, 1001)})
				for range 28 {
					pass(time.Second)
					b.send(t, "next")
				}
				pass(15 * time.Second)
				equal(t, "copies of small messages", []int{1, 28}, []int{published["first"], published["next"]})
				equal(t, "copies of unknown outcome", test.unknown, unknown)
				if times := published["large"]; times < 4 || times > 15 {
					t.Errorf("the large copy was published %d times in 43 s", times)
				}
				equal(t, "in the tier", 29, b.Unsettled("orders.dlq"))
				equal(t, "dead letters", 1, len(b.dead()))
				equal(t, "ready", true, b.consumer.Health().Ready)
				equal(t, "connections", 2, b.Dials())
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// Under Reject, only deferred messages are published to the tier. A breaker defers.
func TestPermissionToPublishToTheTierUnderReject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []consumer.Option
		ready   bool
	}{
		"is not needed without a breaker": {nil, true},
		"is needed by a breaker":          {[]consumer.Option{consumer.WithBreaker(1, time.Second)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				current := contract.Default("orders")
				current.Strategy, current.Tiers, current.RejectDeadLetters = contract.StrategyReject, current.Tiers[:1], false
				b := start(t, current, func(b *memory.Broker) { b.Forbid("", true) },
					func(context.Context, *consumer.Message[string]) error { return nil }, test.options...)
				pass(time.Second)
				equal(t, "ready", test.ready, b.consumer.Health().Ready)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestAForbiddenExchangeDoesNotDelayOtherFailedMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unknown := atomic.Int64{}
		b := start(t, contract.Default("orders"), func(b *memory.Broker) { b.DeleteExchange("orders.dlx") },
			func(_ context.Context, m *consumer.Message[string]) error {
				if m.Body == "bad" {
					return consumer.Permanent(io.EOF)
				}
				return io.EOF
			}, consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
				if errors.As(p.Err, new(*consumer.UnknownOutcomeError)) {
					unknown.Add(1)
				}
			}}))
		b.send(t, "bad")
		for range 29 {
			b.send(t, "good")
			pass(time.Second)
		}
		equal(t, "in the tier", 29, len(b.Messages("orders.retry.30s")))
		equal(t, "copies of unknown outcome", int64(0), unknown.Load())
		equal(t, "Run", nil, b.end())
	})
}

// Publish to an exchange that does not exist closes a channel. A copy that waits for its confirm is on another one.
func TestPublishDoesNotDisturbCopies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var conn *consumer.Conn
		unknown := atomic.Int64{}
		b := startWith(t, contract.Default("orders"), func(*memory.Broker) {},
			func(used *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				conn = used
				return consumer.New(used, source, func(context.Context, *consumer.Message[string]) error { return io.EOF }, options...)
			}, consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
				if errors.As(p.Err, new(*consumer.UnknownOutcomeError)) {
					unknown.Add(1)
				}
			}}))
		defer conn.Close()
		b.Silence("orders.retry.30s", true)
		b.send(t, "a")
		pass(time.Second)
		if err := conn.Publish(t.Context(), "nowhere", "orders", consumer.Publishing{}); !errors.As(err, new(*consumer.UnroutableError)) {
			t.Errorf("a missing exchange: %v", err)
		}
		pass(time.Second)
		equal(t, "copies that wait for their confirm", 1, b.consumer.Health().Unconfirmed)
		equal(t, "copies of unknown outcome", int64(0), unknown.Load())
		equal(t, "connections", 3, b.Dials())
		b.Silence("orders.retry.30s", false)
		equal(t, "Run", nil, b.end())
	})
}

// withoutQuorum runs a consumer whose delay tier confirms nothing, and sends the message "slow", whose copy goes there. Other messages
// become dead letters. unknown receives the ID of each message whose copy has an unknown outcome.
func withoutQuorum(t *testing.T) (b *fixture, unknown chan string) {
	t.Helper()
	unknown = make(chan string, 100)
	b = run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
		if m.Body == "slow" {
			return io.EOF
		}
		return consumer.Permanent(io.EOF)
	}, consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
		if errors.As(p.Err, new(*consumer.UnknownOutcomeError)) {
			unknown <- p.Delivery.ID()
		}
	}}))
	b.Silence("orders.retry.30s", true)
	b.send(t, "slow")
	return b, unknown
}

// A queue without a quorum confirms nothing while other queues confirm. Only its message is published again after three minutes.
func TestAMissingConfirmAmongOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, unknown := withoutQuorum(t)
		for range 170 {
			b.send(t, "other")
			pass(time.Second)
		}
		equal(t, "unconfirmed", 1, b.consumer.Health().Unconfirmed)
		b.Silence("orders.retry.30s", false)
		for range 20 {
			b.send(t, "other")
			pass(time.Second)
		}
		equal(t, "messages of unknown outcome", 1, len(unknown))
		equal(t, "it is the slow one", "slow", <-unknown)
		equal(t, "in the tier", 1, len(b.Messages("orders.retry.30s")))
		equal(t, "dead letters", 190, len(b.dead()))
		equal(t, "Run", nil, b.end())
	})
}

// Such a queue may have no quorum for long. Meanwhile no other message loses its confirm.
func TestManyMissingConfirmsAmongOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, unknown := withoutQuorum(t)
		for range 20 * 60 {
			b.send(t, "other")
			pass(time.Second)
		}
		b.Silence("orders.retry.30s", false)
		equal(t, "connections", 2, b.Dials())
		equal(t, "messages of unknown outcome", 6, len(unknown))
		close(unknown)
		for id := range unknown {
			equal(t, "it is the slow one", "slow", id)
		}
		equal(t, "Run", nil, b.end())
	})
}

// If the connection is lost while the broker blocks publishers, the message is published on the next connection.
func TestAConnectionLostWhilePublishersAreBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		equal(t, "published before", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{}))
		b.Block(true)
		published := make(chan error, 1)
		go func() { published <- conn.Publish(t.Context(), "", "orders", consumer.Publishing{}) }()
		pass(time.Minute)
		b.Cut()
		pass(time.Minute)
		equal(t, "answered while blocked", 0, len(published))
		b.Block(false)
		pass(time.Second)
		equal(t, "published in the end", 1, len(published))
		equal(t, "error", nil, <-published)
		equal(t, "in the queue", 2, len(b.Messages("orders")))
	})
}

// RabbitMQ does not read from a blocked connection, so it opens no channel on it. The consumer neither reconnects nor delays a
// drain.
func TestABlockedBrokerOpensNoChannel(t *testing.T) {
	t.Parallel()
	for name, drained := range map[string]bool{"and takes messages later": false, "while the consumer drains": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, contract.Default("orders"), func(b *memory.Broker) { b.Block(true) },
					func(context.Context, *consumer.Message[string]) error { return io.EOF }, consumer.WithDrainTimeout(time.Second))
				b.send(t, "a")
				pass(5 * time.Minute)
				equal(t, "paused", true, b.consumer.Health().Paused)
				equal(t, "connections", 2, b.Dials())
				if drained {
					began := time.Now()
					equal(t, "Run", nil, b.end())
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("the drain took %s", took)
					}
					equal(t, "in the queue", 1, len(b.Messages("orders")))
					return
				}
				b.Block(false)
				pass(time.Second)
				equal(t, "in the tier", 1, len(b.Messages("orders.retry.30s")))
				equal(t, "paused in the end", false, b.consumer.Health().Paused)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}
