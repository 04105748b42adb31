package consumer_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// load is what Health reports of the messages in a consumer.
type load struct{ Active, InFlight, Prefetched int }

func (b *fixture) load() load {
	health := b.consumer.Health()
	return load{health.Active, health.InFlight, health.Prefetched}
}

func TestHealthCountsTheMessagesInTheConsumer(t *testing.T) {
	t.Parallel()
	takeAMinute := func() { time.Sleep(time.Minute) }
	single := func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
		return consumer.New(conn, source, func(context.Context, *consumer.Message[string]) error {
			takeAMinute()
			return nil
		}, append(options, consumer.WithConcurrency(2), consumer.WithPrefetch(5))...)
	}
	batch := func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
		return consumer.NewBatch(conn, source, 3, time.Minute, func(context.Context, *consumer.Batch[string]) error {
			takeAMinute()
			return nil
		}, append(options, consumer.WithPrefetch(5))...)
	}
	waits := consumer.WithLimiter(consumer.LimiterFunc(func(ctx context.Context) (func(), error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	nothing := func(*fixture) {}
	for name, test := range map[string]struct {
		create   create
		options  []consumer.Option
		messages int
		then     func(*fixture)
		want     load
	}{
		"no message":                          {single, nil, 0, nothing, load{}},
		"fewer messages than handlers":        {single, nil, 1, nothing, load{1, 1, 0}},
		"more messages than the prefetch":     {single, nil, 8, nothing, load{2, 2, 3}},
		"a batch that is not full":            {batch, nil, 2, nothing, load{0, 0, 2}},
		"a batch that is handled":             {batch, nil, 4, nothing, load{1, 3, 1}},
		"messages that wait for the limiter":  {single, []consumer.Option{waits}, 8, nothing, load{0, 0, 5}},
		"a limiter for which nothing is kept": {single, []consumer.Option{waits}, 8, func(*fixture) { pass(time.Hour) }, load{}},
		"a pause": {single, nil, 8, func(b *fixture) {
			b.consumer.Pause()
			synctest.Wait()
		}, load{2, 2, 0}},
		"a lost connection": {single, nil, 8, func(b *fixture) {
			b.Cut()
			pass(10 * time.Second)
		}, load{2, 2, 5}}, // the handlers keep their slots, and the messages of the new connection wait
		"the end": {single, nil, 8, func(b *fixture) { equal(t, "Run", nil, b.end()) }, load{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := startWith(t, contract.Default("orders"), func(*memory.Broker) {}, test.create,
					append(test.options, consumer.WithDrainTimeout(time.Hour))...)
				for range test.messages {
					b.send(t, "a")
				}
				pass(time.Second)
				test.then(b)
				equal(t, "load", test.want, b.load())
				b.stop()
				pass(time.Hour)
			})
		})
	}
}

// A handler that fails leaves no message behind in the counts, and neither does one that panics.
func TestHealthCountsNoMessageThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			if m.Body == "panics" {
				panic("no stock")
			}
			return io.EOF
		}, consumer.WithConcurrency(1))
		b.send(t, "fails", "panics", "fails")
		pass(time.Second)
		equal(t, "load", load{}, b.load())
		equal(t, "Run", nil, b.end())
	})
}

// hangingSource is a contract that can be loaded twice: by New and by Run. Then Load calls hang.
type hangingSource struct {
	contract.Contract

	loads int
	hang  func(context.Context)
}

func (s *hangingSource) Load(ctx context.Context) (contract.Contract, error) {
	if s.loads++; s.loads > 2 {
		s.hang(ctx)
	}
	return s.Contract, ctx.Err()
}

// Only a restart helps against a source that ignores its context.
func TestLivenessWhileTheContractCannotBeLoaded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hang func(ctx context.Context, release chan struct{})
		live bool
	}{
		"by a source that obeys its context":   {func(ctx context.Context, _ chan struct{}) { <-ctx.Done() }, true},
		"by a source that ignores its context": {func(_ context.Context, release chan struct{}) { hang(release) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				source := &hangingSource{Contract: contract.Default("orders"), hang: func(ctx context.Context) { test.hang(ctx, release) }}
				b := startWith(t, source.Contract, func(*memory.Broker) {},
					func(conn *consumer.Conn, _ contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						return consumer.New(conn, source, ignore, options...)
					})
				pass(10 * time.Minute)
				equal(t, "live", test.live, b.consumer.Health().Live)
				close(release)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}
