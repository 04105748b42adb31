package transfer

import (
	"math/bits"
	"time"

	"golang.org/x/time/rate"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

const (
	// maxWindow is how many messages wait for their confirms at most. More is no faster, and a crash doubles as many.
	maxWindow = 500
	// maxHeld is how many messages a selective transfer takes on a channel, most of which may stay.
	maxHeld = 2048
	// firstPrefetch is how many messages are taken before anything is known of their sizes.
	firstPrefetch = 16
	// growth is how many times as many messages are taken at a time as were seen: the first ones may be small, and those behind large.
	growth = 2
	// maxBytes is what the bodies take that were delivered and are not settled, if they are as large as the last ones.
	maxBytes = 16 << 20
	// tick is how often the transfer looks at the clock.
	tick = 10 * time.Millisecond
)

// pace says when the next message may be moved.
type pace struct {
	limiter *rate.Limiter
	rate    int
}

func newPace(settings Settings) *pace {
	p := &pace{limiter: rate.NewLimiter(rate.Inf, 0), rate: -1}
	p.set(settings.Rate)
	return p
}

// set changes how many messages are moved each second; as many as can be if zero. What a late tick misses, the next one makes up for.
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

// next says whether a message may be moved now, and counts it.
func (p *pace) next() bool { return p.limiter.Allow() }

// window is how many messages may wait for their confirms.
func (p *pace) window() int {
	if p.rate == 0 {
		return maxWindow
	}
	return min(maxWindow, max(1, p.rate/4))
}

// sizes tells how large messages are of late.
type sizes struct {
	messages int
	average  float64 // bytes of one message, with overhead
	// most is how many messages are taken at a time since there was no room for one; zero if there always was. unchanged is how many
	// messages were taken since it changed.
	most, unchanged int
}

const (
	// overhead is what the headers of a message take, and what the library keeps of a message, at a guess.
	overhead = 256
	// recent is how many messages it takes to forget the sizes of those before: a queue may hold many small messages, then large ones.
	recent = 64
	// relaxAfter is how many messages it takes to take twice as many at a time.
	relaxAfter = 4 * recent
)

func (s *sizes) add(body int) {
	s.messages++
	s.average += (float64(body+overhead) - s.average) / float64(min(s.messages, recent))
}

// shrink says that there was no room for a body of this size when messages were taken so many at a time.
func (s *sizes) shrink(size int64, prefetch int) {
	s.most, s.unchanged = max(1, min(prefetch/2, int(amqpconn.ConnectionBodies/max(1, size)))), 0
}

// relax lets more messages be taken at a time again after a while: the large ones may have passed. It is not for transfers that hold
// messages, because they take the same ones again in the next pass.
func (s *sizes) relax() {
	if s.unchanged++; s.most > 0 && s.unchanged >= relaxAfter {
		s.most, s.unchanged = min(2*s.most, maxHeld), 0
	}
}

// fitting is how many messages fit into maxBytes, at most limit. It is a power of two where it is less, for a number that changes with each
// message would be of no use.
func (s *sizes) fitting(limit int) int {
	if s.most > 0 {
		limit = min(limit, s.most)
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
