package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// Message is a delivery with its decoded body. It has no Ack method: the handler settles it with its result.
type Message[T any] struct {
	*Delivery

	Body T
}

// Delivery is one delivery of a message. Changes to its headers or body also change the copy of a failed message, except the headers that
// ForwardHeaders leaves out. The copy lacks headers that AMQP cannot encode, such as a value of type uint64 or []string, and the consumer
// logs their names.
type Delivery struct {
	// Raw is the delivery as received by amqp091-go. Its methods Ack, Nack and Reject return an error.
	Raw amqp.Delivery

	contract  *contract.Contract // when the message was delivered
	delivered amqp.Delivery      // Raw before the handler changed it
	facts     contract.Facts
	progress  contract.Progress
	arrived   time.Time // the broker measures the consumer timeout from then on
	release   func()    // returns the permission of the limiter once the message is settled; may be nil

	ctx      context.Context // of the first call of the handler
	ctxState atomic.Int32    // ctxRecorded: ctx may be read

	probe   bool         // the breaker tries the message
	handled atomic.Int32 // how the handler ended, such as handlerSucceeded
}

func newDelivery(raw amqp.Delivery, current *contract.Contract) *Delivery {
	raw.Acknowledger = nil // what the handler returns settles the delivery
	d := &Delivery{Raw: raw, contract: current, delivered: raw}
	d.delivered.Headers = plain(raw.Headers)
	d.facts = contract.Facts{
		Exchange: raw.Exchange, RoutingKey: raw.RoutingKey, Redelivered: raw.Redelivered, Headers: d.delivered.Headers,
	}
	d.progress = current.Progress(d.facts)
	return d
}

// plain copies headers, because a handler may change them, and converts the tables in x-death to map[string]any, which package contract
// reads.
func plain(headers amqp.Table) map[string]any {
	read := maps.Clone(map[string]any(headers))
	deaths, died := headers["x-death"].([]any)
	if !died {
		return read
	}
	entries := make([]any, len(deaths))
	for i, entry := range deaths {
		entries[i] = entry
		if table, is := entry.(amqp.Table); is {
			entries[i] = map[string]any(table)
		}
	}
	read["x-death"] = entries
	return read
}

// readHeaders reads the handler's changes of the headers into facts. It leaves out each header that cannot be sent, and returns its error
// by name. The headers in which RabbitMQ and Warren's consumers count and describe deliveries stay as delivered.
func (d *Delivery) readHeaders() map[string]error {
	refused := map[string]error{}
	headers := contract.ForwardHeaders(d.Raw.Headers)
	for name, value := range headers {
		header := amqp.Table{name: value}
		err := header.Validate()
		if err == nil && hasLongName(header) {
			err = fmt.Errorf("a name has more than %d bytes", maxShortText)
		}
		if err != nil {
			refused[name] = err
			delete(headers, name)
		}
	}
	changeable := contract.ForwardHeaders(d.delivered.Headers)
	for name, value := range d.delivered.Headers {
		if _, is := changeable[name]; !is {
			headers[name] = value
		}
	}
	d.facts.Headers = headers
	return refused
}

// asDelivered returns the delivery without the changes of its handler, which may still run.
func (d *Delivery) asDelivered() *Delivery {
	unchanged := &Delivery{
		Raw: d.delivered, contract: d.contract, delivered: d.delivered, facts: d.facts, progress: d.progress, arrived: d.arrived,
		release: d.release, probe: d.probe,
	}
	if d.ctxState.Load() == ctxRecorded {
		unchanged.recordContext(d.ctx)
	}
	return unchanged
}

// ID returns the property message-id, or "" if the producer did not set it.
func (d *Delivery) ID() string { return d.Raw.MessageId }

// String identifies the delivery in logs, by its message-id or else by its delivery tag, which is not unique.
func (d *Delivery) String() string {
	if d.Raw.MessageId != "" {
		return d.Raw.MessageId
	}
	return "tag " + strconv.FormatUint(d.Raw.DeliveryTag, 10)
}

// Queue returns the name of the main queue.
func (d *Delivery) Queue() string { return d.contract.Queue }

// Attempt returns the number of this attempt, which is 1 for the first delivery. Under Reject it is above MaxAttempts if the broker did not
// accept the message in the dead-letter queue.
func (d *Delivery) Attempt() int { return d.progress.Attempt }

// MaxAttempts returns how many attempts a message has in total. Under None it is 1.
func (d *Delivery) MaxAttempts() int {
	if d.contract.Strategy == contract.StrategyNone {
		return 1
	}
	return d.contract.MaxAttempts
}

// IsLastAttempt reports whether the message goes to the dead-letter queue if the handler returns an error. If MaxAttempts changes in the
// contract while the handler runs, the new number applies.
func (d *Delivery) IsLastAttempt() bool { return d.Attempt() >= d.MaxAttempts() }

