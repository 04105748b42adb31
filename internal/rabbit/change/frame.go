package change

import (
	"fmt"
	"maps"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// frameOverhead is what a frame takes besides its method, in bytes: type, channel, size and end.
	frameOverhead = 8
	// methodOverhead is the most that the methods here take besides names and arguments, in bytes: class, method, a reserved number
	// and flags.
	methodOverhead = 7
)

// fits returns an error if an operation cannot be sent. A method is one frame, and the broker closes the shared connection when a
// frame is too large.
func (o operation) fits(frameMax int) error {
	for _, name := range o.names {
		if len(name) > vhost.MaxNameLength {
			return fmt.Errorf("%w: %d bytes are more than the %d of AMQP", brokererr.ErrTooLarge, len(name), vhost.MaxNameLength)
		}
	}
	for _, name := range o.arguments.Keys() {
		if len(name) > vhost.MaxNameLength {
			return fmt.Errorf("%w: the name of an argument has %d bytes, more than the %d of AMQP",
				brokererr.ErrTooLarge, len(name), vhost.MaxNameLength)
		}
	}
	overhead := frameOverhead + o.overhead()
	arguments := encodedTable(vhost.Normalize(o.arguments))
	if frameMax <= 0 || overhead+arguments <= frameMax { // zero is no limit
		return nil
	}
	largest := slices.MaxFunc(slices.Sorted(maps.Keys(o.arguments)), func(a, b string) int {
		return encoded(o.arguments[a]) - encoded(o.arguments[b])
	})
	return fmt.Errorf("%w: the arguments take %d bytes, %d more than fit into a frame of AMQP: shorten %q",
		brokererr.ErrTooLarge, arguments, overhead+arguments-frameMax, largest)
}

// overhead returns how many bytes the method takes besides its arguments.
func (o operation) overhead() int {
	size := methodOverhead
	for _, name := range o.names {
		size += 1 + len(name)
	}
	return size
}

// encodedTable returns how many bytes a table of normal values takes as a field of a method.
func encodedTable(table map[string]any) int {
	size := 4
	for name, value := range table {
		size += 1 + len(name) + encoded(value)
	}
	return size
}

// encoded returns how many bytes a normal value takes in a table, its type included.
func encoded(value any) int {
	switch value := value.(type) {
	case nil:
		return 1
	case bool:
		return 2
	case string:
		return 5 + len(value)
	case []any:
		size := 5
		for _, item := range value {
			size += encoded(item)
		}
		return size
	case map[string]any:
		return 1 + encodedTable(value)
	}
	return 9 // int64 and float64
}
