package mover

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/hostile"
)

// A server announces a message and never delivers it. A browse waits until its context ends, so callers must limit it.
func TestBrowseOfAMessageThatIsNeverDelivered(t *testing.T) {
	t.Parallel()
	deadline.InTestAll(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	began := time.Now()
	_, err := browseAt(ctx, t, func(s *hostile.Session, received hostile.Received) bool {
		return received.Method == amqpmethod.QueueDeclare &&
			s.Send(received.Channel, amqpmethod.QueueDeclareOK, source, uint32(1), uint32(0))
	})
	if took := time.Since(began); took < 2*time.Second || took > within {
		t.Errorf("took %v: %v", took, err)
	}
}

// A server that answers nothing, but sends heartbeats, does not stop a browse for longer than answerLimit.
func TestBrowseAtAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	_, err := browseAt(t.Context(), t, hostile.AMQPWays()["never answers a new consumer, and sends heartbeats"])
	if !errors.Is(err, brokererr.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

// A quorum queue that is too busy to count reports neither messages nor the consumer of the pass.
func TestASourceThatWasNotCountedIsNotEmpty(t *testing.T) {
	t.Parallel()
	for consumers, want := range map[uint32]bool{0: false, 1: true} {
		p := consuming(t, Config{
			Settings: func() Settings { return Settings{} }, Queue: source,
			Dial: hostileDialer(t, func(s *hostile.Session, received hostile.Received) bool {
				return received.Method == amqpmethod.QueueDeclare &&
					s.Send(received.Channel, amqpmethod.QueueDeclareOK, source, uint32(0), consumers)
			}),
		})
		topologytest.Equal(t, fmt.Sprintf("empty with %d consumers", consumers), want, isEmpty(t, p, idleLimit))
	}
}

// browseAt browses a queue of a server that misbehaves.
func browseAt(ctx context.Context, t *testing.T, misbehave hostile.AMQPWay) (Browsed, error) {
	t.Helper()
	return Browse(ctx, BrowseConfig{
		Dial: hostileDialer(t, misbehave),
		Log:  testr.New(t), Queue: source, MaxMessages: 1, Visit: func(int, *amqp.Delivery) bool { return true },
	})
}

// hostileDialer starts a server that misbehaves, and returns a function that connects to it.
func hostileDialer(t *testing.T, misbehave hostile.AMQPWay) func(context.Context) (*amqpconn.Conn, error) {
	t.Helper()
	uri, err := url.Parse(hostile.NewAMQP(t, misbehave).URI)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (*amqpconn.Conn, error) {
		return amqpconn.Dial(ctx, amqpconn.DialOptions{
			LargestBody: 1 << 20, URI: uri, TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Username: "guest", Password: "guest", VHost: "/",
			Owner: "test", Product: "Warren mover", Name: "transfer", Timeout: within,
		})
	}
}
