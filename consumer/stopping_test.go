package consumer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// A pause and its end wait for the broker. A consumer that stops meanwhile must drain immediately.
func TestADrainBeginsWhileTheSubscriptionChanges(t *testing.T) {
	t.Parallel()
	const drain = 5 * time.Second
	for method, change := range map[string]func(*consumer.Consumer){
		"basic.cancel":  (*consumer.Consumer).Pause,
		"basic.consume": (*consumer.Consumer).Resume,
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				drained := make(chan time.Time, 1)
				b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
					<-consumer.Draining(ctx)
					drained <- time.Now()
					<-ctx.Done()
					return nil
				}, consumer.WithDrainTimeout(drain))
				b.send(t, "a")
				synctest.Wait()
				if method == "basic.consume" {
					b.consumer.Pause()
					pass(time.Second)
				}
				b.Ignore(method, true)
				change(b.consumer)
				pass(time.Second)
				began := time.Now()
				equal(t, "Run", nil, b.end())
				equal(t, "the drain began after", time.Duration(0), (<-drained).Sub(began))
				equal(t, "Run returned within the drain timeout and 10 s", true, time.Since(began) < drain+10*time.Second)
			})
		})
	}
}
