package amqpconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What one connection may take of memory. A broker is not trusted to keep to what it was asked for, and the AMQP library keeps whatever
// arrives.
const (
	// largestMessage is the largest body that any RabbitMQ allows (max_message_size). It holds for bodies that are discarded.
	largestMessage = 512 << 20
	// waitingLimit is what the deliveries of a channel may take that are not acknowledged, without bodies, if all bodies are discarded: the
	// most are events. Where bodies are taken, readLimit holds: a transfer has up to 2048 messages delivered at a time.
	waitingLimit = 8 << 20
	readLimit    = 144 << 20

	// A delivery takes memory beside its body: the library's structs, and the properties, of which a byte can become 16, since an
	// empty element of an array is one byte on the wire.
	deliveryCost = 1 << 10
	headerFactor = 16
	// prefetchFactor: RabbitMQ before 3.11 can exceed the prefetch of a consumer that gives messages back (rabbitmq-server#5609).
	prefetchFactor = 2
)

// ErrTooLarge ends a connection on which more arrives than one process may keep.
var ErrTooLarge = errors.New("too large")

// errUnasked ends a connection on which something arrives that nobody has asked for.
var errUnasked = errors.New("not asked for")

// protocol knows what both sides of a connection have said, from the frames alone. So it knows what the broker may send, and no user of
// a connection has to tell.
type protocol struct {
	bodies *bodies // nil if all are discarded
	// blocked is called with each connection.blocked and connection.unblocked.
	blocked func(amqp.Blocking)

	mu       sync.Mutex
	replies  int // that channel 0 waits for
	channels map[uint16]*channelState
}

// channelState is the state of an open channel.
type channelState struct {
	replies  int // that are awaited: requests without an answer
	gets     int // how many of them are basic.get
	closing  bool
	prefetch int // of the next consumer
	asked    int // how many deliveries may be without acknowledgement

	deliveries unanswered // by this side
	publishes  unanswered // by the broker
	returned   int64      // the bytes of the properties of messages that the broker has returned

	// content is the method whose content header is to arrive; the zero method if none is.
	content method
	// consumer is the tag of the latest delivery.
	consumer string
	body     int64 // how much of the body is to arrive
	discard  bool  // the body
	// gathered has room for the body if the body is kept, and header is the frame that the AMQP library sees once the body is there.
	gathered []byte
	header   []byte
}

// fate is what becomes of a frame that has arrived.
type fate int

const (
	// passOn has the AMQP library read the frame.
	passOn fate = iota
	// discard leaves out part of a body that nobody wants.
	discard
	// holdBack keeps a header until the body is there.
	holdBack
	// gather keeps part of a body. The AMQP library would copy it, and hold the latest body of each channel.
	gather
)

func newProtocol(largestBody int64, blocked func(amqp.Blocking)) *protocol {
	// The broker answers the protocol header with connection.start.
	p := &protocol{blocked: blocked, replies: 1, channels: map[uint16]*channelState{}}
	if largestBody > 0 {
		p.bodies = newBodies(largestBody)
	}
	return p
}

// sent takes note of a frame that goes to the broker, by its head and up to longestSent bytes of its payload.
func (p *protocol) sent(frame head, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	channel := p.channels[frame.channel]
	if frame.kind == frameHeader && channel != nil {
		channel.publishes.add(int64(frame.size))
	}
	if frame.kind != frameMethod {
		return
	}
	args := &arguments{rest: payload}
	sent := args.method()
	switch {
	case sent == channelOpen:
		p.channels[frame.channel] = &channelState{replies: 1}
	case frame.channel == 0 && isRequest(sent):
		p.replies++
	case channel != nil:
		channel.sent(sent, args)
	}
}

// isRequest says whether the broker answers a method of this side. Warren sets no-wait on the last channel of a recreation alone, for which
// it does not matter that two answers more are expected than come.
func isRequest(sent method) bool {
	switch sent {
	case connectionTuneOk, connectionCloseOk, channelFlowOk, channelCloseOk, basicCancelOk, basicPublish, basicAck, basicNack, basicReject:
		return false
	}
	return true
}

