package amqpconn

import "time"

const (
	// lowestLimit is the limit for the slowest broker. With two operations, the broker can run one while the answer to the other is sent,
	// and one slow operation does not stop all others.
	lowestLimit = 2
	// timeForEach is how long an answer may take for each running operation without being slow. An idle broker declares a quorum queue
	// in 5 to 30 ms.
	timeForEach = 30 * time.Millisecond
	// quickestAge is the minimum time for which the quickest answer is remembered. The maximum is twice as long.
	quickestAge = time.Minute
)

// limit decides how many operations may run at a time. A limit of n is halved once n/2 answers were slow, and grows by one after n
// answers if none was slow. A missing answer ends the connection, and sets the limit to lowestLimit.
//
// An answer is slow if it took longer than twice the quickest answer of the last minutes, plus timeForEach for each running
// operation. The quickest answer measures the distance to the broker, so a distant broker is not slow. A broker that runs many
// operations at a time is not slow either.
type limit struct {
	highest, current int
	// blocked: the broker has blocked the connection.
	blocked bool
	// since is when the limit last fell, or the broker unblocked the connection. Answers to operations that began earlier do not count.
	since time.Time
	// answers counts the answers at this limit, and slow the slow ones among them.
	answers, slow int
	quickest      quickest
}

// answer is the answer of the broker to one operation.
type answer struct {
	began, ended time.Time
	// among is how many operations were running, including this one.
	among int
	// missing: the broker did not answer within the time of the operation.
	missing bool
}

func newLimit(highest int) limit { return limit{highest: highest, current: highest} }

// now returns how many operations may run at a time.
func (l *limit) now() int {
	if l.blocked {
		return 1
	}
	return l.current
}

// setHighest records how many operations a new connection allows.
func (l *limit) setHighest(highest int) {
	l.highest, l.current = highest, min(l.current, highest)
}

// setBlocked records whether the broker has blocked the connection. Answers that were late because of that do not count.
func (l *limit) setBlocked(blocked bool, at time.Time) {
	if l.blocked && !blocked {
		l.begin(at)
	}
	l.blocked = blocked
}

// note adapts the limit to an answer.
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

// begin resets the counts.
func (l *limit) begin(at time.Time) { l.since, l.answers, l.slow = at, 0, 0 }

func (l *limit) isSlow(a answer) bool {
	took := a.ended.Sub(a.began)
	return took > 2*l.quickest.add(took, a.ended)+time.Duration(a.among)*timeForEach
}

// quickest records the quickest answer of the last minutes.
type quickest struct {
	from        time.Time
	now, before time.Duration // since from, and in the period before that; zero if none
}

// add adds an answer, and returns the quickest one.
func (q *quickest) add(took time.Duration, at time.Time) time.Duration {
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
