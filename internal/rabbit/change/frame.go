package change

import (
	"fmt"
	"maps"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// frameOverhead is the size of a frame without its method, in bytes: type, channel, size and end.
	frameOverhead = 8
	// methodOverhead is the maximum size of the methods here without names and arguments, in bytes: class, method, a reserved number and
	// flags.
	methodOverhead = 7
)

// fits returns an error if an operation cannot be sent. A method is one frame, and the broker closes the shared connection when a
// frame is too large.
func (o operation) fits(frameMax int) error {
	for _, name := range o.names {
		if len(name) > vhost.MaxNameLength {
			return fmt.Errorf("%w: a name or routing key has %d bytes, and AMQP allows %d",
				brokererr.ErrTooLarge, len(name), vhost.MaxNameLength)
		}
	}
	for _, name := range o.arguments.Keys() {
		if len(name) > vhost.MaxNameLength {
			return fmt.Errorf("%w: the name of an argument has %d bytes, and AMQP allows %d",
				brokererr.ErrTooLarge, len(name), vhost.MaxNameLength)
		}
	}
	overhead := frameOverhead + o.overhead()
	arguments := tableSize(o.arguments)
	if frameMax <= 0 || overhead+arguments <= frameMax { // zero means no limit
		return nil
	}
	largest := slices.MaxFunc(slices.Sorted(maps.Keys(o.arguments)), func(a, b string) int {
		return amqpconn.EncodedSize(o.arguments[a]) - amqpconn.EncodedSize(o.arguments[b])
	})
	return fmt.Errorf("%w: the arguments take %d bytes, %d more than fit into an AMQP frame: shorten %q",
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

// tableSize returns how many bytes arguments take in a method: a table without its type.
func tableSize(arguments vhost.Arguments) int {
	return amqpconn.EncodedSize(map[string]any(vhost.Normalize(arguments))) - 1
}
