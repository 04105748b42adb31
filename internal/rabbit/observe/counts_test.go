package observe_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// The messages of each queue are counted if the configuration asks for it.
func TestMessagesAreCounted(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.ConfigOf(vh)
		silent := rabbittest.Connected(t, config, nil)
		config.MessageCountsInterval, config.ResyncInterval = time.Second, time.Second
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		vh.DeclareQueue("empty", map[string]any{"x-queue-type": "quorum"})
		vh.Publish("", "orders", "first", "second")
		began := time.Now()
		connection := rabbittest.Connected(t, config, nil)
		queues := []string{"orders", "empty", "not there"}
		NewWithT(t).Eventually(func() rabbit.Messages { return connection.Messages(queues) }).WithTimeout(rabbittest.Within).Should(And(
			HaveField("Of", Equal(map[string]int64{"orders": 2, "empty": 0})),
			HaveField("AsOf", BeTemporally(">", began)), HaveField("Disabled", false)))
		topologytest.Equal(t, "where counts are disabled", rabbit.Messages{Disabled: true}, silent.Messages(queues))
	})
}

// Dead letters that RabbitMQ cannot route stay in their queue, and no consumer receives them. They are counted as stuck, whatever the
// reason.
func TestStuckDeadLettersAreCounted(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	deadLetters := func(exchange, key string) map[string]any {
		return map[string]any{
			"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once",
			"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key, "x-message-ttl": 1,
		}
	}
	vh.DeclareExchange("nowhere", "fanout", nil)
	vh.DeclareQueue("full", map[string]any{"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"})
	vh.Publish("", "full", "up to the limit", "above")
	vh.DeclareQueue("no route", deadLetters("nowhere", ""))
	vh.DeclareQueue("no exchange", deadLetters("absent", ""))
	vh.DeclareQueue("target full", deadLetters("", "full"))
	vh.DeclareQueue("cycle", deadLetters("", "cycle"))
	queues := []string{"no route", "no exchange", "target full", "cycle", "full"}
	for _, queue := range queues[:4] {
		vh.Publish("", queue, "first", "second")
	}
	config := rabbittest.ConfigOf(vh)
	config.MessageCountsInterval, config.ResyncInterval = time.Second, time.Second
	connection := rabbittest.Connected(t, config, nil)
	NewWithT(t).Eventually(func() rabbit.Messages { return connection.Messages(queues) }).WithTimeout(rabbittest.Within).Should(And(
		HaveField("Of", Equal(map[string]int64{"no route": 2, "no exchange": 2, "target full": 2, "cycle": 2, "full": 2})),
		HaveField("Stuck", Equal(map[string]int64{"no route": 2, "no exchange": 2, "target full": 2, "cycle": 2}))))
}

// One count serves all connections that share an observation, and each receives a notice.
func TestMessagesAreCountedOnceForAll(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		config := sharing(vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI, config.ResyncInterval, config.MessageCountsInterval = proxy.URI, 100*time.Millisecond, time.Second
		listeners := make([]rabbittest.Listener, 4)
		connections := make([]*rabbittest.Connection, len(listeners))
		for i := range listeners {
			connections[i] = rabbittest.Connected(t, config, listeners[i].Hear)
			isMatched(t, connections[i])
		}
		began, counts := time.Now(), atomic.Int64{}
		proxy.Before(func(request *http.Request) {
			if countsMessages(request) {
				counts.Add(1)
			}
		})
		vh.Publish("", "orders", "first", "second")
		NewWithT(t).Eventually(func(g Gomega) {
			g.Expect(counts.Load()).To(BeNumerically(">=", 3))
			for _, connection := range connections {
				g.Expect(connection.Messages([]string{"orders"}).Of).To(HaveKeyWithValue("orders", int64(2)))
			}
		}).WithTimeout(rabbittest.Within).WithPolling(10 * time.Millisecond).Should(Succeed())
		for i := range listeners {
			listeners[i].AwaitsTogether(t, snapshot.Notice{Messages: true})
		}
		if times, allowed := counts.Load(), int64(time.Since(began)/config.MessageCountsInterval)+1; times > allowed {
			t.Errorf("counted %d times, want at most %d", times, allowed)
		}
	})
}

// countsMessages reports whether a request counts the messages of all queues of a vhost.
func countsMessages(request *http.Request) bool {
	return strings.Contains(request.URL.RawQuery, "enable_queue_totals=true")
}

// While messages cannot be counted, their number is unknown. A queue that does not answer does not count as empty.
func TestMessagesThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareQueue("orders", nil)
	config := rabbittest.ConfigOf(vh)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI, config.ResyncInterval, config.MessageCountsInterval = proxy.URI, 100*time.Millisecond, time.Millisecond
	connection := rabbittest.Connected(t, config, nil)
	counted := func() rabbit.Messages { return connection.Messages([]string{"orders"}) }
	eventually := NewWithT(t).Eventually(counted).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond)
	eventually.ShouldNot(Equal(rabbit.Messages{}))
	proxy.Change(func(response *http.Response) error {
		if countsMessages(response.Request) {
			response.StatusCode = http.StatusInternalServerError
		}
		return nil
	})
	eventually.Should(Equal(rabbit.Messages{}))
	topologytest.Equal(t, "error of the connection", nil, connection.Health().Err)
	proxy.Change(func(response *http.Response) error { // as if the leader of the queue were down
		if countsMessages(response.Request) {
			netfault.Replace(response, `[{"name": "other", "messages": 3}]`)
		}
		return nil
	})
	eventually.Should(And(HaveField("Uncounted", Equal([]string{"orders"})), HaveField("Of", BeEmpty()), HaveField("AsOf", Not(BeZero()))))
	proxy.Change(nil)
	eventually.Should(HaveField("Of", HaveKeyWithValue("orders", int64(0))))
}

// Every connection reports a fence of an unknown owner, with its age.
func TestStats(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		topologytest.Equal(t, "up", []bool{true, true}, []bool{connection.Stats().AMQPUp, connection.Stats().ManagementUp})
		topologytest.Equal(t, "queues", 1, connection.Stats().Size.Queues)
		topologytest.Equal(t, "fences", 0, connection.Stats().Fences)
		begun := time.Unix(time.Now().Unix()-120, 0)
		vh.SetPolicy(fmt.Sprintf("warren-fence-%d-ABCDEF:someone:none", begun.Unix()), brokers.Policy{
			Pattern: "^none$", ApplyTo: "queues", Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
		})
		rabbittest.Seen(t, connection)
		topologytest.Equal(t, "fences", 1, connection.Stats().Fences)
		topologytest.Equal(t, "since", begun, connection.Stats().Oldest)
	})
}
