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

// EncodedSize returns how many bytes a value takes in a table at most, with its type. It is exact for values in normal form.
func EncodedSize(value any) int {
	size := 5 // the type and a length
	switch value := value.(type) {
	case nil:
		return 1
	case bool:
		return 2
	case string:
		return size + len(value)
	case []byte:
		return size + len(value)
	case []any:
		for _, item := range value {
			size += EncodedSize(item)
		}
		return size
	case amqp.Table:
		return EncodedSize(map[string]any(value))
	case map[string]any:
		for name, item := range value {
			size += 1 + len(name) + EncodedSize(item)
		}
		return size
	}
	return 9 // numbers and times
}
