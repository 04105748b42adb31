package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// Message is a delivery with its decoded body. There is no Ack: what the handler returns decides.
type Message[T any] struct {
	*Delivery

	Body T
}

// Delivery is one delivery of a message. Whoever changes its headers or its body changes the copy of a failed message.
type Delivery struct {
	// Raw is the delivery as amqp091-go has it, with headers, properties and the body as it came.
	Raw amqp.Delivery

	contract *contract.Contract // at the time of the delivery
	facts    contract.Facts
	progress contract.Progress
	arrived  time.Time // the broker counts the consumer timeout from then on
}

func newDelivery(raw amqp.Delivery, current *contract.Contract) *Delivery {
	raw.Acknowledger = nil // what the handler returns settles the delivery
	d := &Delivery{Raw: raw, contract: current, facts: contract.Facts{
		Exchange: raw.Exchange, RoutingKey: raw.RoutingKey, Redelivered: raw.Redelivered, Headers: plain(raw.Headers),
	}}
	d.progress = current.Progress(d.facts)
	return d
}

// plain are headers as package contract reads them: x-death has tables of amqp091-go.
func plain(headers amqp.Table) map[string]any {
	deaths, died := headers["x-death"].([]any)
	if !died {
		return headers
	}
	entries := make([]any, len(deaths))
	for i, entry := range deaths {
		entries[i] = entry
		if table, is := entry.(amqp.Table); is {
			entries[i] = map[string]any(table)
		}
	}
	read := maps.Clone(map[string]any(headers))
	read["x-death"] = entries
	return read
}

// ID is the property message-id, which the producer sets; empty if it did not.
func (d *Delivery) ID() string { return d.Raw.MessageId }

// String names the delivery in logs: by its message-id, or else by its tag, which other deliveries have as well.
func (d *Delivery) String() string {
	if d.Raw.MessageId != "" {
		return d.Raw.MessageId
	}
	return "tag " + strconv.FormatUint(d.Raw.DeliveryTag, 10)
}

// Queue is the main queue.
func (d *Delivery) Queue() string { return d.contract.Queue }

// Attempt is the number of this attempt, 1 on the first delivery.
func (d *Delivery) Attempt() int { return d.progress.Attempt }

// MaxAttempts is how many attempts a message has.
func (d *Delivery) MaxAttempts() int { return d.contract.MaxAttempts }

// IsLastAttempt says that the message goes to the dead-letter queue if the handler fails.
func (d *Delivery) IsLastAttempt() bool { return d.Attempt() >= d.MaxAttempts() }

// Redrives is how often the message was brought back from the dead-letter queue, by the header x-warren-redrive-count.
func (d *Delivery) Redrives() int { return contract.Redrives(d.Raw.Headers) }

// Deferrals is how often handlers have deferred the message.
func (d *Delivery) Deferrals() int { return contract.Deferrals(d.Raw.Headers) }

// ForwardHeaders are the headers of the message for another message that follows from it: without what RabbitMQ and Warren's consumers
// write about deliveries, which would count as attempts of the other message.
func (d *Delivery) ForwardHeaders() amqp.Table { return contract.ForwardHeaders(d.Raw.Headers) }

// OriginalExchange is where the message was published first.
func (d *Delivery) OriginalExchange() string { return d.progress.OriginalExchange }

// OriginalRoutingKey is the routing key with which the message was published first.
func (d *Delivery) OriginalRoutingKey() string { return d.progress.OriginalRoutingKey }

// Failure is what the message's headers tell of its last failure.
type Failure struct {
	Kind    contract.FailureKind
	Message string
	Time    time.Time // zero if not known
	Client  string
}

// LastFailure is what the message's headers tell of its last failure; false if there was none.
func (d *Delivery) LastFailure() (Failure, bool) {
	kind, _ := d.Raw.Headers[contract.HeaderFailureKind].(string)
	message, _ := d.Raw.Headers[contract.HeaderFailureMessage].(string)
	at, _ := d.Raw.Headers[contract.HeaderFailureTime].(string)
	client, _ := d.Raw.Headers[contract.HeaderFailureClient].(string)
	when, _ := time.Parse(time.RFC3339, at) // zero if not known
	return Failure{contract.FailureKind(kind), message, when, client}, kind != ""
}

