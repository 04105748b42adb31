package deadline

import (
	"testing"
	"time"
)

// stretch is how much longer everything may take on a busy machine.
const stretch = 6

// For returns the limit for an event that takes at most the given time on an idle machine. It is for events that must happen, not
// for ones that must not happen.
func For(idle time.Duration) time.Duration { return stretch * idle }

// Polling is the interval of Eventually. Each poll costs the API server and the brokers time, which is scarce while many tests
// run.
const Polling = 250 * time.Millisecond

// InTestAll skips a test in `make test`, which runs with -short. Use it for a test whose main case another test shows, or that needs a
// private broker or many seconds.
func InTestAll(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
}
