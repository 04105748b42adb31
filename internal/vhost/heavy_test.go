package vhost

import (
	"errors"
	"testing"
)

// A busy machine may stop the manager during a match. So one match that takes too long does not make a pattern slow.
func TestAMatchThatTakesTooLongIsRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tooLong int
		matched bool
		want    Match
		slow    bool
	}{
		"the first match is too long":              {tooLong: 1, matched: true, want: MatchYes},
		"all matches but the last are too long":    {tooLong: matchAttempts - 1, matched: false, want: MatchNo},
		"each match is too long, as of (a+)+(?!b)": {tooLong: matchAttempts, matched: true, want: MatchUnknown, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			matches := 0
			got, slow := new(compiledPattern).evaluate(func() (bool, error) {
				matches++
				if matches <= test.tooLong {
					return false, errors.New("match timeout")
				}
				return test.matched, nil
			})
			if got != test.want || slow != test.slow {
				t.Errorf("match %v and slow %v, want %v and %v", got, slow, test.want, test.slow)
			}
		})
	}
}

// Matches that are long, but shorter than matchTime, also make a pattern slow. Some long matches among many do not.
func TestHeavyMatches(t *testing.T) {
	t.Parallel()
	busy, bad := compiledPattern{}, compiledPattern{}
	for range 10 * heavyMatches {
		if busy.count(2 * heavyTime) {
			t.Fatal("one long match in a hundred makes a pattern slow")
		}
		for range 100 {
			busy.count(heavyTime / 100)
		}
	}
	for number := range heavyMatches {
		if bad.count(2 * heavyTime) {
			t.Fatalf("slow after %d long matches", number+1)
		}
	}
	if !bad.count(2 * heavyTime) {
		t.Errorf("not slow after %d long matches", heavyMatches+1)
	}
}
