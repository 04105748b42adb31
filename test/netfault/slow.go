package netfault

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// SlowAMQP passes AMQP connections on to a broker. It can be told to pass the broker's answers on one by one with a pause before each, as
// if the broker had too much to do: the more clients ask for at a time, the longer each answer takes.
type SlowAMQP struct {
	// URI is the target's, with another address.
	URI string

	mu      sync.Mutex
	pause   time.Duration
	changed chan struct{} // closed when the pause changes
	open    []net.Conn
	ended   bool
}

// NewSlowAMQP starts a proxy without a pause that ends with the test.
func NewSlowAMQP(tb testing.TB, target string) *SlowAMQP {
	tb.Helper()
	uri, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	s := &SlowAMQP{changed: make(chan struct{})}
	s.URI = uri.Scheme + "://" + Listen(tb, func(client net.Conn) { go s.serve(client, uri.Host) })
	tb.Cleanup(s.end)
	return s
}

// serve passes on one connection, until either side ends it.
func (s *SlowAMQP) serve(client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !s.add(client, server) {
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	s.answers(client, server)
}

// add takes note of connections, for the end of the test; false if that has come.
func (s *SlowAMQP) add(connections ...net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, connections...)
	return !s.ended
}

func (s *SlowAMQP) end() {
	s.Pause(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, connection := range s.open {
		_ = connection.Close()
	}
}

// Pause has every answer wait for so long, behind those of the same connection that came before. Zero ends that.
func (s *SlowAMQP) Pause(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = pause
	close(s.changed)
	s.changed = make(chan struct{})
}

// answers passes on what comes from the broker, frame by frame: type, channel, size, payload, end.
func (s *SlowAMQP) answers(client io.Writer, server io.Reader) {
	const headerSize, endSize = 7, 1
	for {
		frame := make([]byte, headerSize)
		if _, err := io.ReadFull(server, frame); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(frame[3:])+endSize)
		if _, err := io.ReadFull(server, rest); err != nil {
			return
		}
		const method, noChannel = 1, 0
		if frame[0] == method && binary.BigEndian.Uint16(frame[1:]) != noChannel {
			s.wait()
		}
		if _, err := client.Write(append(frame, rest...)); err != nil {
			return
		}
	}
}

// wait lasts for the pause, or until there is none any more.
func (s *SlowAMQP) wait() {
	for began := time.Now(); ; {
		s.mu.Lock()
		left, changed := s.pause-time.Since(began), s.changed
		s.mu.Unlock()
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}
