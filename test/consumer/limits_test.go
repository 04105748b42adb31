package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// attempts records the attempt numbers of one message.
type attempts struct {
	mu  sync.Mutex
	all []int
}

func (a *attempts) add(m *consumer.Message[string]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, m.Attempt())
}

func (a *attempts) list() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]int(nil), a.all...)
}

// oneTo returns the numbers from 1 to n.
func oneTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// If a copy keeps x-death, RabbitMQ before 4.0 drops a message that reaches the same queue twice without a reject.
func TestThirtyRetriesThroughATier(t *testing.T) {
	t.Parallel()
	onEach(t, `{retry: {maxAttempts: 30, delayTiers: [{delay: 20ms}]}}`, func(w *world) {
		tried := &attempts{}
		w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			tried.add(m)
			return errors.New("no stock")
		})
		w.Publish("", "orders", "a")
		g := NewWithT(w.tb)
		g.Expect(w.deadLetters(1)).To(Equal(map[string]deadLetter{"a": {Kind: "exhausted", Message: "no stock", Retries: int64(30)}}))
		g.Expect(tried.list()).To(Equal(oneTo(30)))
	})
}

// From 4.0 on, a dead-lettered message keeps its delivery count. Under Reject this is not the number of attempts.
func TestALostConnectionIsNotAnAttemptUnderReject(t *testing.T) {
	t.Parallel()
	onEach(t, `{retry: {strategy: Reject, maxAttempts: 9, delayTiers: [{delay: 50ms}]}}`, func(w *world) {
		proxy, tried, cut := netfault.NewProxy(w.tb, w.Broker.AMQPURI), &attempts{}, &atomic.Bool{}
		w.run(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), func(_ context.Context, m *consumer.Message[string]) error {
			tried.add(m)
			if m.Attempt() == 7 && cut.CompareAndSwap(false, true) {
				proxy.Cut()
			}
			return errors.New("no stock")
		})
		w.Publish("", "orders", "a")
		g := NewWithT(w.tb)
		g.Expect(w.deadLetters(1)).To(HaveKey("a"))
		g.Expect(tried.list()).To(Equal([]int{1, 2, 3, 4, 5, 6, 7, 7, 8, 9}))
	})
}

// Under Requeue, each lost connection costs each prefetched message an attempt. With the default prefetch those are the messages
// being handled.
func TestLostConnectionsCostUnackedMessagesAnAttempt(t *testing.T) {
	t.Parallel()
	const messages, cuts = 50, 5
	onEach(t, `{retry: {strategy: Requeue, maxAttempts: 4}}`, func(w *world) {
		g := NewWithT(w.tb)
		w.Publish("", "orders", bodies(messages)...)
		proxy, release, seen := netfault.NewProxy(w.tb, w.Broker.AMQPURI), make(chan struct{}), &handledCounts{}
		running := w.run(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), func(ctx context.Context, m *consumer.Message[string]) error {
			select {
			case <-release:
				seen.add(m.Body)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, consumer.WithConcurrency(2))
		before := -1
		for range cuts {
			g.Eventually(func() bool { h := running.Health(); return h.Ready && h.Reconnects > before }).WithTimeout(deadline.For(20 * time.Second)).Should(BeTrue())
			g.Eventually(func() int { return w.Ready("orders") + w.Ready("orders.dlq") }).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(messages - 2))
			before = running.Health().Reconnects
			proxy.Cut()
		}
		close(release)
		g.Eventually(func() int { return seen.different() + w.Ready("orders.dlq") }).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(messages))
		w.tb.Logf("%d cuts: %d dead letters", cuts, w.Ready("orders.dlq"))
		g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeNumerically("<=", 4))
	})
}

// If parking is refused for 30 s, the message is rejected. Under Reject it waits in the tier and is parked afterwards.
func TestAFullDeadLetterQueueDelaysMessages(t *testing.T) {
	t.Parallel()
	const first, messages = 5, 20
	onEach(t, reject, func(w *world) {
		g := NewWithT(w.tb)
		w.SetPolicy("full", fullDeadLetterQueue)
		handled := atomic.Int64{}
		w.run(w.conn(), func(context.Context, *consumer.Message[string]) error {
			handled.Add(1)
			return consumer.Permanent(errors.New("no such customer"))
		}, quiet)
		w.Publish("", "orders", bodies(first)...) // the channel learns of the policy from these messages
		g.Eventually(w.Ready).WithArguments("orders.dlq").WithTimeout(deadline.For(20 * time.Second)).Should(BeNumerically(">", 0))
		w.Publish("", "orders", bodies(messages)[first:]...)
		g.Eventually(handled.Load).WithTimeout(deadline.For(time.Minute)).Should(BeNumerically(">", messages), "one was rejected, and has come back")
		w.DeletePolicy("full")
		g.Expect(w.deadLetters(messages)).To(HaveLen(messages))
	})
}

