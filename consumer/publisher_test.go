package consumer

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

func TestAPublisherConnectsWithDelay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails bool
		dials int
		waits bool
	}{
		"after a failure, and fails meanwhile": {true, 1, false},
		"after a lost connection":              {false, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, dials := memory.New(contract.Default("orders")), 0
				p := newPublisher(func(ctx context.Context, blocked func(bool)) (transport.Connection, error) {
					if dials++; test.fails {
						return nil, io.ErrUnexpectedEOF
					}
					return b.Dial(ctx, "", blocked)
				})
				began := time.Now()
				for range 2 {
					connection, err := p.connected(t.Context())
					if err == nil {
						connection.Kill()
					}
					if failed := errors.Is(err, io.ErrUnexpectedEOF); failed != test.fails {
						t.Errorf("connect: %v", err)
					}
				}
				if took := time.Since(began); dials != test.dials || (took >= minDelay/2) != test.waits {
					t.Errorf("%d dials took %s", dials, took)
				}
			})
		})
	}
}

// Many copies of failed messages may wait for one exchange. Each attempt opens a channel.
func TestARefusedRouteIsTriedByOneMessageAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		routes, route, refusal := refusedRoutes{}, contract.Route{Exchange: "shop"}, &UnroutableError{Exchange: "shop"}
		routes.add(route, refusal)
		if early, err := routes.check(route); early != nil || !errors.Is(err, refusal) {
			t.Errorf("before the delay is over: %v", err)
		}
		time.Sleep(maxDelay)
		due, err := routes.check(route)
		if due == nil || err != nil {
			t.Fatalf("the first message: %v", err)
		}
		if another, err := routes.check(route); another != nil || !errors.Is(err, refusal) {
			t.Errorf("another message meanwhile: %v", err)
		}
	})
}

func TestRefusedRoutesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		routes := refusedRoutes{}
		for i := range 1000 {
			routes.add(contract.Route{Exchange: strconv.Itoa(i)}, &UnroutableError{})
			time.Sleep(time.Second)
		}
		if count := len(routes.known); count > 12 {
			t.Errorf("%d routes are known", count)
		}
	})
}

// The connection reads nothing while the returns of a channel are full.
func TestTheReturnOfAnAbandonedMessageIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, connection := memory.New(contract.Default("orders")), &publishingConnection{}
		dialed, err := b.Dial(t.Context(), "", connection.gate.set)
		if err != nil {
			t.Fatal(err)
		}
		connection.Connection = dialed
		ch, err := newConfirmChannel(connection)
		if err != nil {
			t.Fatal(err)
		}
		b.Block(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		message := amqp.Publishing{Headers: amqp.Table{contract.HeaderCopyID: "a"}}
		released := false
		err = ch.publish(ctx, contract.Route{RoutingKey: "nowhere"}, message, func() { released = true })
		if !errors.As(err, new(*UnknownOutcomeError)) || released {
			t.Errorf("abandoned: %v, released: %t", err, released)
		}
		b.Block(false)
		synctest.Wait()
		if count := len(ch.returns) + len(ch.returned); count > 0 || !released {
			t.Errorf("%d returns, released: %t", count, released)
		}
	})
}

func TestAnObserverThatBlocksDropsReports(t *testing.T) {
	t.Parallel()
	release, reports := make(chan struct{}), reporter{}
	defer close(release)
	for range 2 * maxReports {
		reports.report(func() { <-release })
	}
	reports.mu.Lock()
	defer reports.mu.Unlock()
	if count := len(reports.waiting); count > maxReports+1 {
		t.Errorf("%d reports wait", count)
	}
}
