package retry

import (
	"testing"
	"time"
)

// The waits before attempts to reach a broker grow from 250 ms to 30 s.
func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	b := Backoff{First: 250 * time.Millisecond, Limit: 30 * time.Second}
	around := func(want time.Duration) {
		t.Helper()
		if wait := b.Wait(); wait < want*9/10 || wait > want {
			t.Errorf("waits %v, should be about %v", wait, want)
		}
	}
	for _, want := range []int{250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		around(time.Duration(want) * time.Millisecond)
	}
	b.Reset()
	around(250 * time.Millisecond)
	b = Backoff{First: time.Minute, Limit: time.Second}
	around(time.Second)
}

func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 100 {
		wait := Jitter(time.Second)
		if wait < 900*time.Millisecond || wait > time.Second {
			t.Errorf("%v", wait)
		}
		seen[wait] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different times of 100", len(seen))
	}
}
