package netfault

import (
	"sync"
	"time"
)

// SlowAMQP forwards AMQP connections to a broker. With a pause, it forwards the broker's responses one by one, each after the
// pause, like a busy broker: the more requests are pending, the longer each response takes.
type SlowAMQP struct {
	// URI is the URI of the target with the address of the proxy.
	URI string

	mu      sync.Mutex
	pause   time.Duration
	changed chan struct{} // closed when the pause changes
}

// NewSlowAMQP starts a proxy without a pause that stops when the test ends.
func NewSlowAMQP(tb TB, target string) *SlowAMQP {
	tb.Helper()
	s := &SlowAMQP{changed: make(chan struct{})}
	s.URI = NewFrameProxy(tb, target, func(f Frame) Verdict {
		const noChannel = 0
		if f.FromBroker && f.Channel != noChannel {
			s.wait()
		}
		return Pass
	}).URI
	tb.Cleanup(func() { s.Pause(0) }) // before the proxy ends
	return s
}

// Pause sets the delay before each response, after the earlier responses of its connection; 0 for none.
func (s *SlowAMQP) Pause(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = pause
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait waits for the pause, or until it is set to 0.
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
