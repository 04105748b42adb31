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

// EncodedSize returns the maximum number of bytes that a value takes in a table, with its type. It is exact for values in normal form.
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

// Estimates of the memory that decoded headers take in addition to their size on the wire, in bytes.
const (
	// tableMemory is the memory of a table with up to smallTable entries, and entryMemory of each further one. The smallest table is
	// seven bytes on the wire.
	tableMemory = 352
	smallTable  = 8
	entryMemory = 88
	// valueMemory is the memory of a value: its place in an array, which can have twice as many places as elements, and the struct of a
	// string or the number.
	valueMemory = 56
	// deepest is how deeply the AMQP library decodes nested tables and arrays. The library ends the connection if the headers are nested
	// deeper.
	deepest = 32
)

// headerMemory estimates the memory that the AMQP library needs for a content header, in bytes, from the payload of the frame.
func headerMemory(payload []byte) int64 {
	const hasContentType, hasContentEncoding, hasHeaders = 1 << 15, 1 << 14, 1 << 13
	rest := &arguments{rest: payload}
	rest.take(12) // class, weight, size of the body
	flags, memory := rest.uint16(), int64(len(payload))
	for _, text := range []uint16{hasContentType, hasContentEncoding} {
		if flags&text != 0 {
			rest.text()
		}
	}
	if flags&hasHeaders != 0 {
		memory += valuesMemory(rest.nested(), true, 0)
	}
	return memory
}

// valuesMemory estimates the memory of the values of a table or an array. It stops at a value that the library refuses.
func valuesMemory(encoded []byte, isTable bool, depth int) (memory int64) {
	if isTable {
		memory = tableMemory
	}
	if depth > deepest {
		return memory
	}
	rest := &arguments{rest: encoded}
	for count := 1; len(rest.rest) > 0; count++ {
		memory += valueMemory
		if isTable {
			rest.text()
			if count > smallTable {
				memory += entryMemory
			}
		}
		switch kind := rest.take(1)[0]; kind {
		case 'A', 'F':
			memory += valuesMemory(rest.nested(), kind == 'F', depth+1)
		case 'S', 'x':
			rest.nested()
		case 'V':
		case 't', 'b', 'B':
			rest.take(1)
		case 's', 'u':
			rest.take(2)
		case 'I', 'i', 'f':
			rest.take(4)
		case 'D':
			rest.take(5)
		case 'l', 'd', 'T':
			rest.take(8)
		default:
			return memory
		}
	}
	return memory
}
