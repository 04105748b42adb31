package consumer_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// A copy is published by a different user than the original, to only one queue, and waits for the delay of the tier.
func TestACopyOmitsUserIDAndExpiration(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		user := w.Broker.NewUser(w.tb)
		w.Grant(user, "", ".*", ".*")
		uri, err := url.Parse(w.uri(""))
		g.Expect(err).NotTo(HaveOccurred())
		uri.User = url.UserPassword(user.Username, user.Password)
		w.DeclareQueue("audit", map[string]any{"x-queue-type": "quorum"})
		attempts := make(chan amqp.Delivery, 10)
		w.run(consumer.NewConn(consumer.URI(uri.String())), func(_ context.Context, m *consumer.Message[string]) error {
			attempts <- m.Raw
			if m.Attempt() == 1 {
				return errors.New("no stock")
			}
			return nil
		})
		connection, err := w.Connect("producer")
		g.Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		channel, err := connection.Channel()
		g.Expect(err).NotTo(HaveOccurred())
		sent := time.Now()
		g.Expect(channel.PublishWithContext(context.Background(), "", "orders", true, false, amqp.Publishing{
			UserId: w.Broker.Username, Expiration: "60000", MessageId: "m-1", Headers: amqp.Table{"CC": []any{"audit"}, "trace": "7"},
		})).To(Succeed())
		var first, second amqp.Delivery
		g.Eventually(attempts).WithTimeout(deadline.For(20 * time.Second)).Should(Receive(&first))
		g.Eventually(attempts).WithTimeout(deadline.For(20 * time.Second)).Should(Receive(&second))
		g.Expect(time.Since(sent)).To(BeNumerically(">=", 200*time.Millisecond))
		g.Expect(second.MessageId).To(Equal("m-1"))
		g.Expect(second.UserId).To(BeEmpty())
		g.Expect(second.Headers).To(HaveKeyWithValue("trace", "7"))
		g.Expect(second.Headers).NotTo(HaveKey("CC"))
		g.Eventually(w.Ready).WithArguments("audit").Should(Equal(1))
	})
}

// refusing is a policy with which a queue refuses all messages.
var refusing = map[string]any{"max-length": 0, "overflow": "reject-publish"}

func TestAFullTierKeepsTheOriginal(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		w.SetPolicy("full", brokers.Policy{Pattern: `^orders\.retry\.`, Definition: refusing, ApplyTo: "queues", Priority: 9})
		seen, refused := &handledCounts{}, atomic.Int64{}
		w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			if seen.add(m.Body) == 1 {
				return errors.New("no stock")
			}
			return nil
		}, consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
			if errors.As(p.Err, new(*consumer.RefusedError)) {
				refused.Add(1)
			}
		}}))
		w.Publish("", "orders", bodies(300)...) // a channel learns of the policy from its first messages
		g.Eventually(refused.Load).WithTimeout(deadline.For(20 * time.Second)).Should(BeNumerically(">", 0))
		w.DeletePolicy("full")
		g.Eventually(seen.repeated).WithTimeout(deadline.For(40 * time.Second)).Should(Equal(300))
	})
}

// From RabbitMQ 4.0 on, a message has at most 16 MiB unless the broker's configuration says otherwise.
func TestAMessageThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		if strings.HasPrefix(w.Broker.Version, "3.") {
			return // accepts 128 MiB
		}
		g, conn := NewWithT(w.tb), w.conn()
		for range 2 { // the second one is not sent
			err := conn.Publish(context.Background(), "", "orders", consumer.Publishing{Body: make([]byte, 16<<20+1)})
			g.Expect(errors.As(err, new(*consumer.RefusedError))).To(BeTrue(), "error: %v", err)
			w.tb.Log(err)
		}
		g.Expect(conn.Publish(context.Background(), "", "orders", consumer.Publishing{Body: []byte("small")})).To(Succeed())
	})
}

