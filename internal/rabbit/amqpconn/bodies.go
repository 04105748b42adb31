package amqpconn

import (
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
)

// keptByProcess is how many bytes of bodies all connections keep.
var keptByProcess atomic.Int64

// bodies counts the bodies of a connection that its user has not released.
type bodies struct {
	largest int64

	mu   sync.Mutex
	kept int64
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
	return &bodies{largest: largest, full: map[string]bool{}, dropped: map[delivery]int64{}}
}

// keep reports whether a body is kept, and counts it.
func (b *bodies) keep(message delivery, size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if size <= b.largest && !b.full[message.consumer] && b.hasRoom(size) {
		b.kept += size
		keptByProcess.Add(size)
		return true
	}
	b.dropped[message] = size
	b.full[message.consumer] = b.full[message.consumer] || size <= b.largest
	return false
}

func (b *bodies) hasRoom(size int64) bool {
	return b.kept == 0 || b.kept+size <= ConnectionBodies && keptByProcess.Load()+size <= processBodies
}

// release says that a body of this size is not needed any more.
func (b *bodies) release(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.kept -= size
		keptByProcess.Add(-size)
	}
}

// close releases all bodies.
func (b *bodies) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		keptByProcess.Add(-b.kept)
		b.closed, b.kept = true, 0
	}
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

// Release says that the body of a message is not needed any more.
func (l *Conn) Release(message *amqp.Delivery) {
	if len(message.Body) > 0 {
		l.Socket.incoming.state.bodies.release(int64(len(message.Body)))
	}
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
