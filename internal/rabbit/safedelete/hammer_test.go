package safedelete_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/rabbittest"
)

// trials returns how often each lane is tried. WARREN_DELETE_TRIALS sets it for a long run, for example
// WARREN_DELETE_TRIALS=1000 go test -run Hammered -timeout 1h.
func trials(t *testing.T) int {
	number, err := strconv.Atoi(os.Getenv("WARREN_DELETE_TRIALS"))
	if err != nil {
		return 12
	}
	t.Logf("%d trials", number)
	return number
}

// No confirmed message is lost while publishers publish, consumers come and go, and the queue is deleted or retained. If it is retained, the
// publishers can continue.
func TestNothingIsLostWhileHammered(t *testing.T) {
	deadline.InTestAll(t)
	lanes := map[string]lane{
		"plain":           {rabbittest.Quorum(nil), nil},
		"dropping":        {rabbittest.Quorum(vhost.Arguments{"x-max-length": int64(100000)}), nil},
		"policy":          {rabbittest.Quorum(nil), map[string]any{"max-length": 100000}},
		"policy, rejects": {rabbittest.Quorum(nil), map[string]any{"max-length": 100000, "overflow": "reject-publish"}},
		"single active":   {rabbittest.Quorum(vhost.Arguments{"x-single-active-consumer": true}), nil},
		"expiring": {rabbittest.Quorum(vhost.Arguments{
			"x-message-ttl": int64(5000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "expired",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}), nil},
	}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("expired", rabbittest.Quorum(nil))
		hammerLanes(t, vh, lanes, false)
	})
}

// lane is a queue that publishers and consumers use during deletions.
type lane struct {
	arguments vhost.Arguments
	policy    map[string]any
}

// hammerLanes deletes all queues again and again. leadersMove is as in hammer.
func hammerLanes(t *testing.T, vh *brokers.VHost, lanes map[string]lane, leadersMove bool) {
	t.Helper()
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
	var together sync.WaitGroup
	for name, lane := range lanes {
		vh.DeclareQueue(name, lane.arguments)
		if lane.policy != nil {
			vh.SetPolicy(name, brokers.Policy{Pattern: "^" + name + "$", ApplyTo: "queues", Definition: lane.policy})
		}
		together.Go(func() {
			h := newHammer(t, vh, connection, name, 3)
			h.leadersMove = leadersMove
			for number := range trials(t) {
				if !h.trial(number) {
					return
				}
			}
			refused, returned := 0, 0
			for _, p := range h.publishers {
				refused, returned = refused+p.refused, returned+p.returned
			}
			t.Logf(vh.Broker.Version+", %s: deleted %d times, not deleted %d times; %d messages confirmed, %d refused, %d returned; sentinels were left %d times",
				name, h.deleted, h.kept, h.confirmed, refused, returned, h.sentinels)
		})
	}
	together.Wait()
	if t.Failed() {
		return
	}
	mustBeClean(t, vh)
}

// The last count before a deletion is that of the leader that the node knows. It is correct, or the deletion fails, while the leaders move
// among three nodes all the time.
func TestNothingIsLostWhileHammeredAndLeadersMove(t *testing.T) {
	deadline.InTestAll(t)
	t.Parallel()
	cluster := brokers.NewCluster(t, "4.3")
	vh := cluster.Node(1).NewVHost(t)
	lanes := map[string]lane{}
	for i := range 4 {
		lanes[fmt.Sprintf("orders-%d", i)] = lane{arguments: rabbittest.Quorum(nil)}
	}
	var nodes []string
	for number := range brokers.ClusterSize {
		nodes = append(nodes, "'"+cluster.Name(number+1)+"'")
	}
	move := fmt.Sprintf(`length([catch rabbit_quorum_queue:transfer_leadership(Q, N) || _ <- lists:seq(1, 10), N <- [%s],
		timer:sleep(100) =:= ok, Q <- rabbit_amqqueue:list(<<"%s">>)]).`, strings.Join(nodes, ", "), vh.Name)
	ended, moved := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(moved)
		for {
			select {
			case <-ended:
				return
			default:
				t.Logf("%s leaders were asked to move", cluster.Eval(2, move))
			}
		}
	}()
	hammerLanes(t, vh, lanes, true)
	close(ended)
	<-moved
}

type hammer struct {
	t          *testing.T
	vh         *brokers.VHost
	connection *rabbittest.Connection
	queue      string
	arguments  vhost.Arguments
	publishers []*burster

	mu       sync.Mutex
	consumer *amqp.Connection

	idle bool // no client publishes or consumes while the queue is being deleted
	// leadersMove: RabbitMQ may not notify a channel of the deletion of a queue whose leader has just moved. It then never confirms messages
	// that the channel published to the queue. If the queue refused the channel, the next queue of this name refuses it, too.
	leadersMove bool

	deleted, kept, confirmed, sentinels int
}