// A missing dead-letter exchange closes the publishing channel. Other messages are not affected, and the failed message waits.
func TestAMissingDeadLetterExchangeDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		w.DeleteExchange("orders.dlx")
		seen := &handledCounts{}
		running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			if strings.HasPrefix(m.Body, "bad") {
				return consumer.Permanent(errors.New("no such customer"))
			}
			if seen.add(m.Body) == 1 {
				return errors.New("no stock")
			}
			return nil
		})
		w.Publish("", "orders", append(bodies(50), "bad 1", "bad 2")...)
		g.Eventually(seen.repeated).WithTimeout(deadline.For(30 * time.Second)).Should(BeNumerically(">=", 50))
		g.Eventually(func() string { return running.Health().Message }).WithTimeout(deadline.For(20 * time.Second)).
			Should(ContainSubstring(`"orders.dlx"`))
		w.DeclareExchange("orders.dlx", "fanout", nil)
		w.Bind("orders.dlx", "orders.dlq", "", nil)
		for _, dead := range w.deadLetters(2) {
			g.Expect(dead).To(Equal(deadLetter{Kind: "permanent", Message: "no such customer", Retries: int64(1)}))
		}
	})
}

// connAs returns a Conn of a user with these permissions.
func (w *world) connAs(write, read string) *consumer.Conn {
	w.tb.Helper()
	user := w.Broker.NewUser(w.tb)
	w.Grant(user, "", write, read)
	uri, err := url.Parse(w.uri(""))
	w.check(err)
	uri.User = url.UserPassword(user.Username, user.Password)
	return consumer.NewConn(consumer.URI(uri.String()))
}

