package deadletterapi

import (
	"crypto/sha256"
	"errors"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/deadletterapi/parameters"
)

// exported returns a message without redaction.
func exported(message *amqp.Delivery, position int) v1alpha1.ExportedDeadLetter {
	return v1alpha1.ExportedDeadLetter{
		Kind: v1alpha1.KindExportedDeadLetter, Position: int64(position), ID: deadletter.Fingerprint(message),
		Exchange: text(message.Exchange), RoutingKey: text(message.RoutingKey), Properties: propertiesOf(message),
		Headers: typedTable(message.Headers), Body: message.Body,
	}
}

func typedTable(table amqp.Table) map[string]v1alpha1.TypedValue {
	typed := make(map[string]v1alpha1.TypedValue, len(table))
	for name, value := range table {
		typed[text(name)] = typedValue(value)
	}
	return typed
}

// typedValue names types as https://www.rabbitmq.com/docs/amqp-0-9-1-errata#section_3 does.
func typedValue(value any) v1alpha1.TypedValue {
	of := func(name string, value any) v1alpha1.TypedValue { return v1alpha1.TypedValue{Type: name, Value: value} }
	switch value := value.(type) {
	case nil:
		return of("void", nil)
	case bool:
		return of("boolean", value)
	case int8:
		return of("byte", value)
	case uint8:
		return of("unsignedbyte", value)
	case int16:
		return of("short", value)
	case uint16:
		return of("unsignedshort", value)
	case int32:
		return of("int", value)
	case uint32:
		return of("unsignedint", value)
	case int64:
		return of("long", value)
	case float32:
		return of("float", finite(float64(value)))
	case float64:
		return of("double", finite(value))
	case amqp.Decimal:
		return of("decimal", decimalText(value))
	case time.Time:
		return of("timestamp", value.UTC().Format(time.RFC3339))
	case []byte:
		return of("binary", value)
	case amqp.Table:
		return of("table", typedTable(value))
	case []any:
		list := make([]v1alpha1.TypedValue, len(value))
		for i, item := range value {
			list[i] = typedValue(item)
		}
		return of("array", list)
	case string:
		return typedText(value)
	}
	return of("unknown", nil) // the AMQP library has no other types
}

// typedText returns a string, or bytes if the value is not UTF-8, because AMQP has one type for both.
func typedText(value string) v1alpha1.TypedValue {
	if utf8.ValidString(value) {
		return v1alpha1.TypedValue{Type: "longstr", Value: value}
	}
	return v1alpha1.TypedValue{Type: "longstr", Encoding: v1alpha1.Base64, Value: []byte(value)}
}

// export writes all messages without redaction. Each browse reads as many messages as the stream can buffer, and returns them to the queue.
// When the client has received them, the next browse continues behind them. If no slot is free, the next browse waits for one.
func (h *Handler) export(w http.ResponseWriter, r request) (any, error) {
	q, err := parse(r.URL.Query(), parameters.Names)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	q.depth, q.complete = math.MaxInt, true
	out := newStream(r.Context(), w)
	defer out.close()
	written := chain{}
	waitsSince, turns := time.Now(), math.MaxInt // turns is from the first browse
	ready, consumers := 0, 0                     // the largest numbers so far
	for {
		part := &chunk{out: out, written: &written, before: written}
		_, seen, err := h.browse(out.client, r, q, part.visit)
		switch {
		case err != nil && out.count == 0:
			return nil, err
		case apierrors.IsTooManyRequests(err) && time.Since(waitsSince) < exportTurnTime && sleep(out.client, retrySoon*time.Second):
			continue
		case err != nil:
			err = h.failure(r, err)
		case seen.lastRemoval > turns: // as many new messages may have arrived
			err = errChanged
		default:
			if err = part.err(); err == nil && seen.examined < ready {
				err = errChanged
			}
		}
		turns, ready, consumers = min(turns, seen.turns), max(ready, seen.ready), max(consumers, seen.consumers)
		if errors.Is(err, errUnread) && out.drain() == nil {
			waitsSince = time.Now()
			continue
		}
		if consumers > 0 && !seen.Partial { // a consumer that is gone now may have acknowledged messages
			seen.Partial, seen.PartialReason = true, v1alpha1.PartialHeldByConsumers
		}
		out.end(seen, err)
		return nil, nil
	}
}

// errChanged ends an export if exported messages are no longer at the head of the queue when it continues, or if others may have left.
var errChanged = errors.New("messages may have left the queue or changed their order before the export was complete: export again")

// chain identifies a sequence of messages.
type chain struct {
	length int
	sum    [sha256.Size]byte
}

// with returns the chain extended by a message.
func (c chain) with(id string) chain {
	return chain{c.length + 1, sha256.Sum256(append(c.sum[:], id...))}
}

// chunk is one browse of an export. It skips the messages that earlier browses exported, and exports the messages behind them.
type chunk struct {
	out *stream
	// written identifies all exported messages. before identifies the messages that earlier browses exported, and passed the messages that
	// this browse has skipped so far.
	written        *chain
	before, passed chain
}

func (c *chunk) visit(position int, deadLetter deadletter.Message) bool {
	id := deadletter.Fingerprint(deadLetter.Delivery)
	if c.passed.length < c.before.length {
		c.passed = c.passed.with(id)
		return c.passed.length < c.before.length || c.passed == c.before
	}
	*c.written = c.written.with(id)
	return c.out.add(position, deadLetter)
}

// err returns why the browse did not export all messages.
func (c *chunk) err() error {
	if c.passed != c.before {
		return errChanged
	}
	return c.out.err
}