func newHammer(t *testing.T, vh *brokers.VHost, connection *rabbittest.Connection, queue string, publishers int) *hammer {
	t.Helper()
	h := &hammer{t: t, vh: vh, connection: connection, queue: queue}
	if err := connection.Refresh(t.Context()); err != nil {
		t.Error(err)
		return h
	}
	observed, _ := connection.Observe(vhost.Selection{Queues: []string{queue}})
	h.arguments = observed.Queues[queue].Arguments
	for range publishers {
		h.publishers = append(h.publishers, newBurster(t, vh, queue))
	}
	h.consumer = dialed(t, vh)
	return h
}

func dialed(t *testing.T, vh *brokers.VHost) *amqp.Connection {
	t.Helper()
	connection, err := vh.Connect("hammer")
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// trial deletes once, and reports whether to continue.
func (h *hammer) trial(number int) bool {
	ctx, cancel := context.WithTimeout(h.t.Context(), deadline.For(time.Minute))
	defer cancel()
	fate := map[string]bool{} // by message: processed or found
	var mu sync.Mutex
	seen := func(message amqp.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		fate[message.MessageId] = true
	}
	var traffic sync.WaitGroup
	var sent [][]string
	closing := make(chan struct{}) // the fence is about to be set, or the deletion failed earlier
	var once sync.Once
	begin := func() { once.Do(func() { close(closing) }) }
	for _, p := range h.publishers {
		if h.idle || rand.IntN(4) == 0 {
			continue
		}
		delay, count := spread(), 1+rand.IntN(1+rand.IntN(300))
		traffic.Go(func() {
			<-closing
			time.Sleep(delay)
			confirmed := p.burst(ctx, fmt.Sprintf("%d", number), count)
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, confirmed)
		})
	}
	consumers := rand.IntN(3)
	if h.idle {
		consumers = 0
	}
	for range consumers {
		delay, life, prefetch := spread(), time.Duration(rand.IntN(200))*time.Millisecond, rand.IntN(4)
		traffic.Go(func() {
			<-closing
			time.Sleep(delay)
			h.consume(life, prefetch, seen)
		})
	}
	err := h.connection.DeleteEmpty(ctx, h.connection.Health().Cluster.Key(), []string{h.queue}, func(context.Context) error {
		begin()
		return nil
	})
	begin()
	traffic.Wait()
	if err == nil {
		h.deleted++
		h.vh.DeclareQueue(h.queue, h.arguments)
		for _, p := range h.publishers { // RabbitMQ 3.10 and 4.0 close a connection that publishes during the deletion
			if p.channel.IsClosed() || h.leadersMove {
				p.connect()
			}
		}
	} else {
		h.kept++
	}
	if unanswered := h.takeUnanswered(); unanswered > 0 && (err != nil || !h.leadersMove) {
		h.t.Errorf("%s, trial %d on %s: %d publishes were never answered; the deletion said: %v",
			h.queue, number, h.vh.Broker.Version, unanswered, err)
	}
	for _, p := range h.publishers { // on the channels that were open during the deletion, unless it closed them
		confirmed := p.untilConfirmed(ctx, fmt.Sprintf("%d after %v", number, err))
		if confirmed == nil {
			return false
		}
		sent = append(sent, confirmed)
	}
	missing := map[string]bool{}
	for _, ids := range sent {
		h.confirmed += len(ids)
		for _, id := range ids {
			if !fate[id] {
				missing[id] = true
			}
		}
	}
	h.drain(func(message amqp.Delivery) bool {
		delete(missing, message.MessageId)
		return len(missing) == 0
	}, h.queues()...)
	if len(missing) > 0 {
		h.t.Errorf("%s, trial %d on %s: %d confirmed messages lost; the deletion said: %v",
			h.queue, number, h.vh.Broker.Version, len(missing), err)
	}
	return !h.t.Failed()
}

// takeUnanswered counts the publishes since the last call that RabbitMQ neither confirmed nor refused.
func (h *hammer) takeUnanswered() int {
	count := 0
	for _, p := range h.publishers {
		count += p.unanswered
		p.unanswered = 0
	}
	return count
}

// queues lists the queues that a message may be in.
func (h *hammer) queues() []string {
	if target, expires := h.arguments["x-dead-letter-routing-key"].(string); expires {
		return []string{h.queue, target}
	}
	return []string{h.queue}
}

// spread returns a random time within a deletion.
func spread() time.Duration { return time.Duration(rand.IntN(1200)) * time.Millisecond }

// consume processes messages for a time.
func (h *hammer) consume(life time.Duration, prefetch int, seen func(amqp.Delivery)) {
	channel, err := h.consumerChannel()
	if err != nil {
		h.t.Error(err)
		return
	}
	defer func() { _ = channel.Close() }()
	_ = channel.Qos(prefetch, 0, false)
	messages, err := channel.Consume(h.queue, "", false, false, false, false, nil)
	if err != nil {
		return // the queue is deleted
	}
	end := time.After(life)
	for {
		select {
		case message, ok := <-messages:
			if !ok {
				return
			}
			seen(message)
			_ = message.Ack(false)
		case <-end:
			return
		}
	}
}

