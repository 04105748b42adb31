package amqpconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Limits of the memory of one connection. A broker is not trusted to send only requested frames, and the AMQP library retains everything
// that arrives.
const (
	// largestMessage is the largest body that any RabbitMQ allows (max_message_size), in bytes. It applies to discarded bodies, too.
	largestMessage = 512 << 20
	// waitingLimit is how many bytes the unacknowledged deliveries of a channel may take, without bodies, if all bodies are discarded. Most
	// of them are events. If bodies are read, the limits of type bodies apply.
	waitingLimit = 8 << 20
	// deliveryMemory estimates the memory of a delivery without its body and properties: the structs of the library.
	deliveryMemory = 1 << 10
	// returnMemory is how much more memory a returned message may take than the message of which it is a copy: the copy has headers of
	// Warren.
	returnMemory = 4 << 10
	// prefetchFactor: RabbitMQ before 3.11 can exceed the prefetch of a consumer that requeues messages (rabbitmq-server#5609).
	prefetchFactor = 2
)

// ErrTooLarge ends a connection on which the broker sends more than a limit allows.
var ErrTooLarge = errors.New("too large")

// errUnasked ends a connection on which a frame arrives that this side has not requested.
var errUnasked = errors.New("not requested")

// protocol is the state of a connection, from the frames of both sides. It determines which frames the broker may send, so that callers
// need not declare their requests.
type protocol struct {
	bodies *bodies // nil if all are discarded
	// blocked is called with each connection.blocked and connection.unblocked.
	blocked func(amqp.Blocking)

	mu       sync.Mutex
	replies  int // requests on channel 0 without an answer
	channels map[uint16]*channelState
}

type channelState struct {
	replies  int // requests without an answer
	gets     int // the number of basic.get requests among them
	closing  bool
	prefetch int // of the next consumer
	asked    int // how many deliveries may be unacknowledged

	deliveries unanswered // deliveries that this side has not acknowledged
	publishes  unanswered // messages that the broker has not confirmed
	// returns are the messages that the broker has returned before their confirms: the memory of each in bytes, and of all.
	returns  []int64
	returned int64

	// content is the method whose content header must follow; the zero method if there is none.
	content method
	// consumer is the tag of the latest delivery.
	consumer string
	body     int64 // how many bytes of the body have not arrived
	discard  bool  // the body is discarded
	// gathered is the memory for the rest of a body that is retained. header is the frame that the AMQP library reads once the body
	// has arrived.
	gathered []byte
	header   []byte
}

// fate is what happens to an arriving frame.
type fate int

