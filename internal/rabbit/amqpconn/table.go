package amqpconn

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/vhost"
)

// Table converts arguments to an AMQP table. The library accepts nested tables as its own type only.
func Table(arguments map[string]any) amqp.Table {
	converted := make(amqp.Table, len(arguments))
	for key, value := range vhost.Normalize(arguments) {
		converted[key] = field(value)
	}
	return converted
}

func field(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return Table(value)
	case []any:
		converted := make([]any, len(value))
		for i := range value {
			converted[i] = field(value[i])
		}
		return converted
	}
	return value
}
