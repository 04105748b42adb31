package brokers

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	amqp10 "github.com/Azure/go-amqp"
)

// AMQP10 is a message of AMQP 1.0. RabbitMQ 4.0 and later accept more in it than AMQP 0-9-1 can express.
type AMQP10 struct {
	ReplyTo string
	// Properties are application properties.
	Properties map[string]any
	Body       string
}

// UUID is a type that AMQP 0-9-1 does not have.
type UUID = amqp10.UUID

// KnowsAMQP10 reports whether the broker accepts AMQP 1.0 without a plugin, as RabbitMQ 4.0 and later do.
func (b Broker) KnowsAMQP10() bool { return !strings.HasPrefix(b.Version, "3.") }

// SendAMQP10 publishes messages to a queue over AMQP 1.0 and waits until the broker has accepted all of them.
func (v *VHost) SendAMQP10(queue string, messages ...AMQP10) {
	v.tb.Helper()
	ctx, cancel := context.WithTimeout(v.tb.Context(), time.Minute)
	defer cancel()
	if err := v.sendAMQP10(ctx, queue, messages); err != nil {
		v.tb.Fatalf("send over AMQP 1.0 to %q: %v", queue, err)
	}
}

func (v *VHost) sendAMQP10(ctx context.Context, queue string, messages []AMQP10) error {
	connection, err := amqp10.Dial(ctx, v.Broker.AMQPURI, &amqp10.ConnOptions{
		HostName: "vhost:" + v.Name, SASLType: amqp10.SASLTypePlain(v.Broker.Username, v.Broker.Password),
	})
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	sender, err := session.NewSender(ctx, "/queues/"+url.PathEscape(queue), nil)
	if err != nil {
		return err
	}
	for i, message := range messages {
		content := &amqp10.Message{ApplicationProperties: message.Properties, Data: [][]byte{[]byte(message.Body)}}
		if message.ReplyTo != "" {
			content.Properties = &amqp10.MessageProperties{ReplyTo: &message.ReplyTo}
		}
		if err := sender.Send(ctx, content, nil); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return nil
}
