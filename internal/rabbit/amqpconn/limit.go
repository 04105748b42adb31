package amqpconn

import "time"

const (
	// lowestLimit is the limit for the slowest broker. With two operations the broker has one to work on while the answer to the other
	// is under way, and one that takes long does not hold up all others.
	lowestLimit = 2
	// timeForEach is what a broker may take for each operation under way and count as quick. Quorum queues are declared in 5 to
	// 30 ms by a broker that does nothing else.
	timeForEach = 30 * time.Millisecond
	// quickestAge is for how long the quickest answer is remembered, at least; and for twice that, at most.
	quickestAge = time.Minute
)

// limit decides how many operations may run at a time. It falls to half when half as many answers as it allows operations were slow,
// and rises by one after as many answers as it allows operations without a slow one among them. If an answer does not come, which costs
// the connection, the limit falls all the way.
//
// An answer is slow that took more than twice as long as the quickest of the last minutes, which tells how far away the broker is,
// and timeForEach for each operation that was under way. So a broker that is far away or does many things at a time is not slow.
type limit struct {
	highest, current int
	// blocked: the broker has said that it takes nothing more for the time being.
	blocked bool
	// since is when the limit last fell: answers to what began before tell nothing about the limit that holds now.
	since time.Time
	// answers are those that have come at this limit, and slow is how many of them were slow.
	answers, slow int
	quickest      quickest
}

// answer is what an operation tells of the broker.
type answer struct {
	began, ended time.Time
	// among is how many operations were under way, this one included.
	among int
	// missing: the broker gave no answer until the time of the operation was over.
	missing bool
}

func newLimit(highest int) limit { return limit{highest: highest, current: highest} }

// now is how many operations may run at a time.
func (l *limit) now() int {
	if l.blocked {
		return 1
	}
	return l.current
}

// setHighest takes note of how many operations a new connection allows.
func (l *limit) setHighest(highest int) {
	l.highest, l.current = highest, min(l.current, highest)
}

// setBlocked takes note of what the broker says. What was answered late because of that tells nothing.
func (l *limit) setBlocked(blocked bool, at time.Time) {
	if l.blocked && !blocked {
		l.begin(at)
	}
	l.blocked = blocked
}

// note takes an answer into account.
func (l *limit) note(a answer) {
	isSlow := !a.missing && l.isSlow(a)
	if l.blocked || a.began.Before(l.since) {
		return
	}
	l.answers++
	if isSlow {
		l.slow++
	}
	lowest := min(lowestLimit, l.highest)
	switch {
	case a.missing:
		l.current = lowest
		l.begin(a.ended)
	case 2*l.slow >= l.current:
		l.current = max(l.current/2, lowest)
		l.begin(a.ended)
	case l.answers >= l.current:
		if l.slow == 0 {
			l.current = min(l.current+1, l.highest)
		}
		l.answers, l.slow = 0, 0
	}
}

// begin counts from now on.
func (l *limit) begin(at time.Time) { l.since, l.answers, l.slow = at, 0, 0 }

func (l *limit) isSlow(a answer) bool {
	took := a.ended.Sub(a.began)
	return took > 2*l.quickest.of(took, a.ended)+time.Duration(a.among)*timeForEach
}

// quickest remembers the quickest answer of the last minutes.
type quickest struct {
	from        time.Time
	now, before time.Duration // since from, and in the time before; zero if there was none
}

// of is the quickest answer, with one more that came just now.
func (q *quickest) of(took time.Duration, at time.Time) time.Duration {
	switch age := at.Sub(q.from); {
	case age >= 2*quickestAge:
		*q = quickest{from: at, now: took}
	case age >= quickestAge:
		*q = quickest{from: at, now: took, before: q.now}
	}
	q.now = min(q.now, took)
	if q.before == 0 {
		return q.now
	}
	return min(q.now, q.before)
}
