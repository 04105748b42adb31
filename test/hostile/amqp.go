package hostile

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/warren-mq/warren/test/amqpmethod"
)

// The frame types of AMQP 0-9-1.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE
)

// answers are a broker's responses to requests, with their arguments.
var answers = map[amqpmethod.Method]struct {
	answer    amqpmethod.Method
	arguments []any
}{
	amqpmethod.ConnectionStartOK: {amqpmethod.ConnectionTune, []any{uint16(2047), uint32(131072), uint16(10)}},
	amqpmethod.ConnectionOpen:    {amqpmethod.ConnectionOpenOK, []any{""}},
	amqpmethod.ConnectionClose:   {amqpmethod.ConnectionCloseOK, nil},
	amqpmethod.ChannelOpen:       {amqpmethod.ChannelOpenOK, []any{uint32(0)}},
	amqpmethod.ChannelClose:      {amqpmethod.ChannelCloseOK, nil},
	amqpmethod.ExchangeDeclare:   {amqpmethod.ExchangeDeclareOK, nil},
	amqpmethod.QueueDeclare:      {amqpmethod.QueueDeclareOK, []any{"", uint32(0), uint32(0)}},
	amqpmethod.QueueBind:         {amqpmethod.QueueBindOK, nil},
	amqpmethod.QueueUnbind:       {amqpmethod.QueueUnbindOK, nil},
	amqpmethod.QueueDelete:       {amqpmethod.QueueDeleteOK, []any{uint32(0)}},
	amqpmethod.BasicQos:          {amqpmethod.BasicQosOK, nil},
	amqpmethod.BasicConsume:      {amqpmethod.BasicConsumeOK, []any{"ctag-1"}},
	amqpmethod.BasicCancel:       {amqpmethod.BasicCancelOK, []any{"ctag-1"}},
	amqpmethod.BasicGet:          {amqpmethod.BasicGetEmpty, []any{""}},
	amqpmethod.ConfirmSelect:     {amqpmethod.ConfirmSelectOK, nil},
}

// AMQPWay misbehaves. It returns true if it has handled the method, and false for a normal response.
type AMQPWay func(s *Session, received Received) bool

// Received is a method that a client sent.
type Received struct {
	amqpmethod.Method
	Channel   uint16
	Arguments []byte
}

// AMQP is a fake AMQP server of a broker. It has no queues and accepts every declaration.
type AMQP struct {
	URI string
	// Version and ClusterName are announced to each client. Set them before the first one connects.
	Version, ClusterName string

	way  AMQPWay
	ends chan struct{}

	mu       sync.Mutex
	sessions int
}

// NewAMQP starts a server that stops when the test ends.
func NewAMQP(tb testing.TB, way AMQPWay) *AMQP {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on a loopback address does not block
	if err != nil {
		tb.Fatal(err)
	}
	server := &AMQP{
		URI: "amqp://" + listener.Addr().String(), Version: "4.3.6", ClusterName: "hostile@here", way: way, ends: make(chan struct{}),
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			line, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { server.serve(line) })
		}
	})
	tb.Cleanup(func() {
		close(server.ends)
		_ = listener.Close()
		serving.Wait()
	})
	return server
}

// Sessions returns the number of connections.
func (a *AMQP) Sessions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions
}

// Session is one connection of a client.
type Session struct {
	server *AMQP
	line   net.Conn
	ended  chan struct{}
	aside  sync.WaitGroup
	acks   chan uint64 // the last acknowledged delivery tag

	mu sync.Mutex // held while a frame or a message is written
}

func (a *AMQP) serve(line net.Conn) {
	a.mu.Lock()
	a.sessions++
	a.mu.Unlock()
	s := &Session{server: a, line: line, ended: make(chan struct{}), acks: make(chan uint64, 1)}
	stop := make(chan struct{})
	go func() {
		select {
		case <-a.ends:
		case <-s.ended:
		}
		_ = line.Close()
		close(stop)
	}()
	s.run()
	close(s.ended)
	<-stop
	s.aside.Wait()
}

// run reads the client's methods.
func (s *Session) run() {
	from := bufio.NewReader(s.line)
	if _, err := io.CopyN(io.Discard, from, 8); err != nil { // the protocol header
		return
	}
	announced := map[string]string{"cluster_name": s.server.ClusterName, "version": s.server.Version}
	s.Send(0, amqpmethod.ConnectionStart, byte(0), byte(9), announced, long("PLAIN"), long("en_US"))
	for {
		start := make([]byte, 7)
		if _, err := io.ReadFull(from, start); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(start[3:])+1)
		if _, err := io.ReadFull(from, payload); err != nil {
			return
		}
		if start[0] != frameMethod {
			continue
		}
		s.answer(Received{
			Method:    amqpmethod.Of(payload),
			Channel:   binary.BigEndian.Uint16(start[1:]),
			Arguments: payload[4 : len(payload)-1],
		})
	}
}

func (s *Session) answer(received Received) {
	if received.Method == amqpmethod.BasicAck {
		select {
		case <-s.acks: // replaces an unread value
		default:
		}
		s.acks <- binary.BigEndian.Uint64(received.Arguments)
	}
	if s.server.way != nil && s.server.way(s, received) {
		return
	}
	s.Answer(received)
}

// Answer responds to a request as a broker does.
func (s *Session) Answer(received Received) {
	if known, ok := answers[received.Method]; ok {
		s.Send(received.Channel, known.answer, known.arguments...)
	}
}

// Aside calls do repeatedly in the background until it returns false or the client has disconnected.
func (s *Session) Aside(do func() bool) {
	s.aside.Go(func() {
		for s.isOpen() && do() {
		}
	})
}

func (s *Session) isOpen() bool {
	select {
	case <-s.ended:
		return false
	case <-s.server.ends:
		return false
	default:
		return true
	}
}

// Send sends a method. It returns false if the client has disconnected.
func (s *Session) Send(channel uint16, method amqpmethod.Method, arguments ...any) bool {
	return s.write(frame(frameMethod, channel, payload(append([]any{method}, arguments...)...)))
}

// write writes bytes in one call. It returns false if the client has disconnected.
func (s *Session) write(bytes []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.line.Write(bytes)
	return err == nil
}

func frame(kind byte, channel uint16, payload []byte) []byte {
	bytes := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	bytes = binary.BigEndian.AppendUint32(bytes, uint32(len(payload)))
	return append(append(bytes, payload...), frameEnd)
}

// long is a string with a length of four bytes. Other strings have one.
type long string

// payload encodes values.
func payload(values ...any) []byte {
	var bytes []byte
	for _, value := range values {
		switch value := value.(type) {
		case byte:
			bytes = append(bytes, value)
		case uint16:
			bytes = binary.BigEndian.AppendUint16(bytes, value)
		case uint32:
			bytes = binary.BigEndian.AppendUint32(bytes, value)
		case uint64:
			bytes = binary.BigEndian.AppendUint64(bytes, value)
		case string:
			bytes = append(append(bytes, byte(len(value))), value...)
		case long:
			bytes = append(binary.BigEndian.AppendUint32(bytes, uint32(len(value))), value...)
		case amqpmethod.Method:
			bytes = append(bytes, payload(value.Class, value.ID)...)
		case map[string]string:
			var table []byte
			for key, text := range value {
				table = append(append(table, payload(key)...), 'S')
				table = append(table, payload(long(text))...)
			}
			bytes = append(bytes, payload(long(table))...)
		}
	}
	return bytes
}