// fullDeadLetterQueue is a policy with which the dead-letter queue refuses all messages.
var fullDeadLetterQueue = brokers.Policy{Pattern: `^orders\.dlq$`, Definition: refusing, ApplyTo: "queues", Priority: 9}

// A producer may fill a frame with headers. Then the copy is published without the headers about the failure.
func TestHeadersThatFillAFrame(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		connection, err := w.Connect("producer")
		g.Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		channel, err := connection.Channel()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(channel.PublishWithContext(w.tb.Context(), "", "orders", true, false, amqp.Publishing{
			Headers: amqp.Table{"trace": strings.Repeat("7", 130_000)}, Body: []byte("large"),
		})).To(Succeed())
		w.run(w.conn(), func(context.Context, *consumer.Message[string]) error {
			return errors.New(strings.Repeat("no stock ", 10_000))
		})
		dead := w.deadLetters(1)
		g.Expect(dead["large"].Kind).To(Equal("exhausted"))
		g.Expect(len(dead["large"].Message)).To(BeNumerically("<=", 1024))
	})
}

// While a limiter grants nothing, messages wait in the queue. If the broker took them back, that would count as an attempt before
// 4.3.
func TestALimiterThatGrantsNothingCostsNoAttempt(t *testing.T) {
	t.Parallel()
	const messages = 20
	onEach(t, `{retry: {strategy: Requeue, maxAttempts: 3}}`, func(w *world) {
		g, limit := NewWithT(w.tb), contract.Duration(10*time.Second)
		w.contract.ConsumerTimeout = &limit // the broker's own is half an hour, so that only the library returns messages
		open, seen := make(chan struct{}), &handledCounts{}
		running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			seen.add(m.Body)
			return nil
		}, consumer.WithTimeout(time.Second), consumer.WithLimiter(consumer.LimiterFunc(func(ctx context.Context) (func(), error) {
			select {
			case <-open:
				return func() {}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})))
		w.Publish("", "orders", bodies(messages)...)
		g.Eventually(w.Ready).WithArguments("orders").WithTimeout(deadline.For(20 * time.Second)).Should(Equal(messages - 10))
		g.Eventually(w.Ready).WithArguments("orders").WithTimeout(deadline.For(20 * time.Second)).Should(Equal(messages))
		g.Eventually(running.Health).WithTimeout(deadline.For(time.Second)).Should(SatisfyAll(HaveField("Paused", BeTrue()), HaveField("Ready", BeTrue())))
		close(open)
		g.Eventually(seen.different).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(messages))
		g.Expect(running.Health().Reconnects).To(BeZero())
		g.Consistently(w.Ready).WithArguments("orders.dlq").WithTimeout(500 * time.Millisecond).Should(BeZero())
	})
}

// Messages that no handler can process are parked without a retry, and the workers continue.
func TestPoison(t *testing.T) {
	t.Parallel()
	const good = 300
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		seen := &handledCounts{}
		decode := func(d *consumer.Delivery) (string, error) {
			switch string(d.Raw.Body) {
			case "{":
				return "", errors.New("unexpected end")
			case "panics the decoder":
				panic("index out of range")
			}
			return string(d.Raw.Body), nil
		}
		w.run(w.conn(), decoded(decode, func(_ context.Context, m *consumer.Message[string]) error {
			switch m.Body {
			case "ends its goroutine":
				runtime.Goexit()
			case "panics":
				panic("nil map")
			}
			seen.add(m.Body)
			return nil
		}), consumer.WithConcurrency(2))
		w.Publish("", "orders", append(bodies(good), "{", "panics the decoder", "ends its goroutine", "panics")...)
		g.Expect(w.deadLetters(4)).To(Equal(map[string]deadLetter{
			"{":                  {Kind: "undecodable", Message: "unexpected end", Retries: int64(0)},
			"panics the decoder": {Kind: "undecodable", Message: "the decoder panicked: index out of range", Retries: int64(0)},
			"ends its goroutine": {Kind: "exhausted", Message: "the handler ended its goroutine", Retries: int64(3)},
			"panics":             {Kind: "exhausted", Message: "the handler panicked: nil map", Retries: int64(3)},
		}))
		g.Expect(seen.different()).To(Equal(good))
	})
}

// A message that loses the connection on each delivery never fails. It is parked instead of handled again.
func TestAMessageThatNeverFailsIsParked(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		proxy, seen := netfault.NewProxy(w.tb, w.Broker.AMQPURI), &handledCounts{}
		w.run(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), func(ctx context.Context, m *consumer.Message[string]) error {
			if seen.add(m.Body); m.Body == "kills" {
				proxy.Cut()
				<-ctx.Done()
			}
			return nil
		}, consumer.WithMaxCrashes(3), consumer.WithConcurrency(1), consumer.WithPrefetch(1)) // a prefetched message counts a crash, too
		w.Publish("", "orders", "kills", "good")
		g.Expect(w.deadLetters(1)).To(Equal(map[string]deadLetter{
			"kills": {Kind: "crashed", Message: "delivered 3 times without a success or a failure", Retries: int64(0)},
		}))
		g.Eventually(seen.different).WithTimeout(deadline.For(10 * time.Second)).Should(Equal(2))
	})
}

