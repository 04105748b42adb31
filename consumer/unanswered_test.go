package consumer_test

import (
	"context"
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
