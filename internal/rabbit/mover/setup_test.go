package mover

import (
	"context"
	"crypto/tls"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// within is the timeout on a loaded machine for effects that are otherwise immediate.
var within = deadline.For(30 * time.Second)

const (
	source      = "orders.dlq"
	destination = "orders"
)

// each runs a test against every broker of the matrix. Each run has its own vhost with the two queues.
func each(t *testing.T, test func(t *testing.T, vh *brokers.VHost)) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			vh := broker.NewVHost(t)
			vh.DeclareQueue(source, quorum(vh, nil))
			vh.DeclareQueue(destination, quorum(vh, nil))
			test(t, vh)
		})
	}
}

// quorum returns the arguments of a quorum queue without a delivery limit. RabbitMQ 3.10 has no limit unless the argument sets one,
// and every message exceeds a limit of -1.
func quorum(vh *brokers.VHost, more map[string]any) map[string]any {
	arguments := map[string]any{"x-queue-type": "quorum"}
	if !strings.HasPrefix(vh.Broker.Version, "3.") {
		arguments["x-delivery-limit"] = -1
	}
	maps.Copy(arguments, more)
	return arguments
}

// bodies returns consecutive numbers as texts.
func bodies(count int) []string {
	numbers := make([]string, count)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i)
	}
	return numbers
}

// toDestination moves every message unless skip returns a reason for its body.
type toDestination struct{ skip func(body string) string }

func (j toDestination) Skips(message *amqp.Delivery, _ int64) string {
	if j.skip == nil {
		return ""
	}
	return j.skip(string(message.Body))
}

func (toDestination) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	headers := amqp.Table{SeqHeader: seq}
	for name, value := range message.Headers {
		if !strings.HasPrefix(name, "x-") {
			headers[name] = value
		}
	}
	return contract.Route{RoutingKey: destination}, amqp.Publishing{
		DeliveryMode: amqp.Persistent, Headers: headers, Body: message.Body, ReplyTo: message.ReplyTo, MessageId: message.MessageId,
	}, nil
}

type run struct {
	t      *testing.T
	Stop   context.CancelFunc
	ended  chan struct{}
	mu     sync.Mutex
	latest Progress
	err    error
}

// configOf configures a move of all messages from source to destination.
func configOf(t *testing.T, vh *brokers.VHost) Config {
	t.Helper()
	return Config{
		Dial: dialer(t, vh, vh.Broker.AMQPURI), Log: testr.NewWithOptions(t, testr.Options{Verbosity: 1}),
		Errs:  brokererr.Errors{Username: vh.Broker.Username, Password: vh.Broker.Password, VHost: vh.Name},
		Queue: source, Destination: destination, Filter: toDestination{}, Copier: toDestination{},
		Settings: func() Settings { return Settings{MaxDepth: -1} }, Total: vh.Ready(source), MaxFailures: 10,
	}
}

// start begins a move from source to destination, with a changed Config.
func start(t *testing.T, vh *brokers.VHost, change func(*Config)) *run {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &run{t: t, Stop: stop, ended: make(chan struct{})}
	config := configOf(t, vh)
	config.Report = func(progress Progress) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.latest = progress
	}
	change(&config)
	go func() {
		defer close(r.ended)
		progress, err := Run(ctx, config)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.latest, r.err = progress, err
	}()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

func dialer(t testing.TB, vh *brokers.VHost, address string) func(context.Context) (*amqpconn.Conn, error) {
	t.Helper()
	uri, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (*amqpconn.Conn, error) {
		return amqpconn.Dial(ctx, amqpconn.DialOptions{
			LargestBody: 1 << 20, // less than in production, so that a test can exceed it
			URI:         uri, TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Username: vh.Broker.Username, Password: vh.Broker.Password,
			VHost: vh.Name, Owner: "test", Product: "Warren mover", Name: "transfer", Timeout: within,
		})
	}
}

func (r *run) Progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

func (r *run) State() State { return r.Progress().State }

// Wait waits until the move has ended, and returns its result.
func (r *run) Wait() (Progress, error) {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(4 * within):
		r.t.Fatalf("the move has not ended: %+v", r.Progress())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest, r.err
}

