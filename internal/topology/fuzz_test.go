package topology

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// FuzzDuration: every duration that the API server accepts can be parsed, and its milliseconds survive the round trip through the
// broker. Refused texts do not panic.
func FuzzDuration(f *testing.F) {
	crd, err := os.ReadFile("../../config/crd/bases/messaging.warren.dev_consumerqueues.yaml")
	if err != nil {
		f.Fatal(err)
	}
	found := regexp.MustCompile(`matches\("(\^\(\[0-9]\{1,4}d\).*?)"\)`).FindSubmatch(crd)
	if found == nil {
		f.Fatal("no rule of the CRD matches durations")
	}
	pattern := regexp.MustCompile(string(found[1]))
	for _, text := range []string{
		"30s", "1h30m", "1ms", "14d", "1d12h", "9999d999999h9999999m999999999s999999999999ms", "0s", "00001ms", "", "d", "-1s", "1.5h", "1 day", "1µs", "9223372036854775807ns",
	} {
		f.Add(text)
	}
	const longest = (1<<32 - 1) * time.Millisecond
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := v1alpha1.Duration(text).Parse()
		if text == "" || !pattern.MatchString(text) {
			return // refused; it was read without panic
		}
		if err != nil || parsed < 0 || parsed%time.Millisecond != 0 {
			t.Fatalf("%q is accepted, and read as %v (%v)", text, parsed, err)
		}
		if parsed < time.Millisecond || parsed > longest {
			return // refused by CEL, which reads it as Go does
		}
		count, err := milliseconds(v1alpha1.Duration(text))
		if err != nil || time.Duration(count)*time.Millisecond != parsed {
			t.Errorf("%q is %d ms (%v)", text, count, err)
		}
		back, err := v1alpha1.Duration(CompactDelay(count)).Parse()
		if err != nil || back != parsed {
			t.Errorf("%q is written as %s, which is %v (%v)", text, CompactDelay(count), back, err)
		}
	})
}

// FuzzNameLengths: names derived from the main queue's name stay within the 255 bytes of AMQP, for each name and delay that
// validation accepts. Validation computes lengths in CEL; the test repeats its sums.
func FuzzNameLengths(f *testing.F) {
	for _, delay := range []int64{1, 999, 1000, 59_999, 60_000, 3_599_999, 3_600_000, 36_000_000, 360_000_000, 3_600_000_000, 1<<32 - 1} {
		f.Add("orders", delay)
		f.Add(strings.Repeat("ü", 122), delay)
	}
	f.Fuzz(func(t *testing.T, main string, delay int64) {
		if main == "" || len(main) > 255 || delay < 1 || delay >= 1<<32 {
			return
		}
		cq := &v1alpha1.ConsumerQueue{}
		cq.Spec.Queue = &v1alpha1.QueueSpec{Name: v1alpha1.QueueName(main)}
		cq.Spec.Retry = &v1alpha1.RetrySpec{Policy: v1alpha1.RetryPolicyNone}
		if len(main) <= 251 {
			wantShort(t, cq)
		}
		if len(main) > 245 {
			return
		}
		cq.Spec.Retry = nil
		wantShort(t, cq)
		if counted := len(main) + 7 + countedByCEL(time.Duration(delay)*time.Millisecond); counted <= 255 {
			cq.Spec.Retry = &v1alpha1.RetrySpec{DelayTiers: []v1alpha1.DelayTier{{Delay: v1alpha1.Duration(CompactDelay(delay))}}}
			wantShort(t, cq)
		}
	})
}

func wantShort(t *testing.T, cq *v1alpha1.ConsumerQueue) {
	t.Helper()
	names := SelectionOf(cq)
	if len(names.Queues) < 2 || len(names.Exchanges) == 0 {
		t.Fatalf("names are %v", names)
	}
	for _, name := range append(names.Queues, names.Exchanges...) {
		if len(name) > 255 {
			t.Errorf("%q has %d bytes", name, len(name))
		}
	}
}

// countedByCEL is writtenLength of rules.cel.
func countedByCEL(d time.Duration) int {
	delay := d.Milliseconds()
	return characters(delay/3_600_000, "h") + characters(delay/60_000%60, "m") + characters(delay/1000%60, "s") + characters(delay%1000, "ms")
}

func characters(count int64, unit string) int {
	if count == 0 {
		return 0
	}
	return len(strconv.FormatInt(count, 10)) + len(unit)
}
