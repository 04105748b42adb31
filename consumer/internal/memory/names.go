package memory

import (
	"math"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// hasLongName reports whether a name or a property has more bytes than AMQP allows. amqp091-go closes the connection then.
func hasLongName(exchange, key string, m amqp.Publishing) bool {
	names := []string{
		exchange, key, m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.Expiration, m.MessageId, m.Type, m.UserId, m.AppId,
	}
	return hasLongKey(m.Headers) || slices.ContainsFunc(names, isLong)
}

func isLong(name string) bool { return len(name) > math.MaxUint8 }

func hasLongKey(field any) bool {
	switch field := field.(type) {
	case amqp.Table:
		for name, value := range field {
			if isLong(name) || hasLongKey(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(field, hasLongKey)
	}
	return false
}
