package consumer_test

import (
	"context"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// lateContract is a contract that does not exist before written is set.
type lateContract struct {
	contract.Contract

	written atomic.Bool
}

func (l *lateContract) Load(context.Context) (contract.Contract, error) {
	if !l.written.Load() {
		return contract.Contract{}, fs.ErrNotExist
	}
	return l.Contract, nil
}

// The consumer calls these functions in a goroutine of its own, State also before it has read the contract.
func TestAnObserverThatPanics(t *testing.T) {
	t.Parallel()
	for name, observer := range map[string]consumer.Observer{
		"Observer.State":       {State: func(consumer.Transition) { panic("no state") }},
		"Observer.Reconnected": {Reconnected: func(consumer.Reconnection) { panic("no reconnection") }},
		"Observer.Stuck":       {Stuck: func(consumer.StuckHandler) { panic("no stuck handler") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release, log, source := make(chan struct{}), &record{}, &lateContract{Contract: contract.Default("orders")}
				b := startWith(t, source.Contract, func(*memory.Broker) {},
					func(conn *consumer.Conn, _ contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						return consumer.New(conn, source, func(_ context.Context, m *consumer.Message[string]) error {
							if m.Body == "hangs" {
								hang(release)
							}
							return nil
						}, options...)
					}, consumer.WithTimeout(time.Second), consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))),
					consumer.WithObserver(observer))
				pass(time.Second)
				source.written.Store(true)
				b.send(t, "hangs")
				pass(time.Minute)
				b.Cut()
				pass(time.Minute)
				b.send(t, "good")
				close(release)
				pass(time.Second)
				equal(t, "unsettled", 0, b.Unsettled(""))
				equal(t, "Run", nil, b.end())
				if log.count("function="+name+" panic=") == 0 {
					t.Error("no panic was logged")
				}
			})
		})
	}
}