// decodeJSON is how bodies are decoded unless Decode says otherwise. Bytes and strings are passed as they are.
func decodeJSON[T any](d *Delivery, body *T) error {
	switch target := any(body).(type) {
	case *[]byte:
		*target = d.Raw.Body
		return nil
	case *string:
		*target = string(d.Raw.Body)
		return nil
	}
	if err := json.Unmarshal(d.Raw.Body, body); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	return nil
}

// errTooLarge is the error of a copy whose headers do not fit into a frame: the broker would close the connection.
var errTooLarge = errors.New("the headers of the copy do not fit into a frame")

// copyOf is the message as it is published again. It leaves out the properties user-id, which names another user than this one, and
// expiration, which would end the delay early. The copy of a message that is given up always fits, because the original did.
func copyOf(raw amqp.Delivery, action contract.Action, maxFrame int) (amqp.Publishing, error) {
	message := amqp.Publishing{
		Headers: amqp.Table(action.Headers), DeliveryMode: amqp.Persistent, Body: raw.Body,
		ContentType: raw.ContentType, ContentEncoding: raw.ContentEncoding, Priority: raw.Priority, CorrelationId: raw.CorrelationId,
		ReplyTo: raw.ReplyTo, MessageId: raw.MessageId, Timestamp: raw.Timestamp, Type: raw.Type, AppId: raw.AppId,
	}
	if maxFrame <= 0 {
		return message, nil
	}
	room := roomForHeaders(message, maxFrame)
	if fit(message.Headers, room, failureHeaders) || action.GivenUp && fit(message.Headers, room, copyHeaders) {
		return message, nil
	}
	return amqp.Publishing{}, errTooLarge
}

// failureHeaders can be left out of every copy, and copyHeaders of one that is given up. The least important come first.
var (
	failureHeaders = []string{contract.HeaderFailureMessage, contract.HeaderFailureClient, contract.HeaderFailureTime}
	copyHeaders    = []string{
		contract.HeaderFailureQueue, contract.HeaderOriginalExchange, contract.HeaderOriginalRoutingKey, contract.HeaderCopyID,
		contract.HeaderFailureKind, contract.HeaderRetryCount,
	}
)

// roomForHeaders is how many bytes the headers of a message may take: all properties of a message come in one frame. See section
// 2.3.5.2 of the specification of AMQP 0-9-1.
func roomForHeaders(message amqp.Publishing, maxFrame int) int {
	const (
		frame   = 8             // type, channel, size, end
		content = 2 + 2 + 8 + 2 // class, weight, size of the body, flags
	)
	room := maxFrame - frame - content - 1 // delivery mode
	if message.Priority > 0 {
		room--
	}
	if !message.Timestamp.IsZero() {
		room -= 8
	}
	for _, text := range []string{
		message.ContentType, message.ContentEncoding, message.CorrelationId, message.ReplyTo, message.MessageId, message.Type,
		message.AppId,
	} {
		if text != "" {
			room -= 1 + len(text)
		}
	}
	return room
}

// fit deletes headers, in order, until the rest takes at most room bytes; false if the rest takes more.
func fit(headers amqp.Table, room int, deletable []string) bool {
	for _, name := range deletable {
		if sizeOf(headers) <= room {
			return true
		}
		delete(headers, name)
	}
	return sizeOf(headers) <= room
}

// sizeOf is how many bytes a field of a table takes.
func sizeOf(value any) int {
	switch value := value.(type) {
	case nil:
		return 1
	case bool, byte, int8:
		return 2
	case int16, uint16:
		return 3
	case int, int32, uint32, float32:
		return 5
	case amqp.Decimal:
		return 6
	case string:
		return 5 + len(value)
	case []byte:
		return 5 + len(value)
	case amqp.Table:
		size := 5
		for name, field := range value {
			size += 1 + len(name) + sizeOf(field)
		}
		return size
	case map[string]any:
		return sizeOf(amqp.Table(value))
	case []any:
		size := 5
		for _, field := range value {
			size += sizeOf(field)
		}
		return size
	}
	return 9 // numbers, times
}