// A consumer checks at its start whether it may write. No queue receives a message from this check.
func TestPermissionsAreCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write   string
		message string
	}{
		"all":                     {`^(amq\.default|orders\.dlx)$`, ""},
		"not the tiers":           {`^orders\.dlx$`, `access to exchange 'amq.default'`},
		"not the dead-letter one": {`^amq\.default$`, `access to exchange 'orders.dlx'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, publish, func(w *world) {
				g := NewWithT(w.tb)
				conn, checked := w.connAs(test.write, "^orders$"), make(chan struct{})
				running := w.run(conn, func(context.Context, *consumer.Message[string]) error { return nil }, consumer.WithObserver(consumer.Observer{
					State: func(to consumer.Transition) {
						if to.To == consumer.StateDelivering {
							close(checked)
						}
					},
				}))
				g.Eventually(checked).WithTimeout(deadline.For(10 * time.Second)).Should(BeClosed())
				if test.message == "" {
					g.Eventually(func() bool { return running.Health().Ready }).WithTimeout(deadline.For(10 * time.Second)).Should(BeTrue())
					g.Consistently(func() bool { return running.Health().Ready }).WithTimeout(500 * time.Millisecond).Should(BeTrue())
				} else {
					g.Eventually(running.Health).WithTimeout(deadline.For(10 * time.Second)).Should(SatisfyAll(
						HaveField("Message", ContainSubstring(test.message)), HaveField("Ready", BeFalse())))
				}
				for _, queue := range []string{"orders.dlq", "orders.retry.200ms"} {
					g.Consistently(w.Ready).WithArguments(queue).WithTimeout(500*time.Millisecond).Should(BeZero(), queue)
				}
			})
		})
	}
}

// Without the permission, messages wait, and the consumer does not reconnect repeatedly.
func TestAForbiddenCopyWaitsForThePermission(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		user := w.Broker.NewUser(w.tb)
		w.Grant(user, "", "^$", "^orders$")
		uri, err := url.Parse(w.uri(""))
		g.Expect(err).NotTo(HaveOccurred())
		uri.User = url.UserPassword(user.Username, user.Password)
		dials, seen, refused := atomic.Int64{}, &handledCounts{}, atomic.Int64{}
		conn := consumer.NewConn(consumer.URI(uri.String()), consumer.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))
		w.run(conn, func(_ context.Context, m *consumer.Message[string]) error {
			if seen.add(m.Body); m.Attempt() == 1 {
				return errors.New("no stock")
			}
			return nil
		}, consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
			if errors.As(p.Err, new(*consumer.RefusedError)) {
				refused.Add(1)
			}
		}}))
		w.Publish("", "orders", bodies(6)...)
		g.Eventually(refused.Load).WithTimeout(deadline.For(20 * time.Second)).Should(BeNumerically(">=", 18))
		g.Expect(dials.Load()).To(BeEquivalentTo(2))
		w.Grant(user, "", "^amq\\.default$", "^orders$")
		g.Eventually(seen.repeated).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(6))
		g.Expect(seen.different()).To(Equal(6))
	})
}

// After the consumer timeout the broker takes a message back, up to 4.2 by closing the channel and from 4.3 on by cancelling the
// consumer. A policy may have set a consumer timeout that is not in the contract.
func TestAMessageIsHandledAgainAfterTheConsumerTimeout(t *testing.T) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		if strings.HasPrefix(broker.Version, "3.") {
			continue // does not support x-consumer-timeout
		}
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, broker, `{retry: {policy: None}, queue: {consumerTimeout: 5s}}`)
			g := NewWithT(t)
			causes, handled := make(chan error, 10), make(chan string, 10)
			release := make(chan struct{})
			w.contract.ConsumerTimeout = nil
			w.run(w.conn(), func(ctx context.Context, m *consumer.Message[string]) error {
				if m.Raw.Redelivered {
					handled <- m.Body
					return nil
				}
				<-release // ignores the context
				causes <- context.Cause(ctx)
				return nil
			}, consumer.WithTimeout(4*time.Second))
			w.Publish("", "orders", "slow")
			g.Eventually(handled).WithTimeout(deadline.For(3 * time.Minute)).Should(Receive(Equal("slow")))
			close(release)
			g.Eventually(causes).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(Not(BeNil())))
			g.Eventually(func() int { return w.Ready("orders") }).Should(BeZero())
		})
	}
}

// A consumer settles the message of a handler that ignores its timeout before the broker would take all messages back.
func TestAMessageIsParkedBeforeTheConsumerTimeout(t *testing.T) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		if strings.HasPrefix(broker.Version, "3.") {
			continue // does not support x-consumer-timeout
		}
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, broker, `{retry: {policy: None}, queue: {consumerTimeout: 1m}}`)
			known := contract.Duration(10 * time.Second) // shorter than the real one: a busy broker gets the copy late
			w.contract.ConsumerTimeout = &known
			g := NewWithT(t)
			release, causes := make(chan struct{}), make(chan error, 10)
			r := w.run(w.conn(), func(ctx context.Context, _ *consumer.Message[string]) error {
				<-release // ignores the context
				causes <- context.Cause(ctx)
				return nil
			}, consumer.WithTimeout(5*time.Second))
			w.Publish("", "orders", "slow")
			g.Expect(w.deadLetters(1)["slow"].Kind).To(Equal(string(contract.KindExhausted)))
			g.Expect(r.Health().Stuck).To(BeNumerically(">=", 1)) // one more after each copy that the broker did not confirm in time
			close(release)
			g.Eventually(causes).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(MatchError(consumer.ErrTimeout)))
			g.Expect(r.Health().Reconnects).To(BeZero())
			g.Expect(r.end()).To(Succeed())
			g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
		})
	}
}

func TestACopyHasTheOriginalRoute(t *testing.T) {
	t.Parallel()
	onEach(t, `{retry: {maxAttempts: 2, delayTiers: [{delay: 200ms}]}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}]}`, func(w *world) {
		g := NewWithT(w.tb)
		origins := make(chan string, 10)
		w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			origins <- m.OriginalExchange() + " " + m.OriginalRoutingKey()
			return errors.New("no stock")
		})
		w.Publish("shop", "order.placed", "a")
		g.Eventually(origins).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(Equal("shop order.placed")))
		g.Eventually(origins).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(Equal("shop order.placed")))
		g.Eventually(func() int { return w.Ready("orders.dlq") }).WithTimeout(deadline.For(10 * time.Second)).Should(Equal(1))
		connection, err := w.Connect("dead letters")
		g.Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		channel, err := connection.Channel()
		g.Expect(err).NotTo(HaveOccurred())
		dead, _, err := channel.Get("orders.dlq", true)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(dead.Headers).To(HaveKeyWithValue(contract.HeaderOriginalExchange, "shop"))
		g.Expect(dead.Headers).To(HaveKeyWithValue(contract.HeaderOriginalRoutingKey, "order.placed"))
		g.Expect(dead.Headers).To(HaveKeyWithValue(contract.HeaderFailureQueue, "orders"))
		g.Expect(dead.DeliveryMode).To(Equal(amqp.Persistent))
	})
}
