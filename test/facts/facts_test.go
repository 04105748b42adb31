// Package facts tests the claims of the documentation about RabbitMQ itself, without Warren. Most of them are in
// docs/concepts.md. Each test takes its topology from a spec or declares the queues of an example, and runs on every broker.
package facts

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// limit is the timeout of each wait.
var limit = deadline.For(20 * time.Second)

// world is a vhost and a connection for one publisher and consumer.
type world struct {
	*brokers.VHost

	t          *testing.T
	version    vhost.Version
	connection *amqp.Connection
}

// onEachBroker runs a test on every broker, each in its own vhost.
func onEachBroker(t *testing.T, test func(w *world)) {
	t.Helper()
	on(t, brokers.All(t), test)
}

// on runs a test on some brokers, as subtests.
func on(t *testing.T, some []brokers.Broker, test func(w *world)) {
	t.Helper()
	t.Parallel()
	for _, broker := range some {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			version, err := vhost.ParseVersion(broker.Version)
			if err != nil {
				t.Fatal(err)
			}
			w := &world{VHost: broker.NewVHost(t), t: t, version: version}
			brokers.Persist(func() bool { // a busy broker starts a vhost late
				w.connection, err = w.Connect("facts")
				return err == nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.connection.Close() })
			test(w)
		})
	}
}

// declare declares the topology of a ConsumerQueue "orders" with this spec.
func (w *world) declare(spec string) {
	w.t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	cq.Name = "orders"
	if err := yaml.UnmarshalStrict([]byte(spec), &cq.Spec); err != nil {
		w.t.Fatalf("spec: %v", err)
	}
	wanted, err := topology.Desired(cq, w.version)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, exchange := range wanted.Exchanges {
		w.DeclareExchange(exchange.Name, string(exchange.Type), nil)
	}
	for _, queue := range wanted.Queues {
		w.DeclareQueue(queue.Name, queue.Arguments)
	}
	for _, binding := range wanted.Bindings {
		w.Bind(binding.Source, binding.Destination, binding.RoutingKey, binding.Arguments)
	}
}

// quorum declares a quorum queue with further arguments, as pairs of name and value.
func (w *world) quorum(name string, further ...any) {
	w.t.Helper()
	arguments := map[string]any{"x-queue-type": "quorum"}
	for i := 0; i < len(further); i += 2 {
		arguments[further[i].(string)] = further[i+1]
	}
	w.DeclareQueue(name, arguments)
}

// consumer receives the deliveries of one queue with a prefetch of one.
type consumer struct {
	w          *world
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
}

func (w *world) consume(queue string) *consumer {
	w.t.Helper()
	channel, err := w.connection.Channel()
	if err == nil {
		err = channel.Qos(1, 0, false)
	}
	c := &consumer{w: w, channel: channel}
	if err == nil {
		c.deliveries, err = channel.Consume(queue, "", false, false, false, false, nil)
	}
	if err != nil {
		w.t.Fatalf("consume %q: %v", queue, err)
	}
	return c
}

// next waits for a delivery.
func (c *consumer) next() amqp.Delivery {
	c.w.t.Helper()
	select {
	case delivery, open := <-c.deliveries:
		if !open {
			c.w.t.Fatal("the channel was closed")
		}
		return delivery
	case <-time.After(limit):
		c.w.t.Fatal("nothing was delivered")
	}
	return amqp.Delivery{}
}

func (c *consumer) close() {
	c.w.t.Helper()
	c.w.must(c.channel.Close())
}

// take consumes and acks one message of a queue, and checks its body.
func (w *world) take(queue, body string) amqp.Delivery {
	w.t.Helper()
	c := w.consume(queue)
	delivery := c.next()
	if string(delivery.Body) != body {
		w.t.Fatalf("%q has %q, want %q", queue, delivery.Body, body)
	}
	w.must(delivery.Ack(false))
	w.must(c.channel.Cancel(delivery.ConsumerTag, false)) // the ack has been processed when basic.cancel-ok arrives
	c.close()
	return delivery
}

// deliveries settles each delivery of a queue until a message is in the other queue, or for at most the given number of
// deliveries. It returns the number of deliveries.
func (w *world) deliveries(queue string, settle func(amqp.Delivery) error, other string, maxDeliveries int) int {
	w.t.Helper()
	c := w.consume(queue)
	defer c.close()
	for count := 0; ; {
		select {
		case delivery := <-c.deliveries:
			count++
			if count == maxDeliveries {
				return count
			}
			w.must(settle(delivery))
		case <-time.After(50 * time.Millisecond):
			if w.Ready(other) > 0 {
				return count
			}
		case <-w.t.Context().Done():
			w.t.Fatal("the test has ended")
		}
	}
}

// reject settles a delivery by basic.reject.
func reject(requeue bool) func(amqp.Delivery) error {
	return func(d amqp.Delivery) error { return d.Reject(requeue) }
}

// nack returns a delivery to its queue by basic.nack.
func nack(d amqp.Delivery) error { return d.Nack(false, true) }

// holds waits until a queue has count ready messages.
func (w *world) holds(queue string, count int) {
	w.t.Helper()
	w.eventually(func() bool { return w.Ready(queue) == count }, "%q holds %d messages", queue, count)
}

// counts are message counts of the management API, which are delayed.
type counts struct {
	Messages int `json:"messages"`
	// Waiting is the number of messages that wait for at-least-once dead-lettering.
	Waiting int `json:"messages_dlx"`
}

func (w *world) counts(queue string) counts {
	w.t.Helper()
	found := counts{Messages: -1}
	w.get("/api/queues/"+url.PathEscape(w.Name)+"/"+url.PathEscape(queue), &found)
	return found
}

// get sends a GET request to the management API.
func (w *world) get(path string, answer any) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.Broker.ManagementURI+path, http.NoBody)
	w.must(err)
	request.SetBasicAuth(w.Broker.Username, w.Broker.Password)
	response, err := http.DefaultClient.Do(request)
	w.must(err)
	defer func() { _ = response.Body.Close() }()
	w.must(json.NewDecoder(response.Body).Decode(answer))
}

// counted waits until the management API reports exactly these counts.
func (w *world) counted(queue string, want counts) {
	w.t.Helper()
	w.eventually(func() bool { return w.counts(queue) == want }, "%q counts %+v", queue, want)
}

func (w *world) eventually(ask func() bool, what string, args ...any) {
	w.t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(limit); !ask(); <-ticker.C {
		if time.Now().After(end) {
			w.t.Fatalf("not within %s: "+what, append([]any{limit}, args...)...)
		}
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s on RabbitMQ %s: %v, want %v", what, w.version, got, want)
	}
}

func (w *world) is40() bool { return w.version.AtLeast(vhost.RabbitMQ40) }
func (w *world) is43() bool { return w.version.AtLeast(vhost.RabbitMQ43) }
