package consumer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// The broker counts a crash for each message that it has sent to the process, as docs/consumer/README.md says.
func TestACrashCountsForPrefetchedMessages(t *testing.T) {
	t.Parallel()
	const killing = 3
	for name, test := range map[string]struct {
		concurrency, prefetch int
		parked                []string
	}{
		"a prefetch of 5":             {2, 5, []string{"b", "c", "d", "e", "kills"}},
		"a prefetch of 2":             {2, 2, []string{"b", "kills"}},
		"a concurrency of 1":          {1, 5, []string{"b", "c", "d", "e", "kills"}},
		"one message is sent at once": {1, 1, []string{"kills"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
					select {
					case <-ctx.Done(): // as after a crash
					case <-time.After(time.Second):
					}
					return nil
				}, consumer.WithMaxCrashes(killing), consumer.WithConcurrency(test.concurrency), consumer.WithPrefetch(test.prefetch))
				b.send(t, "kills", "b", "c", "d", "e", "f", "g")
				for range killing {
					for b.consumer.Health().InFlight == 0 {
						pass(time.Millisecond)
					}
					b.Cut()
					synctest.Wait()
				}
				pass(time.Minute)
				var parked []string
				for _, dead := range b.Messages("orders.dlq") {
					equal(t, "kind", any("crashed"), dead.Headers[contract.HeaderFailureKind])
					parked = append(parked, string(dead.Body))
				}
				slices.Sort(parked)
				equal(t, "parked", test.parked, parked)
				equal(t, "unsettled", 0, b.Unsettled("orders.dlq"))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}
