package netfault

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/warren-mq/warren/test/amqpmethod"
)

// Frame is an AMQP method frame.
type Frame struct {
	Method amqpmethod.Method

	// Channel is 0 for methods of the connection.
	Channel    uint16
	FromBroker bool
	// Connection numbers the connections of the proxy, from 1 on.
	Connection int
	// Arguments are the encoded arguments of the method.
	Arguments []byte
}

// Verdict is what FrameProxy does with a frame.
type Verdict int

// The verdicts.
const (
	// Pass forwards the frame.
	Pass Verdict = iota
	// Drop drops the frame.
	Drop
	// Repeat forwards the frame twice.
	Repeat
	// Cut closes the connection instead of forwarding the frame.
	Cut
	// Strand closes the client's side of the connection. The frame reaches the broker at Release.
	Strand
	// Hold retains the frame, and all later frames of its channel, until Release.
	Hold
)

// FrameProxy forwards AMQP connections to a broker, and lets a test decide about each frame.
type FrameProxy struct {
	// URI is the URI of the target with the address of the proxy.
	URI, Address string

	decide func(Frame) Verdict
	target string

	mu       sync.Mutex
	accepted int // connections
	open     []net.Conn
	closed   map[int]bool // by the number of the connection
	lanes    []*lane
	released chan struct{} // closed by Release
	stranded bool
	ended    bool
}

// NewFrameProxy starts a proxy that stops when the test ends. It calls decide from several goroutines.
func NewFrameProxy(tb TB, target string, decide func(Frame) Verdict) *FrameProxy {
	tb.Helper()
	uri, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	p := &FrameProxy{decide: decide, target: uri.Host, closed: map[int]bool{}, released: make(chan struct{})}
	p.Address = Listen(tb, func(client net.Conn) { go p.serve(client) })
	p.URI = uri.Scheme + "://" + p.Address
	tb.Cleanup(p.end)
	return p
}

// serve forwards one connection until either side closes it.
func (p *FrameProxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	number, ok := p.add(client, server)
	if !ok {
		return
	}
	defer p.setClosed(number)
	go func() {
		defer func() { _, _ = client.Close(), server.Close() }()
		const protocolHeader = 8 // sent before the first frame
		if _, err := io.CopyN(server, client, protocolHeader); err == nil {
			p.pass(number, server, client, false)
		}
	}()
	p.pass(number, client, server, true)
}

// add records both sides of a connection to be closed when the test ends. It returns the number of the connection, and false if the
// test has ended.
func (p *FrameProxy) add(client, server net.Conn) (number int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	p.open = append(p.open, client, server)
	return p.accepted, !p.ended
}

func (p *FrameProxy) setClosed(connection int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed[connection] = true
}

// IsOpen reports whether no side has closed a connection.
func (p *FrameProxy) IsOpen(connection int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return connection <= p.accepted && !p.closed[connection]
}

func (p *FrameProxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, connection := range p.open {
		_ = connection.Close()
	}
}

// Release forwards all retained frames, and stops retaining frames. It may be called only once.
func (p *FrameProxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.released)
	for _, lane := range p.lanes {
		lane.release()
	}
}

// lane is one direction of a connection.
type lane struct {
	mu sync.Mutex
	to io.Writer
	// kept are the retained frames by channel.
	kept map[uint16][]byte
}

// lane returns the lane to one side.
func (p *FrameProxy) lane(to io.Writer) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	made := &lane{to: to, kept: map[uint16][]byte{}}
	p.lanes = append(p.lanes, made)
	return made
}

// holds reports whether frames may still be retained.
func (p *FrameProxy) holds() bool {
	select {
	case <-p.released:
		return false
	default:
		return true
	}
}

// strand closes the client's side of a connection, and returns at Release. Until then it sends heartbeats, without which the broker
// would close its side.
func (p *FrameProxy) strand(client io.Reader, broker *lane) {
	p.mu.Lock()
	p.stranded = true
	p.mu.Unlock()
	_ = client.(io.Closer).Close()
	heartbeats := time.NewTicker(time.Second)
	defer heartbeats.Stop()
	for {
		select {
		case <-heartbeats.C:
			_ = broker.write(0, []byte{heartbeatFrame, 0, 0, 0, 0, 0, 0, frameEnd}, false)
		case <-p.released:
			return
		}
	}
}

// The type of a heartbeat, and the last byte of each frame.
const heartbeatFrame, frameEnd = 8, 0xCE

// isStranded reports whether the client's side was closed, so that frames to it are dropped.
func (p *FrameProxy) isStranded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stranded
}

// write forwards a frame, or retains it if hold is set or an earlier frame of its channel is retained.
func (l *lane) write(channel uint16, frame []byte, hold bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept, holding := l.kept[channel]; hold || holding {
		l.kept[channel] = append(kept, frame...)
		return nil
	}
	_, err := l.to.Write(frame)
	return err
}

func (l *lane) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, frames := range l.kept {
		_, _ = l.to.Write(frames) // the connection has ended
	}
	clear(l.kept)
}

// pass forwards frames from one side. A frame consists of type, channel, size, payload and end byte.
func (p *FrameProxy) pass(connection int, to io.Writer, from io.Reader, fromBroker bool) {
	const headerSize, endSize, methodFrame, methodSize = 7, 1, 1, 4
	lane := p.lane(to)
	for {
		frame := make([]byte, headerSize)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(frame[3:])+endSize)
		if _, err := io.ReadFull(from, payload); err != nil {
			return
		}
		verdict, channel := Pass, binary.BigEndian.Uint16(frame[1:])
		if frame[0] == methodFrame && len(payload) >= methodSize {
			verdict = p.decide(Frame{amqpmethod.Of(payload), channel, fromBroker, connection, payload[methodSize : len(payload)-endSize]})
		}
		frame = append(frame, payload...)
		switch verdict {
		case Drop:
			continue
		case Cut:
			return
		case Repeat:
			frame = append(frame, frame...)
		case Strand:
			p.strand(from, lane)
		case Pass, Hold:
		}
		if lane.write(channel, frame, verdict == Hold && p.holds()) != nil && !p.isStranded() {
			return
		}
	}
}
