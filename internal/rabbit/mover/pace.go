package mover

import (
	"math/bits"
	"time"

	"golang.org/x/time/rate"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

const (
	// maxWindow is the maximum number of messages that wait for their confirms. A larger window is no faster, and a crash duplicates up to
	// that many messages.
	maxWindow = 500
	// maxHeld is the maximum prefetch of a selective move, which may hold most of the messages.
	maxHeld = 2048
	// firstPrefetch is the prefetch before the sizes of any messages are known.
	firstPrefetch = 16
	// growth limits the prefetch to a multiple of the messages seen, because small messages may be followed by large ones.
	growth = 2
	// maxBytes limits the memory of all unsettled messages, estimated from the memory of recent ones.
	maxBytes = 16 << 20
	// tick is the interval of pass.tick.
	tick = 10 * time.Millisecond
)

// pace limits the rate of messages.
type pace struct {
	limiter *rate.Limiter
	rate    int
}

func newPace(settings Settings) *pace {
	p := &pace{limiter: rate.NewLimiter(rate.Inf, 0), rate: -1}
	p.set(settings.Rate)
	return p
}

// set changes how many messages are moved each second; zero means no limit. If a tick is late, the next one catches up.
func (p *pace) set(perSecond int) {
	if perSecond == p.rate {
		return
	}
	p.rate = perSecond
	if perSecond == 0 {
		p.limiter.SetLimit(rate.Inf)
		return
	}
	const ticksPerSecond = int(time.Second / tick)
	p.limiter.SetBurst(max(2, 2*perSecond/ticksPerSecond))
	p.limiter.SetLimit(rate.Limit(perSecond))
}

// next reports whether a message may be moved now, and counts it.
func (p *pace) next() bool { return p.limiter.Allow() }

// window is the maximum number of messages that wait for their confirms.
func (p *pace) window() int {
	if p.rate == 0 {
		return maxWindow
	}
	return min(maxWindow, max(1, p.rate/4))
}

// sizes estimates the memory of recent messages.
type sizes struct {
	messages int
	average  float64 // bytes of one message, with its headers
	// maxPrefetch is the prefetch after a message did not fit into memory; zero if every message has fitted. unchanged is how many messages
	// were taken since maxPrefetch changed.
	maxPrefetch, unchanged int
}

const (
	// recent is how many messages the average covers. A queue may hold many small messages, then large ones.
	recent = 64
	// relaxAfter is how many messages are taken before maxPrefetch doubles.
	relaxAfter = 4 * recent
)

func (s *sizes) add(memory int64) {
	s.messages++
	s.average += (float64(memory) - s.average) / float64(min(s.messages, recent))
}

// shrink lowers the prefetch after a message of this size did not fit into memory.
func (s *sizes) shrink(size int64, prefetch int) {
	s.maxPrefetch, s.unchanged = max(1, min(prefetch/2, int(amqpconn.ConnectionBodies/max(1, size)))), 0
}

// relax doubles the prefetch after a while, because the large messages may have passed. Moves that hold messages do not call it,
// because they take the same messages again in the next pass.
func (s *sizes) relax() {
	if s.unchanged++; s.maxPrefetch > 0 && s.unchanged >= relaxAfter {
		s.maxPrefetch, s.unchanged = min(2*s.maxPrefetch, maxHeld), 0
	}
}

// fitting returns how many messages fit into maxBytes, up to limit. A result below limit is a power of two, so that the prefetch does not
// change with each message.
func (s *sizes) fitting(limit int) int {
	if s.maxPrefetch > 0 {
		limit = min(limit, s.maxPrefetch)
	}
	if s.messages < firstPrefetch {
		return min(firstPrefetch, limit)
	}
	fitting := min(int(maxBytes/s.average), growth*s.messages)
	if fitting >= limit {
		return limit
	}
	return 1 << (bits.Len(uint(max(1, fitting))) - 1)
}
