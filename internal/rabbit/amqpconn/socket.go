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

// socket is the net.Conn of the AMQP library. It decodes the frames of both directions, and ends the connection when the broker sends a
// frame that it must not send; see protocol.
type socket struct {
	net.Conn // the TLS connection, or line without TLS

	line     net.Conn // the TCP connection
	incoming incoming

	holding sync.Mutex // held during Together

	mu       sync.Mutex
	outgoing outgoing
	hold     bool
	held     []byte
}

// newSocket returns the socket of an open connection.
func newSocket(line, secured net.Conn, state *protocol, pace *rate.Limiter) *socket {
	s := &socket{Conn: secured, line: line, outgoing: newOutgoing(state)}
	s.incoming = newIncoming(secured, state, pace)
	return s
}

// Read returns frames of the broker after they were checked.
func (s *socket) Read(bytes []byte) (int, error) { return s.incoming.Read(bytes) }

// Write sends bytes to the broker. During Together, it buffers them.
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

// Together buffers all bytes that are written while write runs, and then sends them in one piece.
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

// Close closes the TCP connection. It does not send the close_notify of TLS, because that would wait for a peer that does not read.
func (s *socket) Close() error {
	s.incoming.close()
	if kept := s.incoming.state.bodies; kept != nil {
		kept.close()
	}
	return s.line.Close()
}

// incoming reads frames, and checks each frame before Read returns any part of it.
type incoming struct {
	from  *bufio.Reader
	state *protocol
	pace  *rate.Limiter // nil if the broker may send as fast as it can
	rest  int           // bytes of the current frame that Read has not returned
	// ready is a content header that was held back. Read returns it before any other frame.
	ready []byte

	closed context.Context // ends with the socket
	close  context.CancelFunc

	mu      sync.Mutex
	refusal error // why this side ended the connection; nil if it did not
}

// incomingBuffer is the size of the read buffer. It is larger than one read of the library, and than longestReceived.
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

// next checks the next frame, and consumes it if the library must not see it.
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
		return in.refuse(err)
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
		if _, err = io.ReadFull(in.from, header); err != nil {
			return err
		}
		if in.ready, err = in.state.holdBack(frame.channel, header); err != nil {
			return in.refuse(err)
		}
	case gather:
		err = in.gather(frame)
	default:
		in.rest = whole
	}
	return err
}

// gather reads a part of a body, and makes the content header ready after the last part.
func (in *incoming) gather(frame head) error {
	if _, err := in.from.Discard(headSize); err != nil {
		return err
	}
	room, header, err := in.state.gather(frame)
	if err != nil {
		return in.refuse(err)
	}
	if _, err := io.ReadFull(in.from, room); err != nil {
		return err
	}
	in.ready = header
	_, err = in.from.Discard(endSize)
	return err
}

// refuse records why this side ends the connection.
func (in *incoming) refuse(why error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refusal = why
	return why
}

// refused returns why this side ended the connection; nil if it did not.
func (in *incoming) refused() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refusal
}

const (
	// paceLimit is how many bytes a second a broker may send: about 350 events. paceBurst is how many bytes it may send before the
	// limit applies: about 45,000 events.
	paceLimit = 256 << 10
	paceBurst = 32 << 20
	// frameCost is what each frame costs in addition to its bytes, and bodyDiscount divides the cost of a byte of a discarded body.
	frameCost    = 256
	bodyDiscount = 16
)

// NewPace returns a limiter for connections that discard bodies, because each frame costs the process time. See DialOptions.Pace.
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

// outgoing decodes the frames of the bytes that are written. A frame may come in any number of pieces.
type outgoing struct {
	state *protocol
	start []byte // of the current frame, as many bytes as protocol.sent needs
	skip  int    // the remaining bytes of the frame
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

// missing returns how many bytes of the start of a frame have not been written yet.
func (out *outgoing) missing() int {
	if len(out.start) < headSize {
		return headSize - len(out.start)
	}
	return headSize + min(readHead(out.start).size, longestSent) - len(out.start)
}
