package amqpconn

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// simulation passes answers of a simulated broker to a limit.
type simulation struct {
	limit limit
	at    time.Time
}

// newSimulation begins with a quick answer, as a nearby broker gives it.
func newSimulation(highest int) *simulation {
	s := &simulation{limit: newLimit(highest), at: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	s.quickAnswers(1)
	return s
}

// answer adds an answer that took so long while as many operations ran as the limit allows.
func (s *simulation) answer(took time.Duration) {
	s.at = s.at.Add(took)
	s.limit.note(answer{began: s.at.Add(-took), ended: s.at, among: s.limit.now()})
}

func (s *simulation) quickAnswers(count int) {
	for range count {
		s.answer(5 * time.Millisecond)
	}
}

// together adds the answers to as many operations as the limit allows, which begin and end at the same time.
func (s *simulation) together(took time.Duration) {
	count := s.limit.now()
	began := s.at
	s.at = s.at.Add(took)
	for range count {
		s.limit.note(answer{began: began, ended: s.at, among: count})
	}
}

// serve adds the answers to so many operations, and runs as many at a time as the limit allows. each returns the time of one
// operation by the number of running operations.
func (s *simulation) serve(operations int, each func(among int) time.Duration) (limits []int) {
	for range operations {
		among := s.limit.now()
		s.answer(each(among))
		if now := s.limit.now(); len(limits) == 0 || limits[len(limits)-1] != now {
			limits = append(limits, now)
		}
	}
	return limits
}

func TestLimitBySpeedOfAnswers(t *testing.T) {
	t.Parallel()
	constant := func(took time.Duration) func(int) time.Duration { return func(int) time.Duration { return took } }
	oneByOne := func(each time.Duration) func(int) time.Duration {
		return func(among int) time.Duration { return time.Duration(among) * each }
	}
	for name, test := range map[string]struct {
		each func(among int) time.Duration
		want []int // the limits, one after the other
	}{
		"quorum queues on a healthy broker":                 {oneByOne(5 * time.Millisecond), []int{16}},
		"quorum queues on a broker that many others use":    {oneByOne(25 * time.Millisecond), []int{16}},
		"a broker that takes 50 ms for each, one by one":    {oneByOne(50 * time.Millisecond), []int{16, 8, 4, 2}},
		"a broker that takes a second, whatever the number": {constant(time.Second), []int{16, 8, 4, 2}},
		"one that is slow only with more than 4 at a time": {func(among int) time.Duration {
			if among > 4 {
				return time.Duration(among) * 200 * time.Millisecond
			}
			return 20 * time.Millisecond
		}, []int{16, 8, 4, 5, 2, 3, 4, 5, 2, 3, 4, 5, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(16)
			if difference := cmp.Diff(test.want, s.serve(48, test.each)); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// A distant broker answers late, and more operations do not make it slower.
func TestLimitOfADistantBroker(t *testing.T) {
	t.Parallel()
	s := &simulation{limit: newLimit(16), at: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	distant := func(int) time.Duration { return 2 * time.Second }
	if difference := cmp.Diff([]int{16}, s.serve(200, distant)); difference != "" {
		t.Error(difference)
	}
}

// A broker that has become slow permanently, or more distant, counts as quick once its quicker answers are forgotten.
func TestLimitForgetsHowQuickTheBrokerWas(t *testing.T) {
	t.Parallel()
	s := newSimulation(16)
	s.together(time.Second)
	s.together(time.Second)
	s.together(time.Second)
	if now := s.limit.now(); now != 2 {
		t.Fatalf("the limit is %d", now)
	}
	s.serve(int(2*quickestAge/time.Second), func(int) time.Duration { return time.Second })
	if limits := s.serve(200, func(int) time.Duration { return time.Second }); limits[len(limits)-1] != 16 {
		t.Errorf("the limits are %d", limits)
	}
}

func TestLimitFallsOncePerRound(t *testing.T) {
	t.Parallel()
	s := newSimulation(16)
	s.together(5 * time.Second) // sixteen slow answers
	if now := s.limit.now(); now != 8 {
		t.Errorf("after one round the limit is %d", now)
	}
	s.together(5 * time.Second)
	if now := s.limit.now(); now != 4 {
		t.Errorf("after two rounds the limit is %d", now)
	}
}

func TestLimitRises(t *testing.T) {
	t.Parallel()
	s := newSimulation(16)
	for range 3 {
		s.together(5 * time.Second)
	}
	var counts []int
	for before := s.limit.now(); before < 16; {
		count := 0
		for ; s.limit.now() == before; count++ {
			s.quickAnswers(1)
		}
		counts, before = append(counts, count), s.limit.now()
	}
	if difference := cmp.Diff([]int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, counts); difference != "" {
		t.Errorf("answers until the limit rises:\n%s", difference)
	}
	s.quickAnswers(100)
	if now := s.limit.now(); now != 16 {
		t.Errorf("the limit is %d", now)
	}
}

// Brokers pause sometimes, to collect garbage or to begin another file.
func TestLimitToleratesSingleSlowAnswers(t *testing.T) {
	t.Parallel()
	s := newSimulation(16)
	for range 10 {
		for range 7 {
			s.answer(3 * time.Second)
		}
		s.quickAnswers(9)
	}
	if now := s.limit.now(); now != 16 {
		t.Errorf("the limit is %d", now)
	}
}

func TestLimitWithoutAnswers(t *testing.T) {
	t.Parallel()
	s := newSimulation(16)
	s.limit.note(answer{began: s.at, ended: s.at, among: 1, missing: true})
	if now := s.limit.now(); now != 2 {
		t.Errorf("the limit is %d", now)
	}
	s.at = s.at.Add(time.Second)
	if s.limit.isSlow(answer{began: s.at, ended: s.at.Add(35 * time.Millisecond), among: 1}) {
		t.Error("the time of a missing answer counts as that of a quick one")
	}
}

func TestLimitWhileBlocked(t *testing.T) {
	t.Parallel()
	s := newSimulation(16)
	begun := s.at
	s.limit.setBlocked(true, s.at)
	if now := s.limit.now(); now != 1 {
		t.Errorf("while the broker blocks, the limit is %d", now)
	}
	s.at = s.at.Add(9 * time.Second)
	for range 8 { // enough to halve the limit
		s.limit.note(answer{began: begun, ended: s.at, among: 16})
	}
	s.limit.setBlocked(false, s.at)
	for range 8 {
		s.limit.note(answer{began: begun, ended: s.at, among: 16})
	}
	if now := s.limit.now(); now != 16 {
		t.Errorf("when the broker takes more again, the limit is %d", now)
	}
}

func TestLimitOfAConnectionWithFewChannels(t *testing.T) {
	t.Parallel()
	s := newSimulation(16)
	s.limit.setHighest(1)
	s.together(5 * time.Second)
	if now := s.limit.now(); now != 1 {
		t.Errorf("with one channel the limit is %d", now)
	}
	s.limit.setHighest(16) // of the next connection
	s.quickAnswers(1000)
	if now := s.limit.now(); now != 16 {
		t.Errorf("with sixteen channels the limit is %d", now)
	}
}
