package consumer_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// Heartbeats do not show that a broker answers no request. The consumer must not wait forever.
func TestADrainEndsIfTheBrokerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"basic.cancel", "channel.close"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, contract.Default("orders"), ignore)
				pass(time.Second)
				b.Ignore(method, true)
				b.stop()
				pass(11 * time.Second)
				equal(t, "ended", 1, len(b.ended))
			})
		})
	}
}

// The whole end must fit into 10 s after the drain timeout, see WithDrainTimeout.
func TestRunEndsSoonAfterTheDrainTimeout(t *testing.T) {
	t.Parallel()
	const drain = 5 * time.Second
	for name, test := range map[string]struct {
		singleActive bool
		ignored      []string
		want         time.Duration
	}{
		"no answer to basic.cancel":             {false, []string{"basic.cancel", "connection.close"}, drain + 7*time.Second},
		"no answer to channel.close":            {false, []string{"channel.close", "connection.close"}, drain + 7*time.Second},
		"no answer to a single active consumer": {true, []string{"channel.close", "connection.close"}, drain + 7*time.Second},
		"no answer to connection.close":         {false, []string{"connection.close"}, drain + 4*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				current := contract.Default("orders")
				current.SingleActiveConsumer = test.singleActive
				release, contextEnded := make(chan struct{}), make(chan time.Time, 1)
				defer close(release)
				b := run(t, current, func(ctx context.Context, m *consumer.Message[string]) error {
					if m.Body == "fails" { // opens the connection for copies
						return io.EOF
					}
					<-ctx.Done()
					contextEnded <- time.Now()
					hang(release)
					return nil
				}, consumer.WithDrainTimeout(drain))
				b.send(t, "fails", "hangs")
				pass(time.Second)
				for _, method := range test.ignored {
					b.Ignore(method, true)
				}
				began := time.Now()
				err := b.end()
				equal(t, "Run ended after", test.want, time.Since(began))
				equal(t, "the context of the handler ended after", drain, (<-contextEnded).Sub(began))
				equal(t, "a handler was abandoned", true, errors.As(err, new(*consumer.DrainError)))
			})
		})
	}
}

// The broker cancels the consumer during a drain, and does not answer the request to close the channel.
func TestALostSessionEndsSoonAfterTheDrainTimeout(t *testing.T) {
	t.Parallel()
	const drain = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			hang(release)
			return nil
		}, consumer.WithDrainTimeout(drain))
		b.send(t, "a")
		pass(time.Second)
		b.Ignore("channel.close", true)
		began := time.Now()
		b.stop()
		b.Delete("orders")
		equal(t, "a handler was abandoned", true, errors.As(<-b.ended, new(*consumer.DrainError)))
		equal(t, "Run ended after", drain+5*time.Second, time.Since(began))
	})
}

func TestAConsumerContinuesAfterARequestWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for method, request := range map[string]func(*testing.T, *fixture){
		"basic.cancel":   func(_ *testing.T, b *fixture) { b.consumer.Pause() },
		"basic.consume":  func(_ *testing.T, b *fixture) { b.consumer.Resume() },
		"confirm.select": func(t *testing.T, b *fixture) { b.send(t, "fails") },
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
					if m.Attempt() == 1 {
						return io.EOF
					}
					return nil
				})
				if method == "basic.consume" {
					b.consumer.Pause()
				}
				pass(time.Second)
				b.Ignore(method, true)
				request(t, b)
				pass(time.Minute)
				b.Ignore(method, false)
				b.consumer.Resume()
				b.send(t, "fails")
				pass(2 * time.Minute)
				equal(t, "unsettled", 0, b.Unsettled(""))
				b.stop()
				pass(time.Minute)
				equal(t, "ended", 1, len(b.ended))
			})
		})
	}
}
