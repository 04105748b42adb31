package netfault

import (
	"sync"
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
}

// NewSlowAMQP starts a proxy without a pause that ends with the test.
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

// Pause has every answer wait for so long, behind those of the same connection that came before. Zero ends that.
func (s *SlowAMQP) Pause(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = pause
	close(s.changed)
	s.changed = make(chan struct{})
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