// A kubelet replaces a symbolic link. A new strategy needs a new session, and messages being handled finish under the old
// contract.
func TestAContractReplacedByTheKubelet(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		folder := w.tb.(*testing.T).TempDir()
		project := func(version string, current contract.Contract) {
			document, err := json.Marshal(current)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.Mkdir(filepath.Join(folder, version), 0o755)).To(Succeed())
			g.Expect(os.WriteFile(filepath.Join(folder, version, "contract.json"), document, 0o600)).To(Succeed())
			g.Expect(os.Symlink(version, filepath.Join(folder, "..new"))).To(Succeed())
			g.Expect(os.Rename(filepath.Join(folder, "..new"), filepath.Join(folder, "..data"))).To(Succeed())
		}
		project("..1", w.contract)
		path := filepath.Join(folder, "contract.json")
		g.Expect(os.Symlink(filepath.Join("..data", "contract.json"), path)).To(Succeed())
		began, release := make(chan string, 10), make(chan struct{})
		running, err := consumer.New(w.conn(), contract.File(path), func(_ context.Context, m *consumer.Message[string]) error {
			began <- m.Body
			if m.Body == "before" && m.Attempt() == 1 {
				<-release
			}
			return errors.New("no stock")
		}, quiet)
		g.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- running.Run(ctx) }()
		defer func() {
			stop()
			g.Eventually(ended).WithTimeout(deadline.For(20 * time.Second)).Should(Receive(BeNil()))
		}()
		w.Publish("", "orders", "before")
		g.Eventually(began).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(Equal("before")))
		changed := w.contract
		changed.Strategy, changed.MaxAttempts, changed.Tiers = contract.StrategyNone, 1, nil
		project("..2", changed)
		g.Eventually(func() consumer.State { return running.Health().State }).WithTimeout(deadline.For(45 * time.Second)).Should(Equal(consumer.StateDrainingQueue))
		close(release)
		w.Publish("", "orders", "after")
		g.Expect(w.deadLetters(2)).To(Equal(map[string]deadLetter{
			"before": {Kind: "exhausted", Message: "no stock", Retries: int64(1)}, // under None, each attempt is the first one
			"after":  {Kind: "exhausted", Message: "no stock", Retries: int64(1)},
		}))
	})
}

// RabbitMQ 4.3 counts deliveries across rejects. Above its limit of 20, it dead-letters a message whose connection is lost. The
// advisory DeliveryLimitBelowAttempts warns of this.
func TestALostConnectionAfterTwentyRejects(t *testing.T) {
	t.Parallel()
	onEach(t, `{retry: {strategy: Reject, maxAttempts: 25, delayTiers: [{delay: 20ms}]}}`, func(w *world) {
		g := NewWithT(w.tb)
		proxy, tried, cut := netfault.NewProxy(w.tb, w.Broker.AMQPURI), &attempts{}, &atomic.Bool{}
		w.run(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), func(_ context.Context, m *consumer.Message[string]) error {
			tried.add(m)
			if m.Attempt() == 23 && cut.CompareAndSwap(false, true) {
				proxy.Cut()
			}
			return errors.New("no stock")
		}, consumer.WithMaxCrashes(1000))
		w.Publish("", "orders", "a")
		dead := w.deadLetters(1)["a"]
		if strings.HasPrefix(w.Broker.Version, "4.3") {
			g.Expect(dead.Kind).To(BeEmpty(), "the broker dead-letters it")
			g.Expect(tried.list()).To(Equal(oneTo(23)))
			return
		}
		g.Expect(dead.Kind).To(Equal("exhausted"))
		g.Expect(tried.list()).To(Equal(append(oneTo(23), 23, 24, 25)))
	})
}

// RabbitMQ cannot report a wrong virtual host, if that virtual host has a queue of the same name.
func TestAContractOfAnotherVirtualHostIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers.Newest(t), none)
	for virtualHost, warned := range map[string]bool{w.Name: false, "/": true} {
		w.contract.VirtualHost = virtualHost
		log := &lines{}
		running := w.run(w.conn(), func(context.Context, *consumer.Message[string]) error { return nil },
			consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		NewWithT(t).Eventually(running.Health).WithTimeout(deadline.For(20 * time.Second)).Should(HaveField("State", consumer.StateDelivering))
		NewWithT(t).Expect(running.end()).To(Succeed())
		names := fmt.Sprintf("contract_virtual_host=%s uri_virtual_host=%q", virtualHost, w.Name) // slog quotes a name with spaces
		NewWithT(t).Expect(strings.Contains(log.written(), names)).To(Equal(warned), log.written())
	}
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(line)
}

func (l *lines) written() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
