package topology

import (
	"regexp"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// A name derived from a delay identifies the delay.
func FuzzCompactDelay(f *testing.F) {
	for _, delay := range []int64{1, 999, 1000, 1500, 60_000, 90_000, 120_000, 3_600_000, 5_400_000, 86_400_000, 1<<32 - 1} {
		f.Add(delay)
	}
	form := regexp.MustCompile(`^([1-9]\d*h)?([1-9]\d?m)?([1-9]\d?s)?([1-9]\d{0,2}ms)?$`)
	f.Fuzz(func(t *testing.T, delay int64) {
		if delay < 1 || delay >= 1<<32 {
			return // refused by validation
		}
		compact := CompactDelay(delay)
		back, err := milliseconds(v1alpha1.Duration(compact))
		if err != nil || back != delay {
			t.Errorf("%d ms is %s, which is %d ms (%v)", delay, compact, back, err)
		}
		if !form.MatchString(compact) {
			t.Errorf("%d ms is %s: want no zeros", delay, compact)
		}
	})
}
