package amqpconn

import (
	"runtime"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A prefetch limits the number of deliveries, not their size, and a queue can have many small messages in front of many large ones. So a
// connection drops each arriving message that exceeds its share of the memory. The AMQP library then sees a message without headers and
// body. The caller returns such a message to the queue, and reduces its prefetch.

const (
	// LargestBody is the largest body that a move or a browse reads, in bytes: the default of max_message_size since RabbitMQ 4.0.
	LargestBody = 16 << 20
	// ConnectionBodies is the maximum size of the messages that a connection retains, in bytes, and processBodies that of all connections
	// together. A connection that retains no message may always retain one, so that no connection waits for another. It may also always
	// retain ownBodies. Otherwise, while moves of one tenant wait with large messages, a browse of many small messages would get only one
	// message at a time.
	ConnectionBodies = 24 << 20
	processBodies    = 48 << 20
	ownBodies        = 256 << 10
	// largeBody is the size from which bodies can create garbage faster than the collector frees it on a busy machine. After every
	// garbageLimit bytes of such bodies, the connection that receives the next one waits for a collection.
	largeBody    = 1 << 20
	garbageLimit = 24 << 20
)

// keptByProcess is how many bytes of messages all connections retain. uncollected is how many bytes of large bodies arrived since the last
// collection.
var keptByProcess, uncollected atomic.Int64

// collect runs the garbage collector if it is due before a body of this size is allocated.
func collect(size int64) {
	if size >= largeBody && uncollected.Add(size) > garbageLimit {
		uncollected.Store(size)
		runtime.GC()
	}
}

// bodies are the messages of a connection that its caller has not released: their bodies, and the memory of their headers.
type bodies struct {
	largest int64

	mu   sync.Mutex
	of   map[delivery]retained
	kept int64 // memory of all messages in bytes
	// closed: the connection has ended.
	closed bool
	// full are the consumers that have lost a message because there was no room. Their later messages are dropped too, so that the order
	// of messages does not change.
	full map[string]bool
	// dropped are the dropped messages and bodies.
	dropped map[delivery]dropped
}

// retained is a message that a connection retains. body is nil if it was dropped because of its size.
type retained struct {
	body   []byte
	memory int64 // with the memory of the headers
}

// dropped is a message that was dropped, or whose body was dropped. size is the size of a body that is too large, or else the memory that
// the message would have taken.
type dropped struct {
	size     int64
	tooLarge bool
}

// delivery identifies a message of a connection. Consumer tags must be unique in the connection.
type delivery struct {
	consumer string
	number   uint64
}

func newBodies(largest int64) *bodies {
	return &bodies{largest: largest, of: map[delivery]retained{}, full: map[string]bool{}, dropped: map[delivery]dropped{}}
}

// keep returns memory for a body; nil if it is dropped. overhead is the memory of the message without its body. If fits is false, the
// headers must be dropped, too.
func (b *bodies) keep(message delivery, size, overhead int64) (room []byte, fits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	memory, tooLarge := overhead+size, size > b.largest
	if tooLarge {
		memory = overhead
	}
	if b.full[message.consumer] || !b.hasRoom(memory) {
		b.full[message.consumer] = true
		b.dropped[message] = dropped{size: memory}
		return nil, false
	}
	if tooLarge {
		b.dropped[message] = dropped{size, true}
	} else {
		collect(size)
		room = make([]byte, size)
	}
	b.of[message] = retained{room, memory}
	b.kept += memory
	keptByProcess.Add(memory)
	return room, true
}

func (b *bodies) hasRoom(size int64) bool {
	return !b.closed && (b.kept == 0 || b.kept+size <= ownBodies ||
		b.kept+size <= ConnectionBodies && keptByProcess.Load()+size <= processBodies)
}

func (b *bodies) release(message delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	memory := b.of[message].memory
	delete(b.of, message)
	delete(b.dropped, message)
	b.kept -= memory
	keptByProcess.Add(-memory)
}

// size returns how much memory the messages take, in bytes.
func (b *bodies) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept
}

func (b *bodies) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	keptByProcess.Add(-b.kept)
	b.kept, b.closed = 0, true
	clear(b.of)
}

// Unsettled returns how many messages the connection has received and neither acknowledged nor rejected.
func (c *Conn) Unsettled() int {
	state := c.Socket.incoming.state
	state.mu.Lock()
	defer state.mu.Unlock()
	count := 0
	for _, channel := range state.channels {
		count += channel.deliveries.count()
	}
	return count
}

// Body returns the body of a message until Release, nil if it was dropped, and how much memory the message takes until then, in bytes.
// The Body field of the delivery is empty, because the AMQP library does not see bodies. Body, Release and Dropped need a connection
// with DialOptions.LargestBody above zero.
func (c *Conn) Body(message *amqp.Delivery) (body []byte, memory int64) {
	b := c.Socket.incoming.state.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.of[delivery{message.ConsumerTag, message.DeliveryTag}]
	return found.body, found.memory
}

// Release stops counting a message, of which the caller keeps only the tag, and frees its body.
func (c *Conn) Release(message *amqp.Delivery) {
	c.Socket.incoming.state.bodies.release(delivery{message.ConsumerTag, message.DeliveryTag})
}

// Dropped reports whether a message was dropped when it arrived. If tooLarge is true, only its body of size bytes was dropped, and the
// connection never retains a body of this size. Otherwise there was no room at that moment for the message, which takes size bytes of
// memory, and its headers were dropped, too.
func (c *Conn) Dropped(message *amqp.Delivery) (size int64, tooLarge, isDropped bool) {
	b := c.Socket.incoming.state.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	found, isDropped := b.dropped[delivery{message.ConsumerTag, message.DeliveryTag}]
	return found.size, found.tooLarge, isDropped
}
