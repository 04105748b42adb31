package amqpconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/time/rate"
)

// socket is what the AMQP library reads from and writes to. It follows both directions frame by frame, and ends the connection when the
// broker sends what it must not; see protocol.
type socket struct {
	net.Conn // with TLS where there is any

	line     net.Conn // without
	incoming incoming

	holding sync.Mutex // one at a time holds back what is written

	mu       sync.Mutex
	outgoing outgoing
	hold     bool
	held     []byte
}

// newSocket follows a connection that is open.
func newSocket(line, secured net.Conn, state *protocol, pace *rate.Limiter) *socket {
	s := &socket{Conn: secured, line: line, outgoing: newOutgoing(state)}
	s.incoming = newIncoming(secured, state, pace)
	return s
}

// Read returns what the broker has sent and may send.
func (s *socket) Read(bytes []byte) (int, error) { return s.incoming.Read(bytes) }

// Write keeps what is written for later while it is held back.
func (s *socket) Write(bytes []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outgoing.follow(bytes)
	if s.hold {
		s.held = append(s.held, bytes...)
		return len(bytes), nil
	}
	return s.Conn.Write(bytes)
}

// Together sends all that is written meanwhile in one piece, so that it reaches the broker at the same time.
func (s *socket) Together(write func() error) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	s.mu.Lock()
	s.hold = true
	s.mu.Unlock()
	err := write()
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.hold, s.held = false, nil
	if len(held) == 0 {
		return err
	}
	_, sent := s.Conn.Write(held)
	return errors.Join(err, sent)
}

// Close cuts the line. The goodbye of TLS is left out: a peer that reads nothing would make it wait.
func (s *socket) Close() error {
	s.incoming.close()
	if kept := s.incoming.state.bodies; kept != nil {
		kept.close()
	}
	return s.line.Close()
}

// incoming reads frames, and checks each before any of it is returned.
type incoming struct {
	from  *bufio.Reader
	state *protocol
	pace  *rate.Limiter // nil if the broker may send as fast as it can
	rest  int           // of the current frame, to be returned
	// ready is a header whose body is there, to be returned before anything else is read.
	ready []byte

	closed context.Context // the life of the socket, not of a call
	close  context.CancelFunc

	mu      sync.Mutex
	refusal error // why the connection was ended; nil if it was not
}

// incomingBuffer holds more than the library reads at a time, and longestReceived.
const incomingBuffer = 16 << 10

func newIncoming(from net.Conn, state *protocol, pace *rate.Limiter) incoming {
	closed, end := context.WithCancel(context.Background())
	return incoming{from: bufio.NewReaderSize(from, incomingBuffer), state: state, pace: pace, closed: closed, close: end}
}

func (in *incoming) Read(bytes []byte) (int, error) {
	for in.rest == 0 && len(in.ready) == 0 {
		if err := in.next(); err != nil {
			return 0, err
		}
	}
	if len(in.ready) > 0 {
		n := copy(bytes, in.ready)
		in.ready = in.ready[n:]
		return n, nil
	}
	n, err := in.from.Read(bytes[:min(len(bytes), in.rest)])
	in.rest -= n
	return n, err
}

// next checks the next frame. It takes frames that the library does not see.
func (in *incoming) next() error {
	start, err := in.from.Peek(headSize)
	if err != nil {
		return err
	}
	frame := readHead(start)
	whole := headSize + frame.size + endSize
	if frame.kind == frameMethod || frame.kind == frameHeader {
		if start, err = in.from.Peek(headSize + min(frame.size, longestReceived)); err != nil {
			return err
		}
	}
	fate, err := in.state.received(frame, start[headSize:])
	if err != nil {
		in.mu.Lock()
		in.refusal = err
		in.mu.Unlock()
		return err
	}
	if in.pace != nil {
		if err := in.pace.WaitN(in.closed, costOf(frame)); err != nil {
			return net.ErrClosed
		}
	}
	switch fate {
	case discard:
		_, err = in.from.Discard(whole)
	case holdBack:
		header := make([]byte, whole)
		_, err = io.ReadFull(in.from, header)
		in.state.holdBack(frame.channel, header)
	case gather:
		err = in.gather(frame)
	default:
		in.rest = whole
	}
	return err
}

// gather reads part of a body.
func (in *incoming) gather(frame head) error {
	if _, err := in.from.Discard(headSize); err != nil {
		return err
	}
	room, header := in.state.gather(frame)
	if _, err := io.ReadFull(in.from, room); err != nil {
		return err
	}
	in.ready = header
	_, err := in.from.Discard(endSize)
	return err
}

// refused is why the connection was ended.
func (in *incoming) refused() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refusal
}

const (
	// paceLimit is how much a broker may send for as long as it likes, and paceBurst how much of it at once: about 350 events a second,
	// after 45,000.
	paceLimit = 256 << 10
	paceBurst = 32 << 20
	// frameCost is what a frame costs beside its bytes, and bodyDiscount is how much less a byte costs that is only passed by.
	frameCost    = 256
	bodyDiscount = 16
)

// NewPace limits how fast brokers may send frames that carry no bodies: what they send costs the process time.
func NewPace() *rate.Limiter { return rate.NewLimiter(paceLimit, paceBurst) }

func costOf(frame head) int {
	switch frame.kind {
	case frameMethod, frameHeader:
		return frameCost + frame.size
	case frameBody:
		return frameCost + frame.size/bodyDiscount
	}
	return frameCost
}

// outgoing follows what is written, in whatever pieces.
type outgoing struct {
	state *protocol
	start []byte // of the current frame, up to what protocol.sent needs
	skip  int    // what follows in the frame
}

func newOutgoing(state *protocol) outgoing {
	return outgoing{state: state, start: make([]byte, 0, headSize+longestSent), skip: protocolHeaderSize}
}

func (out *outgoing) follow(bytes []byte) {
	for len(bytes) > 0 {
		if skipped := min(out.skip, len(bytes)); skipped > 0 {
			bytes = bytes[skipped:]
			out.skip -= skipped
			continue
		}
		taken := min(out.missing(), len(bytes))
		out.start = append(out.start, bytes[:taken]...)
		bytes = bytes[taken:]
		if out.missing() == 0 {
			frame := readHead(out.start)
			out.state.sent(frame, out.start[headSize:])
			out.skip = headSize + frame.size + endSize - len(out.start)
			out.start = out.start[:0]
		}
	}
}

// missing is how many bytes of the start of a frame are still to come.
func (out *outgoing) missing() int {
	if len(out.start) < headSize {
		return headSize - len(out.start)
	}
	return headSize + min(readHead(out.start).size, longestSent) - len(out.start)
}
