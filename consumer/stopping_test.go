package consumer_test

import (
	"context"
	"sync/atomic"
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

// A handler of a lost session may be in a transaction when the program stops.
func TestRunWaitsForTheHandlersOfALostSession(t *testing.T) {
	t.Parallel()
	const drain = 10 * time.Second
	for name, test := range map[string]struct {
		stops time.Duration // after the loss
		takes time.Duration // after the end of the handler's context
		want  time.Duration // after the loss
		err   string
	}{
		"a stop before the reconnect":                          {0, 5 * time.Second, 5 * time.Second, ""},
		"a stop after the reconnect":                           {time.Second, 5 * time.Second, 5 * time.Second, ""},
		"a stop after the handler has returned":                {6 * time.Second, 5 * time.Second, 6 * time.Second, ""},
		"a handler that outlasts the drain before a reconnect": {0, time.Hour, drain, "1 handlers did not return in time: a"},
		"a handler that outlasts the drain after a reconnect":  {time.Second, time.Hour, time.Second + drain, "1 handlers did not return in time: a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := atomic.Int64{}
				b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
					if calls.Add(1) == 1 {
						<-ctx.Done()
						time.Sleep(test.takes)
					}
					return nil
				}, consumer.WithDrainTimeout(drain))
				b.send(t, "a")
				synctest.Wait()
				lost := time.Now()
				b.Cut()
				pass(test.stops)
				err := b.end()
				equal(t, "Run ended after", test.want, time.Since(lost).Round(time.Second))
				text := ""
				if err != nil {
					text = err.Error()
				}
				equal(t, "Run", test.err, text)
				pass(test.takes)
			})
		})
	}
}
