package facts

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

// No broker accepts an expiration that is not a number, or a CC that is not a list, over AMQP 0-9-1. RabbitMQ closes the channel, or
// the connection if headers do not fit into a frame.
func TestMessagesThatEveryBrokerRefuses(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("orders")
		const closesChannel, closesConnection = amqp.PreconditionFailed, amqp.FrameError
		refused := map[string]struct {
			message amqp.Publishing
			code    int
		}{
			"another user's user-id":                {amqp.Publishing{UserId: "another"}, closesChannel},
			"a reply-to without a consumer":         {amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to"}, closesChannel},
			"an expiration that is not a number":    {amqp.Publishing{Expiration: "soon"}, closesChannel},
			"a CC that is not a list":               {amqp.Publishing{Headers: amqp.Table{"CC": "elsewhere"}}, closesChannel},
			"headers that are larger than a frame":  {amqp.Publishing{Headers: amqp.Table{"text": strings.Repeat("x", 131_072)}}, closesConnection},
			"a body of more than 16 MiB (not 3.10)": {amqp.Publishing{Body: make([]byte, 16<<20+1)}, closesChannel},
		}
		for what, try := range refused {
			connection, err := w.Connect("poison")
			w.must(err)
			channel, err := connection.Channel()
			w.must(err)
			w.must(channel.Confirm(false))
			closed := channel.NotifyClose(make(chan *amqp.Error, 1))
			confirmation, err := channel.PublishWithDeferredConfirm("", "orders", false, false, try.message)
			if err == nil { // otherwise the broker has already closed the channel
				_, err = confirmation.WaitContext(w.t.Context())
			}
			if len(try.message.Body) > 0 && !w.is40() {
				w.equal(what, err, nil)
				w.must(connection.Close())
				continue
			}
			reason := <-closed
			if reason == nil || reason.Code != try.code {
				w.t.Errorf("%s: got %v, want code %d", what, reason, try.code)
			}
			w.equal(what+": the connection has ended", connection.IsClosed(), try.code == closesConnection)
			_ = connection.Close()
		}
		taken := 0
		if !w.is40() {
			taken = 1
		}
		w.holds("orders", taken)
	})
}

// AMQP 1.0 can express more than AMQP 0-9-1. An application property becomes a CC that is not a list, and any reply-to is accepted.
// A message with a UUID closes the connection of every AMQP 0-9-1 client.
func TestMessagesOfAMQP10(t *testing.T) {
	knowing := slices.DeleteFunc(brokers.All(t), func(broker brokers.Broker) bool { return !broker.KnowsAMQP10() })
	on(t, knowing, func(w *world) {
		w.quorum("orders", "x-delivery-limit", -1)
		w.SendAMQP10("orders", brokers.AMQP10{
			Body: "strange", ReplyTo: "amq.rabbitmq.reply-to", Properties: map[string]any{"CC": "elsewhere"},
		})
		strange := w.take("orders", "strange")
		w.equal("reply-to", strange.ReplyTo, "amq.rabbitmq.reply-to")
		w.equal("CC", strange.Headers["CC"], "elsewhere")

		w.SendAMQP10("orders", brokers.AMQP10{Properties: map[string]any{"id": brokers.UUID{1}}})
		connection, err := w.Connect("reader")
		w.must(err)
		channel, err := connection.Channel()
		w.must(err)
		closed := connection.NotifyClose(make(chan *amqp.Error, 1))
		_, err = channel.Consume("orders", "", false, false, false, false, nil)
		if reason := <-closed; reason == nil || reason.Code != amqp.InternalError {
			w.t.Errorf("the reader's connection: got %v, %v", reason, err)
		}
		w.holds("orders", 1)
	})
}
