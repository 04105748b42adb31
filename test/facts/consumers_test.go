package facts

import (
	"net/url"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// counter counts the consumers of queues with passive declarations.
type counter struct {
	w       *world
	channel *amqp.Channel
}

func (w *world) counter() *counter {
	w.t.Helper()
	channel, err := w.connection.Channel()
	w.must(err)
	return &counter{w, channel}
}

// consumers returns the number of consumers of a queue, or false if the queue does not exist.
func (a *counter) consumers(queue string) (count int, exists bool) {
	a.w.t.Helper()
	declared, err := a.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if brokers.IsNotFound(err) {
		return 0, false
	}
	a.w.must(err)
	return declared.Consumers, true
}

// eventually waits until a queue reports this number of consumers.
func (a *counter) eventually(when, queue string, want int) {
	a.w.t.Helper()
	a.w.eventually(func() bool {
		count, exists := a.consumers(queue)
		return exists && count == want
	}, "%s: %q has %d consumers", when, queue, want)
}

// A passive declaration counts subscriptions. For a quorum queue it also counts channels that hold messages without a subscription, after
// basic.get or a cancellation. For a quorum queue with a single active consumer it does not count waiting consumers. For a classic queue it
// counts waiting consumers, but no channel without a subscription.
func TestConsumerCountsOfPassiveDeclarations(t *testing.T) {
	type figures struct{ holder, cancelled, waiting int }
	onEachBroker(t, func(w *world) {
		ask := w.counter()
		for kind, want := range map[string]figures{
			vhost.TypeQuorum:  {holder: 1, cancelled: 2, waiting: 1},
			vhost.TypeClassic: {holder: 0, cancelled: 0, waiting: 2},
		} {
			w.DeclareQueue(kind, map[string]any{"x-queue-type": kind})
			w.Publish("", kind, "1", "2", "3")
			ask.eventually(kind+", nobody", kind, 0)

			channel, err := w.connection.Channel()
			w.must(err)
			held, got, err := channel.Get(kind, false)
			if err != nil || !got {
				t.Fatalf("basic.get: %t, %v", got, err)
			}
			ask.eventually(kind+", basic.get", kind, want.holder)
			w.must(held.Nack(false, true))
			ask.eventually(kind+", given back", kind, 0)

			w.must(channel.Qos(1, 0, false))
			for count, tag := range []string{"first", "second"} {
				deliveries, err := channel.Consume(kind, tag, false, false, false, false, nil)
				w.must(err)
				<-deliveries
				ask.eventually(kind+", "+tag, kind, count+1)
			}
			w.must(channel.Cancel("first", false))
			w.must(channel.Cancel("second", false))
			ask.eventually(kind+", cancelled", kind, want.cancelled)
			w.must(channel.Close())
			ask.eventually(kind+", closed", kind, 0)

			single := "single " + kind
			w.DeclareQueue(single, map[string]any{"x-queue-type": kind, "x-single-active-consumer": true})
			first, second := w.consume(single), w.consume(single)
			ask.eventually(single, single, want.waiting)
			first.close()
			second.close()
			ask.eventually(single+", closed", single, 0)
		}
	})
}

// The cheap listing of queues has message counts but no consumers. The listing with consumers collects statistics.
func TestListingsOfConsumers(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("orders")
		w.Publish("", "orders", "1", "2", "3")
		w.holds("orders", 3)
		w.consume("orders").next()
		for query, want := range map[string]any{
			"disable_stats=true&enable_queue_totals=true": nil,
			"columns=name,messages,consumers":             1.0,
		} {
			w.eventually(func() bool {
				listed := []map[string]any{}
				w.get("/api/queues/"+url.PathEscape(w.Name)+"?"+query, &listed)
				return len(listed) == 1 && listed[0]["messages"] == 3.0 && listed[0]["consumers"] == want
			}, "?%s has 3 messages, and %v consumers", query, want)
		}
	})
}

// A quorum queue with x-expires is deleted despite repeated passive declarations. A classic queue stays.
func TestPassiveDeclarationsDoNotDelayExpiry(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("quorum", "x-expires", 10000) // first, because a busy broker takes seconds for it
		w.DeclareQueue("alone", map[string]any{"x-queue-type": vhost.TypeClassic, "x-expires": 1000})
		w.DeclareQueue("classic", map[string]any{"x-queue-type": vhost.TypeClassic, "x-expires": 10000})
		quorum, classic := w.counter(), w.counter()
		w.eventually(func() bool {
			_, classicExists := classic.consumers("classic")
			w.equal("the classic queue exists", classicExists, true)
			_, exists := quorum.consumers("quorum")
			return !exists
		}, "the quorum queue has expired")
		_, exists := w.counter().consumers("alone")
		w.equal("the classic queue that nobody asked exists", exists, false)
	})
}