func (c *channelState) sent(sent method, args *arguments) {
	if isRequest(sent) {
		c.replies++
	}
	switch sent {
	case channelClose:
		c.closing = true
	case basicQos:
		_ = args.uint32()
		c.prefetch = int(args.uint16())
	case basicConsume:
		c.asked += prefetchFactor * c.prefetch
	case basicGet:
		c.gets++
		c.asked++
	case basicAck, basicNack:
		number := args.uint64()
		c.deliveries.answer(number, args.bit())
	case basicReject:
		c.deliveries.answer(args.uint64(), false)
	}
}

// received checks a frame that arrives, by its head and up to longestReceived bytes of its payload. It changes the payload of a header if
// the library does not see the body that follows.
func (p *protocol) received(frame head, payload []byte) (fate, error) {
	if isKnown := frame.kind >= frameMethod && frame.kind <= frameBody; !isKnown {
		return passOn, nil // a heartbeat, or what the library refuses: a server of another protocol, perhaps
	}
	if frame.size > UsualFrameMax-headSize-endSize {
		return passOn, fmt.Errorf("a frame of %d bytes is %w: %d were agreed", frame.size, ErrTooLarge, UsualFrameMax)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	channel := p.channels[frame.channel]
	switch frame.kind {
	case frameMethod:
		args := &arguments{rest: payload}
		err := p.receivedMethod(frame.channel, channel, args)
		if args.short {
			return passOn, errors.New("a frame ends too early")
		}
		return passOn, err
	case frameHeader:
		if channel == nil || channel.content == (method{}) || len(payload) < 12 {
			return passOn, fmt.Errorf("the header of a message was %w", errUnasked)
		}
		return p.receivedHeader(channel, frame.size, contentSize(payload))
	default:
		if channel == nil || frame.size == 0 || int64(frame.size) > channel.body {
			return passOn, fmt.Errorf("the body of a message was %w", errUnasked)
		}
		channel.body -= int64(frame.size)
		if channel.discard {
			return discard, nil
		}
		return gather, nil
	}
}

// holdBack keeps the header of a message whose body is to arrive.
func (p *protocol) holdBack(number uint16, header []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.channels[number].header = header
}

// gather returns the room for a part of a body whose head has arrived, and the header of the message if that is the last part.
func (p *protocol) gather(frame head) (room, header []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	channel := p.channels[frame.channel]
	room, channel.gathered = channel.gathered[:frame.size], channel.gathered[frame.size:]
	if channel.body == 0 {
		header, channel.header, channel.gathered = channel.header, nil, nil // an empty slice would hold the body
	}
	return room, header
}

func (p *protocol) receivedMethod(number uint16, channel *channelState, args *arguments) error {
	received := args.method()
	switch {
	case number == 0:
		return p.receivedOnConnection(received, args)
	case channel == nil && received == channelCloseOk: // the closes of both sides have crossed
		return nil
	case channel == nil:
		return fmt.Errorf("method %d.%d on channel %d was %w", received[0], received[1], number, errUnasked)
	case received == channelClose, received == channelCloseOk && channel.closing:
		delete(p.channels, number)
		return nil
	case channel.content != method{} || channel.body > 0:
		return fmt.Errorf("method %d.%d in the middle of a message was %w", received[0], received[1], errUnasked)
	}
	return channel.received(received, args)
}

func (p *protocol) receivedOnConnection(received method, args *arguments) error {
	switch received {
	case connectionBlocked:
		p.blocked(amqp.Blocking{Active: true, Reason: args.text()})
	case connectionUnblocked:
		p.blocked(amqp.Blocking{})
	case connectionClose:
	default:
		return takeReply(&p.replies, received)
	}
	return nil
}

// takeReply counts a method that answers a request.
func takeReply(replies *int, received method) error {
	if *replies == 0 {
		return fmt.Errorf("method %d.%d was %w", received[0], received[1], errUnasked)
	}
	*replies--
	return nil
}

func (c *channelState) received(received method, args *arguments) error {
	switch received {
	case basicDeliver:
		c.consumer = args.text()
		return c.delivered(received, args.uint64())
	case basicGetOk:
		if c.gets <= 0 {
			return fmt.Errorf("a message was %w", errUnasked)
		}
		c.gets--
		c.replies--
		return c.delivered(received, args.uint64())
	case basicReturn:
		c.content = received
		return nil
	case basicAck, basicNack:
		number := args.uint64()
		if number > c.publishes.last { // the library would count up to the number, for ever
			return fmt.Errorf("the confirm of message %d was %w: %d were published", number, errUnasked, c.publishes.last)
		}
		c.returned = max(0, c.returned-c.publishes.answer(number, args.bit()))
		return nil
	case channelFlow, basicCancel:
		return nil
	case basicGetEmpty:
		c.gets--
	}
	return takeReply(&c.replies, received)
}

// delivered takes note of a message that begins to arrive.
func (c *channelState) delivered(received method, number uint64) error {
	if number != c.deliveries.last+1 || c.deliveries.count() >= c.asked {
		return fmt.Errorf("delivery %d was %w: %d of %d are not acknowledged", number, errUnasked, c.deliveries.count(), c.asked)
	}
	c.deliveries.add(0)
	c.content = received
	return nil
}

// receivedHeader takes note of how large a message is whose header arrives. It sets the size to zero, since the library sees no body.
func (p *protocol) receivedHeader(channel *channelState, header int, size []byte) (fate, error) {
	body := binary.BigEndian.Uint64(size)
	if body > largestMessage {
		return passOn, fmt.Errorf("a message of %d bytes is %w: at most %d are taken", body, ErrTooLarge, largestMessage)
	}
	clear(size)
	channel.body, channel.discard = int64(body), true
	isReturn := channel.content == basicReturn
	channel.content = method{}
	if isReturn {
		return passOn, channel.receivedReturn(header)
	}
	cost := deliveryCost + headerFactor*int64(header)
	most := int64(waitingLimit)
	if p.bodies != nil {
		most = readLimit
		channel.gathered, channel.discard = p.bodies.keep(delivery{channel.consumer, channel.deliveries.last}, channel.body)
	}
	channel.deliveries.charge(cost)
	switch {
	case channel.deliveries.total > most:
		return passOn, fmt.Errorf("the messages that are not acknowledged are %w: %d of them take more than %d bytes",
			ErrTooLarge, channel.deliveries.count(), most)
	case channel.discard, channel.body == 0:
		return passOn, nil
	}
	return holdBack, nil
}

// receivedReturn takes note of a message that the broker returns. All of them were published, and wait for their confirms.
func (c *channelState) receivedReturn(header int) error {
	if c.returned += int64(header); c.returned > c.publishes.total+deliveryCost*int64(c.publishes.count()) {
		return fmt.Errorf("a returned message was %w", errUnasked)
	}
	return nil
}

// unanswered are messages that are numbered from one on and wait for an answer: deliveries for their acknowledgement, published messages
// for their confirm.
type unanswered struct {
	last     uint64 // the number of the latest
	answered uint64 // all up to this one have their answer
	costs    map[uint64]int64
	total    int64 // of costs
}

func (u *unanswered) count() int { return len(u.costs) }

func (u *unanswered) add(cost int64) {
	if u.costs == nil {
		u.costs = map[uint64]int64{}
	}
	u.last++
	u.costs[u.last] = 0
	u.charge(cost)
}

// charge adds to the cost of the latest.
func (u *unanswered) charge(cost int64) {
	u.costs[u.last] += cost
	u.total += cost
}

// answer takes out one, or all up to it, zero being the latest. It returns what they cost.
func (u *unanswered) answer(number uint64, multiple bool) (cost int64) {
	first := number
	if multiple {
		if number == 0 {
			number = u.last
		}
		first, u.answered = u.answered+1, max(u.answered, min(number, u.last))
	}
	for next := first; next <= min(number, u.last); next++ {
		cost += u.costs[next]
		delete(u.costs, next)
	}
	u.total -= cost
	return cost
}
