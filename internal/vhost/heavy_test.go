package vhost

import "testing"

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