// Redrives returns how often the message was moved back from the dead-letter queue, from the header x-warren-redrive-count.
func (d *Delivery) Redrives() int { return contract.Redrives(d.Raw.Headers) }

// Deferrals returns how often handlers and the breaker have deferred the message, from the header x-defer-count.
func (d *Delivery) Deferrals() int { return contract.Deferrals(d.Raw.Headers) }

// ForwardHeaders returns a copy of the headers for another message that the handler publishes. It leaves out the headers with
// which RabbitMQ and Warren's consumers count and describe deliveries, because they would count as attempts of the other message.
func (d *Delivery) ForwardHeaders() amqp.Table { return contract.ForwardHeaders(d.Raw.Headers) }

// OriginalExchange returns the exchange to which the producer published the message.
func (d *Delivery) OriginalExchange() string { return d.progress.OriginalExchange }

// OriginalRoutingKey returns the routing key with which the producer published the message.
func (d *Delivery) OriginalRoutingKey() string { return d.progress.OriginalRoutingKey }

// decodeJSON decodes a body as JSON. A body of type []byte or string is not decoded.
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

// copyOf returns the copy of a message. It leaves out the properties user-id, because RabbitMQ accepts only the user of the connection, and
// expiration, which could end the delay early. If the headers do not fit into a frame, copyOf drops failureHeaders, and after the last
// attempt (GivenUp) also copyHeaders. The rest then fits unless the handler has changed the message, because the original did fit.
func copyOf(raw amqp.Delivery, action contract.Action, maxFrame int) amqp.Publishing {
	message := amqp.Publishing{
		Headers: amqp.Table(action.Headers), DeliveryMode: amqp.Persistent, Body: raw.Body,
		ContentType: raw.ContentType, ContentEncoding: raw.ContentEncoding, Priority: raw.Priority, CorrelationId: raw.CorrelationId,
		ReplyTo: raw.ReplyTo, MessageId: raw.MessageId, Timestamp: raw.Timestamp, Type: raw.Type, AppId: raw.AppId,
	}
	if maxFrame <= 0 {
		return message
	}
	room := roomForHeaders(message, maxFrame)
	if !fit(message.Headers, room, failureHeaders) && action.GivenUp {
		fit(message.Headers, room, copyHeaders)
	}
	return message
}

// failureHeaders may be dropped from every copy that is too large, copyHeaders only from the copy for the dead-letter queue. The
// least important headers come first.
var (
	failureHeaders = []string{contract.HeaderFailureMessage, contract.HeaderFailureClient, contract.HeaderFailureTime}
	copyHeaders    = []string{
		contract.HeaderFailureQueue, contract.HeaderOriginalExchange, contract.HeaderOriginalRoutingKey, contract.HeaderCopyID,
		contract.HeaderFailureKind, contract.HeaderRetryCount,
	}
)

// roomForHeaders returns how many bytes the headers of a message may take. RabbitMQ requires all properties of a message in one
// frame; see section 2.3.5.2 of the specification of AMQP 0-9-1.
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
	for _, text := range shortTexts(message) {
		if text.value != "" {
			room -= 1 + len(text.value)
		}
	}
	return room
}

// maxShortText is how long a name or a property may be, in bytes. amqp091-go closes the connection if one is longer.
const maxShortText = 255

// shortText is a property of a message.
type shortText struct{ name, value string }

func shortTexts(message amqp.Publishing) [9]shortText {
	return [...]shortText{
		{"content type", message.ContentType},
		{"content encoding", message.ContentEncoding},
		{"correlation ID", message.CorrelationId},
		{"reply-to", message.ReplyTo},
		{"expiration", message.Expiration},
		{"message ID", message.MessageId},
		{"type", message.Type},
		{"user ID", message.UserId},
		{"app ID", message.AppId},
	}
}

// tooLong returns which name or property of a message is too long, or "".
func tooLong(route contract.Route, message amqp.Publishing) string {
	switch {
	case hasLongName(message.Headers):
		return "name of a header"
	case len(route.Exchange) > maxShortText:
		return "exchange"
	case len(route.RoutingKey) > maxShortText:
		return "routing key"
	}
	for _, text := range shortTexts(message) {
		if len(text.value) > maxShortText {
			return text.name
		}
	}
	return ""
}

// hasLongName reports whether a table, or one in it, has a name that is too long.
func hasLongName(field any) bool {
	switch field := field.(type) {
	case amqp.Table:
		for name, value := range field {
			if len(name) > maxShortText || hasLongName(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(field, hasLongName)
	}
	return false
}

// fit deletes headers in order until the rest takes at most room bytes. It returns false if the rest is still too large.
func fit(headers amqp.Table, room int, deletable []string) bool {
	for _, name := range deletable {
		if sizeOf(headers) <= room {
			return true
		}
		delete(headers, name)
	}
	return sizeOf(headers) <= room
}

// sizeOf returns the encoded size of a table field in bytes.
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
	return 9 // 64-bit numbers and times
}