// consumerChannel connects again if necessary: RabbitMQ closes the connection of a consumer that subscribes to a queue while it is deleted,
// and this consumer may share that connection.
func (h *hammer) consumerChannel() (*amqp.Channel, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	channel, err := h.consumer.Channel()
	if err != nil && h.consumer.IsClosed() {
		h.consumer = dialed(h.t, h.vh)
		return h.consumer.Channel()
	}
	return channel, err
}

// drain empties queues, and counts sentinels that were left. It stops when no message has arrived for a time, which is short once all
// expected messages have arrived.
func (h *hammer) drain(all func(amqp.Delivery) bool, queues ...string) {
	channel, err := h.consumerChannel()
	if err != nil {
		h.t.Error(err)
		return
	}
	defer func() { _ = channel.Close() }()
	messages, done := make(chan amqp.Delivery), make(chan struct{})
	defer close(done)
	for _, queue := range queues {
		from, err := channel.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			h.t.Error(err)
			return
		}
		go func() {
			for message := range from {
				select {
				case messages <- message:
				case <-done:
				}
			}
		}()
	}
	patience := rabbittest.Within
	if all(amqp.Delivery{}) {
		patience = 200 * time.Millisecond
	}
	for {
		select {
		case message := <-messages:
			if message.Type == safedelete.SentinelType {
				h.sentinels++
			}
			_ = message.Ack(false)
			if all(message) {
				patience = 200 * time.Millisecond
			}
		case <-time.After(patience):
			return
		}
	}
}

// burster publishes to one queue on one channel, for as long as the test lasts.
type burster struct {
	t                 *testing.T
	vh                *brokers.VHost
	queue             string
	name              string
	refused, returned int
	unanswered        int
	channel           *amqp.Channel
	returns           chan amqp.Return // has room for a burst; the library sends a return before the confirm
}

func newBurster(t *testing.T, vh *brokers.VHost, queue string) *burster {
	t.Helper()
	b := &burster{t: t, vh: vh, queue: queue, name: strconv.FormatUint(rand.Uint64(), 36)}
	b.connect()
	return b
}

func (b *burster) connect() {
	channel, err := dialed(b.t, b.vh).Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		b.t.Error(err)
		return
	}
	b.channel = channel
	b.returns = channel.NotifyReturn(make(chan amqp.Return, 1000))
}

// burst publishes as fast as it can, and returns the messages that were confirmed and not returned.
func (b *burster) burst(ctx context.Context, trial string, count int) (confirmed []string) {
	var waiting []*amqp.DeferredConfirmation
	id := func(i int) string { return fmt.Sprintf("%s/%s/%d", b.name, trial, i) }
	for i := range count {
		confirmation, err := b.channel.PublishWithDeferredConfirm("", b.queue, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id(i), Body: []byte(id(i))})
		if err != nil {
			break
		}
		waiting = append(waiting, confirmation)
	}
	patient, cancel := context.WithTimeout(ctx, deadline.For(10*time.Second))
	defer cancel()
	for _, confirmation := range waiting {
		if _, err := confirmation.WaitContext(patient); err != nil && !b.channel.IsClosed() {
			b.unanswered++
		}
	}
	returned := map[string]bool{}
	for range len(b.returns) {
		message := <-b.returns
		returned[message.MessageId] = true
	}
	for i, confirmation := range waiting {
		switch {
		case !confirmation.Acked():
			b.refused++
		case !returned[id(i)]:
			confirmed = append(confirmed, id(i))
		}
	}
	b.returned += len(returned)
	return confirmed
}

// untilConfirmed publishes until one message is confirmed, because a publisher must be able to continue.
func (b *burster) untilConfirmed(ctx context.Context, trial string) []string {
	refused, returned := b.refused, b.returned
	for end := time.Now().Add(rabbittest.Within); time.Now().Before(end); {
		if confirmed := b.burst(ctx, trial, 1); confirmed != nil {
			return confirmed
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.t.Errorf("%s, trial %s: the publisher is refused for good, or its messages are returned (%d, %d) on %s", b.queue, trial, b.refused-refused, b.returned-returned, b.vh.Broker.Version)
	return nil
}

// mustBeClean fails if a policy or a sentinel of ours is left.
func mustBeClean(t *testing.T, vh *brokers.VHost) {
	t.Helper()
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
	g := NewWithT(t)
	g.Eventually(func() []vhost.Policy { // another connection may still be removing a fence that was left behind
		policies, err := connection.API.Policies(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(policies, func(p vhost.Policy) bool { return len(safedelete.WithoutFences([]vhost.Policy{p})) > 0 })
	}).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
}
