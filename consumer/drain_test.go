package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// The next consumer becomes active as soon as the first one cancels.
func TestADrainOfASingleActiveConsumerKeepsTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		current, began, seen := contract.Default("orders"), time.Now(), make(chan string, 10)
		current.SingleActiveConsumer = true
		handle := func(_ context.Context, m *consumer.Message[string]) error {
			seen <- fmt.Sprintf("%s at %s", m.Body, time.Since(began))
			time.Sleep(5 * time.Second)
			return nil
		}
		first := run(t, current, handle)
		synctest.Wait()
		next := startWith(t, current, func(*memory.Broker) {},
			func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				return consumer.New(consumer.NewConn(nil, withTransport(first.Broker)), source, handle, options...)
			})
		synctest.Wait()
		first.send(t, "a", "b")
		synctest.Wait()
		equal(t, "Run", nil, first.end())
		pass(10 * time.Second)
		equal(t, "handled", []string{"a at 0s", "b at 5s"}, []string{<-seen, <-seen})
		equal(t, "Run of the next consumer", nil, next.end())
	})
}

func TestAConnectionLostDuringADrainEndsTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return io.EOF
		})
		b.send(t, "a")
		synctest.Wait()
		time.AfterFunc(5*time.Second, b.Cut)
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "took", 5*time.Second, time.Since(began))
		equal(t, "lost", true, errors.Is(cause, consumer.ErrDeliveryLost))
		equal(t, "copies", 0, len(b.Messages("orders.retry.30s")))
		equal(t, "left in the queue", 1, len(b.Messages("orders")))
	})
}

func TestAFailureDuringADrainUsesAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		current := contract.Default("orders")
		current.Strategy, current.Tiers = contract.StrategyRequeue, nil
		b := run(t, current, func(context.Context, *consumer.Message[string]) error {
			time.Sleep(5 * time.Second)
			return io.EOF
		})
		b.send(t, "a")
		synctest.Wait()
		equal(t, "Run", nil, b.end())
		left := b.Messages("orders")
		equal(t, "left in the queue", 1, len(left))
		equal(t, "counted deliveries", any(int64(1)), left[0].Headers["x-delivery-count"])
	})
}

// Quorum queues lose acks if more than 32 follow the cancel and the channel is closed right after them.
func TestADrainCancelsEarlyOnlyIfFewAcksFollow(t *testing.T) {
	t.Parallel()
	for prefetch, waiting := range map[int]int{32: 1, 33: 0} {
		t.Run(fmt.Sprintf("a prefetch of %d", prefetch), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
					time.Sleep(5 * time.Second)
					return nil
				}, consumer.WithPrefetch(prefetch))
				b.send(t, "a")
				pass(time.Second)
				b.stop()
				pass(2 * time.Second)
				b.send(t, "b")
				synctest.Wait()
				equal(t, "waiting while the handler runs", waiting, len(b.Messages("orders")))
				equal(t, "Run", nil, <-b.ended)
				equal(t, "left in the queue", 1, len(b.Messages("orders")))
			})
		})
	}
}
