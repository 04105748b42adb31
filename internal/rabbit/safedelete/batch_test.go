package safedelete

import (
	"fmt"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// The budget counts from the first fence, which may take long to write, and ends before a sentinel can expire.
func TestDeadlineOfABatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ written, ttl, want time.Duration }{
		{written: 0, want: 10 * time.Second},
		{written: 13 * time.Second, want: 10 * time.Second},
		{written: time.Second, ttl: 5 * time.Second, want: 3500 * time.Millisecond},
		{written: 9 * time.Second, ttl: 5 * time.Second, want: 10 * time.Second},
		{written: time.Second, ttl: time.Minute, want: 10 * time.Second},
	} {
		t.Run(fmt.Sprintf("fences written within %v, TTL %v", test.written, test.ttl), func(t *testing.T) {
			t.Parallel()
			arguments := vhost.Arguments{}
			if test.ttl > 0 {
				arguments[vhost.ArgMessageTTL] = test.ttl.Milliseconds()
			}
			begun := time.Now()
			d := &batch{
				groups: []*group{{queues: []string{"tier"}}}, published: begun.Add(test.written),
				stats: map[string]*queueStats{"tier": {QueueInfo: management.QueueInfo{Arguments: arguments}}},
			}
			if got := d.deadlineFrom(begun).Sub(begun); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
