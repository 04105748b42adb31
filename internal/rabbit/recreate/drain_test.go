package recreate

import (
	"crypto/tls"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// Warren does not read the body of a message that is too large. A copy without the body must not replace the message.
func TestAMessageWithoutItsBodyIsNotDrained(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	rec := of("orders")
	for _, queue := range []string{"orders", rec.Backlog()} {
		vh.DeclareQueue(queue, vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum})
	}
	vh.DeclareExchange(rec.BacklogExchange(), "fanout", nil)
	vh.Bind(rec.BacklogExchange(), rec.Backlog(), "", nil)
	vh.Publish("", "orders", "12")
	uri, err := url.Parse(vh.Broker.AMQPURI)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := amqpconn.Dial(t.Context(), amqpconn.DialOptions{
		URI: uri, TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Username: vh.Broker.Username, Password: vh.Broker.Password,
		VHost: vh.Name, Timeout: deadline.For(30 * time.Second), LargestBody: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &drainer{Recreator: New(Settings{}, nil, nil, nil, nil), rec: rec, connection: connection}
	channel, err := connection.Connection.Channel()
	if err == nil {
		d.publisher, err = connection.NewPublisher(channel, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.drain(t.Context()); ReasonOf(err) != MessageNotMoved || d.moved > 0 {
		t.Errorf("%d messages are moved: %v", d.moved, err)
	}
	NewWithT(t).Eventually(vh.Ready).WithArguments("orders").WithTimeout(deadline.For(30 * time.Second)).Should(Equal(1))
}
