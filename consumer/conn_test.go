package consumer_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

func ignore(context.Context, *consumer.Message[string]) error { return nil }

func TestAConsumerThatEndsLeavesTheConnectionToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shared *consumer.Conn
		first := startWith(t, contract.Default("orders"), func(*memory.Broker) {},
			func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				shared = conn
				return consumer.New(conn, source, ignore, options...)
			})
		second := startWith(t, contract.Default("orders"), func(*memory.Broker) {},
			func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				return consumer.New(shared, source, ignore, options...)
			})
		pass(time.Second)
		equal(t, "Run", nil, first.end())
		pass(time.Minute)
		equal(t, "states of the other consumer", []string{"Connecting", "DeclaringQoS", "Consuming", "Delivering"}, second.states)
		equal(t, "connections", 2, first.Dials())
		equal(t, "Run of the other consumer", nil, second.end())
	})
}

func TestRunEndsAllConsumersIfOneFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		defer b.Close()
		conn, late := consumer.NewConn(nil, withTransport(b)), &lateContract{Contract: contract.Default("orders")}
		good, err := consumer.New(conn, contract.Default("orders"), ignore, quiet())
		equal(t, "error", nil, err)
		bad, err := consumer.New(conn, late, ignore, quiet(), consumer.WithConcurrency(-1)) // there is no contract to compare with
		equal(t, "error", nil, err)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- consumer.Run(ctx, good, bad) }()
		pass(time.Second)
		equal(t, "state", consumer.StateDelivering, good.Health().State)
		late.written.Store(true)
		pass(time.Minute)
		equal(t, "state in the end", consumer.StateDisconnected, good.Health().State)
		cancel()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "WithConcurrency(-1)") {
			t.Errorf("Run: %v", err)
		}
	})
}

// endlessSource is a contract that New does not find, and that Run reads until its context ends.
type endlessSource struct{ loads int }

func (s *endlessSource) Load(ctx context.Context) (contract.Contract, error) {
	if s.loads++; s.loads == 1 {
		return contract.Contract{}, fs.ErrNotExist
	}
	<-ctx.Done()
	return contract.Contract{}, ctx.Err()
}

func TestRunThatEndsBeforeItHasReadAContract(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWith(t, contract.Default("orders"), func(*memory.Broker) {},
			func(conn *consumer.Conn, _ contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				return consumer.New(conn, &endlessSource{}, ignore, options...)
			})
		pass(time.Second)
		equal(t, "Run", nil, b.end())
	})
}

func TestRunCanBeCalledOnlyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), ignore)
		pass(time.Second)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.consumer.Run(over); err == nil || !strings.Contains(err.Error(), "Run was called before") {
			t.Errorf("the second Run: %v", err)
		}
		equal(t, "state", consumer.StateDelivering, b.consumer.Health().State)
		equal(t, "Run", nil, b.end())
	})
}

// lateBroker opens no channel before released is closed.
type lateBroker struct {
	*memory.Broker

	released chan struct{}
}

type lateConnection struct {
	transport.Connection

	released chan struct{}
}

func (b lateBroker) Dial(ctx context.Context, name string, blocked func(bool)) (transport.Connection, error) {
	made, err := b.Broker.Dial(ctx, name, blocked)
	return lateConnection{made, b.released}, err
}

func (c lateConnection) ConsumingChannel(closed chan *amqp.Error, cancelled chan string) (transport.ConsumingChannel, error) {
	<-c.released
	return c.Connection.ConsumingChannel(closed, cancelled)
}

func TestAChannelThatOpensAfterTheEndIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		var conn *consumer.Conn
		b := startWith(t, contract.Default("orders"), func(b *memory.Broker) {
			conn = consumer.NewConn(nil, withTransport(lateBroker{b, released}))
		}, func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
			return consumer.New(conn, source, ignore, options...)
		})
		other, err := consumer.New(conn, &lateContract{}, ignore, quiet()) // keeps the connection open
		equal(t, "error", nil, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- other.Run(ctx) }()
		b.send(t, "a")
		pass(time.Second)
		equal(t, "Run", nil, b.end())
		close(released)
		pass(time.Second)
		equal(t, "state", consumer.StateDisconnected, b.consumer.Health().State)
		equal(t, "left in the queue", 1, len(b.Messages("orders")))
		cancel()
		equal(t, "Run of the other consumer", nil, <-ended)
	})
}
