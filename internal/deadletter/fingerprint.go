package deadletter

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// fingerprintLength is the number of characters in a Fingerprint.
const fingerprintLength = 16

// Fingerprint identifies a dead letter by its exchange, routing key, properties, headers and body. It ignores the counters that
// RabbitMQ changes with each delivery, so that it is stable. Identical messages share a fingerprint. Its characters are a to z
// and 2 to 7.
func Fingerprint(message *amqp.Delivery) string {
	h := hasher{sha256.New()}
	for _, text := range []string{
		message.Exchange, message.RoutingKey, message.ContentType, message.ContentEncoding, message.CorrelationId, message.ReplyTo,
		message.Expiration, message.MessageId, message.Type, message.UserId, message.AppId,
	} {
		h.text(text)
	}
	h.number(uint64(message.DeliveryMode))
	h.number(uint64(message.Priority))
	h.time(message.Timestamp)
	h.table(message.Headers, headerDeliveryCount, headerAcquiredCount)
	h.bytes(message.Body)
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)))[:fingerprintLength]
}

// hasher writes values with their types and lengths, so that different messages never produce the same bytes.
type hasher struct{ hash.Hash }

func (h hasher) number(value uint64) {
	var encoded [8]byte
	binary.BigEndian.PutUint64(encoded[:], value)
	h.Write(encoded[:])
}

func (h hasher) bytes(value []byte) {
	h.number(uint64(len(value)))
	h.Write(value)
}

func (h hasher) text(value string) { h.bytes([]byte(value)) }

// time writes seconds, the resolution of AMQP.
func (h hasher) time(value time.Time) {
	if value.IsZero() {
		h.number(0)
		return
	}
	h.number(uint64(value.Unix()))
}

func (h hasher) table(table map[string]any, without ...string) {
	names := slices.Sorted(maps.Keys(table))
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(without, name) })
	h.number(uint64(len(names)))
	for _, name := range names {
		h.text(name)
		h.value(table[name])
	}
}

// value writes a field of a table. It writes nested tables and lists element by element.
func (h hasher) value(value any) {
	h.text(fmt.Sprintf("%T", value))
	switch value := value.(type) {
	case nil:
	case string:
		h.text(value)
	case []byte:
		h.bytes(value)
	case time.Time:
		h.time(value)
	case amqp.Table:
		h.table(value)
	case []any:
		h.number(uint64(len(value)))
		for _, item := range value {
			h.value(item)
		}
	case float64:
		h.number(math.Float64bits(value))
	default: // numbers, booleans, decimals
		h.text(fmt.Sprint(value))
	}
}
