package rabbit

import (
	"testing"
	"time"
)

// A broker that is unreachable is tried again with a pause of 250 ms growing to 30 s.
func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	b := backoff{first: defaultTimeouts.firstRetry, limit: defaultTimeouts.lastRetry}
	around := func(want time.Duration) {
		t.Helper()
		if wait := b.wait(); wait < want*9/10 || wait > want {
			t.Errorf("waits %v, should be about %v", wait, want)
		}
	}
	for _, want := range []int{250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		around(time.Duration(want) * time.Millisecond)
	}
	b.reset()
	around(250 * time.Millisecond)
	b = backoff{first: time.Minute, limit: time.Second}
	around(time.Second)
}

func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 100 {
		wait := jitter(time.Second)
		if wait < 900*time.Millisecond || wait > time.Second {
			t.Errorf("%v", wait)
		}
		seen[wait] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different times of 100", len(seen))
	}
}