// awaits waits until the move is in a state.
func (r *run) awaits(state State) {
	r.t.Helper()
	NewWithT(r.t).Eventually(r.State).WithTimeout(within).WithPolling(10 * time.Millisecond).Should(Equal(state))
}

// holds waits until a queue has exactly count ready messages.
func holds(t *testing.T, vh *brokers.VHost, queue string, count int) {
	t.Helper()
	NewWithT(t).Eventually(vh.Ready).WithArguments(queue).WithTimeout(within).WithPolling(50*time.Millisecond).
		Should(Equal(count), "messages of %q", queue)
}

// drained waits for count messages, takes them out of a queue, and returns their bodies in order.
func drained(t *testing.T, vh *brokers.VHost, queue string, count int) []string {
	t.Helper()
	holds(t, vh, queue, count)
	return bodiesOf(drain(t, vh, queue))
}

// connect opens a connection with a channel.
func connect(tb testing.TB, vh *brokers.VHost, name string) (channel *amqp.Channel, closeConnection func()) {
	tb.Helper()
	connection, err := vh.Connect(name)
	if err == nil {
		channel, err = connection.Channel()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return channel, func() { _ = connection.Close() }
}

// drain takes all ready messages out of a queue, in order. After the first one it consumes, because a Get for each message would
// cost the broker several times as much.
func drain(t *testing.T, vh *brokers.VHost, queue string) []amqp.Delivery {
	t.Helper()
	channel, closeConnection := connect(t, vh, "drain")
	defer closeConnection()
	messages := []amqp.Delivery{}
	for {
		first, ok, err := channel.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return messages
		}
		messages = append(messages, first)
		if first.MessageCount == 0 {
			continue
		}
		deliveries, err := channel.Consume(queue, "drain", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range first.MessageCount {
			messages = append(messages, <-deliveries)
		}
		if err := channel.Cancel("drain", false); err != nil {
			t.Fatal(err)
		}
		for late := range deliveries {
			messages = append(messages, late)
		}
	}
}

func bodiesOf(messages []amqp.Delivery) []string {
	found := make([]string, len(messages))
	for i, message := range messages {
		found[i] = string(message.Body)
	}
	return found
}

// sorted returns distinct numbers in numerical order.
func sorted(numbers []string) []string {
	byValue := slices.Clone(numbers)
	slices.SortFunc(byValue, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	})
	return slices.Compact(byValue)
}

// holding starts a consumer that holds count messages and takes no more, until release is called.
func holding(t *testing.T, vh *brokers.VHost, queue string, count int) (release func()) {
	t.Helper()
	channel, closeConnection := connect(t, vh, "holding")
	t.Cleanup(closeConnection)
	if err := channel.Qos(count, 0, false); err != nil {
		t.Fatal(err)
	}
	messages, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		<-messages
	}
	return closeConnection
}

// busy returns the URI of a proxy. Through it, a queue that is busy answers passive declarations late, with neither messages nor consumers.
func busy(t *testing.T, vh *brokers.VHost, queue string, isBusy func() bool) (uri string) {
	t.Helper()
	name := string(append([]byte{byte(len(queue))}, queue...)) // as AMQP encodes it
	return netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(f netfault.Frame) netfault.Verdict {
		if f.FromBroker && f.Method == amqpmethod.QueueDeclareOK && strings.HasPrefix(string(f.Arguments), name) && isBusy() {
			time.Sleep(3 * time.Second)    // a busy machine also delays the answers that it is compared with
			clear(f.Arguments[len(name):]) // messages and consumers
		}
		return netfault.Pass
	}).URI
}

// redeliver takes messages and returns them.
func redeliver(t *testing.T, vh *brokers.VHost, queue string, count int) {
	t.Helper()
	channel, closeConnection := connect(t, vh, "redeliver")
	defer closeConnection()
	messages, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		<-messages
	}
}

func publish(t *testing.T, vh *brokers.VHost, queue string, message amqp.Publishing) {
	t.Helper()
	channel, closeConnection := connect(t, vh, "publish")
	defer closeConnection()
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	message.DeliveryMode = amqp.Persistent
	confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, message)
	if err != nil || !confirmation.Wait() {
		t.Fatalf("publish to %q: %v", queue, err)
	}
}
