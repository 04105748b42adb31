package amqpconn

import (
	"runtime"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitMQ limits deliveries by their number, so a queue can have many small messages in front of many large ones. A connection drops the
// bodies that exceed its share of the memory as they arrive. Its user gives such messages back to the queue and takes fewer at a time.

const (
	// LargestBody is the largest body that a transfer or a browse reads: the default of max_message_size since RabbitMQ 4.0.
	LargestBody = 16 << 20
	// ConnectionBodies is how many bytes of bodies one connection keeps at most, and processBodies how many all connections together. A
	// connection that keeps no body may always keep one, so none waits for another.
	ConnectionBodies = 24 << 20
	processBodies    = 48 << 20
	// largeBody is a body of which a few make more garbage than the collector keeps up with on a busy machine. The connection that gets
	// such a body waits for a collection after every garbageLimit bytes of them.
	largeBody    = 1 << 20
	garbageLimit = 24 << 20
)

// keptByProcess is how many bytes of bodies all connections keep, and uncollected how many of large ones came since the last collection.
var keptByProcess, uncollected atomic.Int64

// collect waits for a collection of garbage if it is due before room is made for a body.
func collect(size int64) {
	if size >= largeBody && uncollected.Add(size) > garbageLimit {
		uncollected.Store(size)
		runtime.GC()
	}
}

// bodies are the bodies of a connection that its user has not released.
type bodies struct {
	largest int64

	mu   sync.Mutex
	of   map[delivery][]byte
	kept int64 // bytes of them
	// closed says that the connection has ended.
	closed bool
	// full are the consumers that have dropped a body for lack of room. They drop all later ones, too: the order of messages stays.
	full map[string]bool
	// dropped are the sizes of bodies that were dropped.
	dropped map[delivery]int64
}

// delivery identifies a message of a connection, as long as each consumer has a name of its own.
type delivery struct {
	consumer string
	number   uint64
}

func newBodies(largest int64) *bodies {
	return &bodies{largest: largest, of: map[delivery][]byte{}, full: map[string]bool{}, dropped: map[delivery]int64{}}
}

// keep returns the room for a body, or that the body is dropped.
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
	return !b.closed && (b.kept == 0 || b.kept+size <= ConnectionBodies && keptByProcess.Load()+size <= processBodies)
}

// release forgets the body of a message.
func (b *bodies) release(message delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := int64(len(b.of[message]))
	delete(b.of, message)
	b.kept -= size
	keptByProcess.Add(-size)
}

// close releases all bodies.
func (b *bodies) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	keptByProcess.Add(-b.kept)
	b.kept, b.closed = 0, true
	clear(b.of)
}

// Unsettled is how many messages the connection has received that are neither acknowledged nor given back.
func (l *Conn) Unsettled() int {
	state := l.Socket.incoming.state
	state.mu.Lock()
	defer state.mu.Unlock()
	count := 0
	for _, channel := range state.channels {
		count += channel.deliveries.count()
	}
	return count
}

// Body returns the body of a message, which the AMQP library has not seen.
func (l *Conn) Body(message *amqp.Delivery) []byte {
	b := l.Socket.incoming.state.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[delivery{message.ConsumerTag, message.DeliveryTag}]
}

// Release says that the body of a message is not needed any more.
func (l *Conn) Release(message *amqp.Delivery) {
	l.Socket.incoming.state.bodies.release(delivery{message.ConsumerTag, message.DeliveryTag})
}

// Dropped reports whether the body of a message was dropped as it arrived, with its size. It was too large if no connection keeps such a
// body; otherwise there was no room for it.
func (l *Conn) Dropped(message *amqp.Delivery) (size int64, tooLarge, dropped bool) {
	b := l.Socket.incoming.state.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	size, dropped = b.dropped[delivery{message.ConsumerTag, message.DeliveryTag}]
	return size, size > b.largest, dropped
}
