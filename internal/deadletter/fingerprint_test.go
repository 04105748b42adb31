package deadletter

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// The format is part of the API, because users may store fingerprints.
func TestFingerprintFormat(t *testing.T) {
	t.Parallel()
	topologytest.Equal(t, "fingerprint", "nf23wuubtf3kga22", Fingerprint(deadLetter()))
}

func TestFingerprintStays(t *testing.T) {
	t.Parallel()
	want := Fingerprint(deadLetter())
	for name, change := range map[string]func(*amqp.Delivery){
		"the same message":    func(*amqp.Delivery) {},
		"delivered again":     func(m *amqp.Delivery) { m.Redelivered, m.DeliveryTag, m.ConsumerTag = true, 7, "c" },
		"counted on delivery": func(m *amqp.Delivery) { m.Headers["x-delivery-count"] = int64(9) },
		"counted on 4.3":      func(m *amqp.Delivery) { m.Headers["x-acquired-count"] = int64(9) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := deadLetter()
			change(message)
			topologytest.Equal(t, "fingerprint", want, Fingerprint(message))
		})
	}
}

func TestFingerprintDiffers(t *testing.T) {
	t.Parallel()
	seen := map[string]string{Fingerprint(deadLetter()): "the message itself"}
	for name, change := range map[string]func(*amqp.Delivery){
		"exchange":         func(m *amqp.Delivery) { m.Exchange = "x" },
		"routing key":      func(m *amqp.Delivery) { m.RoutingKey = "x" },
		"content type":     func(m *amqp.Delivery) { m.ContentType = "x" },
		"content encoding": func(m *amqp.Delivery) { m.ContentEncoding = "x" },
		"correlation id":   func(m *amqp.Delivery) { m.CorrelationId = "x" },
		"reply to":         func(m *amqp.Delivery) { m.ReplyTo = "x" },
		"expiration":       func(m *amqp.Delivery) { m.Expiration = "x" },
		"message id":       func(m *amqp.Delivery) { m.MessageId = "x" },
		"type":             func(m *amqp.Delivery) { m.Type = "x" },
		"user id":          func(m *amqp.Delivery) { m.UserId = "x" },
		"app id":           func(m *amqp.Delivery) { m.AppId = "x" },
		"delivery mode":    func(m *amqp.Delivery) { m.DeliveryMode = 2 },
		"priority":         func(m *amqp.Delivery) { m.Priority = 1 },
		"timestamp":        func(m *amqp.Delivery) { m.Timestamp = time.Unix(1, 0) },
		"body":             func(m *amqp.Delivery) { m.Body = []byte("x") },
		"a header more":    func(m *amqp.Delivery) { m.Headers["x"] = "x" },
		"a header less":    func(m *amqp.Delivery) { delete(m.Headers, "tenant") },
		"type of a header": func(m *amqp.Delivery) { m.Headers["attempt"] = int64(3) },
		"nested":           func(m *amqp.Delivery) { m.Headers["nested"] = amqp.Table{"deep": []any{int16(1), "three"}} },
		"boundaries":       func(m *amqp.Delivery) { m.MessageId, m.Type = "m", "1" },
	} {
		message := deadLetter()
		change(message)
		got := Fingerprint(message)
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[got] = name
	}
}
