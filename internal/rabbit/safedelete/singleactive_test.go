package safedelete

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// A queue that is too busy to count reports no messages and no consumers while another process deletes it. The proof by a consumer must
// not believe that.
func TestUnheldAsConsumer(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		deleter, _ := deleterAt(t, vh)
		cluster := deleter.observer.State().Cluster.Key()
		for name, test := range map[string]struct {
			messages []string
			// holds: another consumer holds the first message. cancels: it was cancelled since.
			holds, cancels bool
			unheld         bool
		}{
			"an empty queue":              {unheld: true},
			"a message":                   {messages: []string{"1"}},
			"two sentinels":               {messages: []string{"1", "2"}},
			"a delete is running":         {messages: []string{"1", "2"}, holds: true},
			"a cancelled consumer holds":  {messages: []string{"1"}, holds: true, cancels: true},
			"a consumer holds everything": {messages: []string{"1"}, holds: true, unheld: true}, // a delete leaves a sentinel ready
		} {
			declareKnown(vh, deleter, name, vhost.Arguments{"x-single-active-consumer": true})
			vh.Publish("", name, test.messages...)
			if test.holds {
				hold(t, vh, name, test.cancels)
			}
			err := recovery{deleter}.checkUnheldAsConsumer(t.Context(), cluster, "fence", name)
			if unheld := err == nil; unheld != test.unheld || !unheld && !errors.Is(err, brokererr.ErrUnproven) {
				t.Errorf("%s: %v", name, err)
			}
			if !test.holds {
				NewWithT(t).Eventually(func() int { return vh.Ready(name) }).WithTimeout(deadline.For(10*time.Second)).
					Should(Equal(len(test.messages)), "%s: ready messages", name)
			}
		}
	})
}

// hold consumes one message of a queue and holds it until the end of the test.
func hold(t *testing.T, vh *brokers.VHost, queue string, cancels bool) {
	t.Helper()
	connection, err := vh.Connect("holds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	channel, err := connection.Channel()
	if err == nil {
		err = channel.Qos(1, 0, false)
	}
	var messages <-chan amqp.Delivery
	if err == nil {
		messages, err = channel.Consume(queue, "holds", false, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	<-messages
	if cancels {
		if err := channel.Cancel("holds", false); err != nil {
			t.Fatal(err)
		}
	}
}
