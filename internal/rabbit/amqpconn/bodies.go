package amqpconn

import (
	"runtime"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A prefetch limits the number of deliveries, not their size, and a queue can have many small messages in front of many large ones. So a
// connection drops each arriving body that exceeds its share of the memory. The caller returns such messages to the queue and prefetches
// fewer.

const (
	// LargestBody is the largest body that a move or a browse reads, in bytes: the default of max_message_size since RabbitMQ 4.0.
	LargestBody = 16 << 20
	// ConnectionBodies is how many bytes of bodies one connection retains at most, and processBodies how many all connections together. A
	// connection that retains no body may always retain one, so no connection waits for another. It may also retain ownBodies: otherwise
	// the moves of one tenant that wait with large messages would leave a browse of many small ones one message at a time.
	ConnectionBodies = 24 << 20
	processBodies    = 48 << 20
	ownBodies        = 256 << 10
	// largeBody is the size from which bodies can make garbage faster than the collector frees it on a busy machine. After every
	// garbageLimit bytes of such bodies, the connection that receives the next one waits for a collection.
	largeBody    = 1 << 20
	garbageLimit = 24 << 20
)

// keptByProcess is how many bytes of bodies all connections retain. uncollected is how many bytes of large bodies arrived since the last
// collection.
var keptByProcess, uncollected atomic.Int64

// collect runs the garbage collector if it is due before a body of this size is allocated.
func collect(size int64) {
	if size >= largeBody && uncollected.Add(size) > garbageLimit {
		uncollected.Store(size)
		runtime.GC()
	}
}

// bodies are the bodies of a connection that its caller has not released.
type bodies struct {
	largest int64

	mu   sync.Mutex
	of   map[delivery][]byte
	kept int64 // size of all bodies in bytes
	// closed: the connection has ended.
	closed bool
	// full are the consumers that have lost a body because there was no room. Their later bodies are dropped too, so that the order
	// of messages does not change.
	full map[string]bool
	// dropped are the sizes of the dropped bodies.
	dropped map[delivery]int64
}

// delivery identifies a message of a connection. Consumer tags must be unique in the connection.
type delivery struct {
	consumer string
	number   uint64
}

func newBodies(largest int64) *bodies {
	return &bodies{largest: largest, of: map[delivery][]byte{}, full: map[string]bool{}, dropped: map[delivery]int64{}}
}

// keep returns memory for a body, or dropped.
func (b *bodies) keep(message delivery, size int64) (room []byte, dropped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if size <= b.largest && !b.full[message.consumer] && b.hasRoom(size) {
		collect(size)
		room = make([]byte, size)
		b.of[message] = room
		b.kept += size
		keptByProcess.Add(size)
		return room, false
	}
	b.dropped[message] = size
	b.full[message.consumer] = b.full[message.consumer] || size <= b.largest
	return nil, true
}

func (b *bodies) hasRoom(size int64) bool {
	return !b.closed && (b.kept == 0 || b.kept+size <= ownBodies ||
		b.kept+size <= ConnectionBodies && keptByProcess.Load()+size <= processBodies)
}

func (b *bodies) release(message delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := int64(len(b.of[message]))
	delete(b.of, message)
	b.kept -= size
	keptByProcess.Add(-size)
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

// Body returns the body of a message until Release; nil if it was dropped. The Body field of the delivery is empty, because the AMQP
// library does not see bodies. Body, Release and Dropped need a connection with DialOptions.LargestBody above zero.
func (c *Conn) Body(message *amqp.Delivery) []byte {
	b := c.Socket.incoming.state.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[delivery{message.ConsumerTag, message.DeliveryTag}]
}

// Release frees the body of a message.
func (c *Conn) Release(message *amqp.Delivery) {
	c.Socket.incoming.state.bodies.release(delivery{message.ConsumerTag, message.DeliveryTag})
}

// Dropped reports whether the body of a message was dropped when it arrived, and its size in bytes. If tooLarge is true, the connection
// never retains a body of this size; otherwise there was no room at that moment.
func (c *Conn) Dropped(message *amqp.Delivery) (size int64, tooLarge, dropped bool) {
	b := c.Socket.incoming.state.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	size, dropped = b.dropped[delivery{message.ConsumerTag, message.DeliveryTag}]
	return size, size > b.largest, dropped
}