const (
	// passOn: the AMQP library reads the frame.
	passOn fate = iota
	// discard: the frame is a part of a body that is discarded.
	discard
	// holdBack: the frame is a content header. protocol.holdBack decides what the AMQP library reads, and when.
	holdBack
	// gather: the frame is a part of a body that is retained. The AMQP library does not read it, because it would copy the body and retain
	// the latest body of each channel.
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

// sent records a frame to the broker, from its head and up to longestSent bytes of its payload.
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

// isRequest reports whether the broker answers a method of this side. Warren sets no-wait only on the last channel of a recreation. There,
// protocol expects two answers that never arrive, so the broker could send two unrequested ones.
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

// received checks an arriving frame, from its head and up to longestReceived bytes of its payload. It sets the body size in a content
// header to zero, because the library does not see the body.
func (p *protocol) received(frame head, payload []byte) (fate, error) {
	if isKnown := frame.kind >= frameMethod && frame.kind <= frameBody; !isKnown {
		return passOn, nil // a heartbeat, or a frame that the library refuses, perhaps of a server of another protocol
	}
	if frame.size > UsualFrameMax-headSize-endSize {
		return passOn, fmt.Errorf("a frame of %d bytes is %w: the negotiated maximum is %d", frame.size, ErrTooLarge, UsualFrameMax)
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
		return holdBack, channel.receivedHeader(contentSize(payload))
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

// holdBack records the memory of a message from its content header. It returns the header that the AMQP library reads now; nil if the
// library must wait until the body has arrived.
func (p *protocol) holdBack(number uint16, header []byte) (ready []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	channel := p.channels[number]
	content, memory := channel.content, headerMemory(header[headSize:len(header)-endSize])
	channel.content = method{}
	switch {
	case content == method{}: // this side has opened the channel again since the frame was received
		return nil, fmt.Errorf("the header of a message was %w", errUnasked)
	case content == basicReturn:
		return header, p.receivedReturn(channel, memory)
	case p.bodies == nil:
		channel.deliveries.charge(deliveryMemory + memory)
		if channel.deliveries.total > waitingLimit {
			return nil, fmt.Errorf("the unacknowledged messages are %w: %d messages take more than %d bytes",
				ErrTooLarge, channel.deliveries.count(), waitingLimit)
		}
		return header, nil
	}
	room, fits := p.bodies.keep(delivery{channel.consumer, channel.deliveries.last}, channel.body, deliveryMemory+memory)
	channel.gathered, channel.discard = room, room == nil
	switch {
	case !fits:
		return withoutProperties(header), nil
	case channel.discard, channel.body == 0:
		return header, nil
	}
	channel.header = header
	return nil, nil
}

// gather returns the memory for a part of a body, and the content header if this is the last part. There is no memory if this side
// has opened the channel again since the frame was received.
func (p *protocol) gather(frame head) (room, header []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	channel := p.channels[frame.channel]
	if len(channel.gathered) < frame.size {
		return nil, nil, fmt.Errorf("the body of a message was %w", errUnasked)
	}
	room, channel.gathered = channel.gathered[:frame.size], channel.gathered[frame.size:]
	if channel.body == 0 {
		header, channel.header, channel.gathered = channel.header, nil, nil // an empty slice would retain the body
	}
	return room, header, nil
}

func (p *protocol) receivedMethod(number uint16, channel *channelState, args *arguments) error {
	received := args.method()
	switch {
	case number == 0:
		return p.receivedOnConnection(received, args)
	case channel == nil && received == channelCloseOk: // both sides sent channel.close at the same time
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

// takeReply counts the reply to a request, and returns an error if no request waits for a reply.
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
	case basicGetOk, basicGetEmpty:
		if c.gets == 0 {
			return fmt.Errorf("the answer to a basic.get was %w", errUnasked)
		}
		c.gets--
		if err := takeReply(&c.replies, received); err != nil {
			return err
		}
		if received == basicGetOk {
			return c.delivered(received, args.uint64())
		}
		c.asked--
		return nil
	case basicReturn:
		c.content = received
		return nil
	case basicAck, basicNack:
		number := args.uint64()
		if number > c.publishes.last { // the library would loop up to this number
			return fmt.Errorf("the confirm of message %d was %w: %d were published", number, errUnasked, c.publishes.last)
		}
		before := c.publishes.count()
		c.publishes.answer(number, args.bit())
		confirmed := min(before-c.publishes.count(), len(c.returns))
		for _, memory := range c.returns[:confirmed] {
			c.returned -= memory
		}
		c.returns = slices.Delete(c.returns, 0, confirmed)
		return nil
	case channelFlow, basicCancel:
		return nil
	}
	return takeReply(&c.replies, received)
}

// delivered records a message whose content header and body follow.
func (c *channelState) delivered(received method, number uint64) error {
	if number != c.deliveries.last+1 || c.deliveries.count() >= c.asked {
		return fmt.Errorf("delivery %d was %w: %d deliveries are unacknowledged, and at most %d may be",
			number, errUnasked, c.deliveries.count(), c.asked)
	}
	c.deliveries.add(0)
	c.content = received
	return nil
}

// receivedHeader records the size of the body from a content header, and sets the size in the header to zero.
func (c *channelState) receivedHeader(size []byte) error {
	body := binary.BigEndian.Uint64(size)
	if body > largestMessage {
		return fmt.Errorf("a message of %d bytes is %w: the maximum is %d", body, ErrTooLarge, largestMessage)
	}
	clear(size)
	c.body, c.discard = int64(body), true
	return nil
}

// receivedReturn records a message that the broker returns, which must have been published and not yet confirmed. The library blocks the
// connection permanently if more messages return than the caller's buffer holds. On a connection that moves messages, the originals of all
// copies are retained, and a copy takes at most returnMemory more.
func (p *protocol) receivedReturn(c *channelState, memory int64) error {
	c.returns = append(c.returns, memory)
	c.returned += memory
	published := c.publishes.count()
	allowed := c.publishes.total + returnMemory*int64(published)
	if p.bodies != nil {
		allowed += p.bodies.size()
	}
	if len(c.returns) > published || c.returned > allowed {
		return fmt.Errorf("a returned message was %w", errUnasked)
	}
	return nil
}

// unanswered are messages that are numbered from one and wait for an answer: deliveries for their acknowledgement, published messages for
// their confirm.
type unanswered struct {
	last     uint64 // number of the latest message
	answered uint64 // all messages up to this number are answered
	costs    map[uint64]int64
	total    int64 // sum of costs
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

// charge adds to the cost of the latest message.
func (u *unanswered) charge(cost int64) {
	u.costs[u.last] += cost
	u.total += cost
}

// answer removes the message of a number and, if multiple is true, all earlier ones. With multiple, zero stands for the latest message.
func (u *unanswered) answer(number uint64, multiple bool) {
	first := number
	if multiple {
		if number == 0 {
			number = u.last
		}
		first, u.answered = u.answered+1, max(u.answered, min(number, u.last))
	}
	for next := first; next <= min(number, u.last); next++ {
		u.total -= u.costs[next]
		delete(u.costs, next)
	}
}
