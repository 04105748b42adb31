package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// amqp091-go prefers the heartbeat of a URI to that of its configuration.
func TestTheHeartbeatOfAURIIsReplaced(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"amqp://rabbit":                                   "amqp://rabbit?heartbeat=10",
		"amqp://rabbit/shop?heartbeat=600":                "amqp://rabbit/shop?heartbeat=10",
		"amqps://u:p%2F@rabbit/%2F?a=b&heartbeat=0&x=%26": "amqps://u:p%2F@rabbit/%2F?a=b&heartbeat=10&x=%26",
	} {
		if got, err := withHeartbeat(uri); err != nil || got != want {
			t.Errorf("%s: want %s, got %s, error %v", uri, want, got, err)
		}
	}
	if _, err := withHeartbeat("amqp://u:secret@rabbit:port"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong port: %v", err)
	}
}

func TestADialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		silent := &AMQP{
			URI: func(context.Context) (string, error) { return "amqp://rabbit", nil },
			DialTCP: func(context.Context, string, string) (net.Conn, error) {
				ours, broker := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, broker) }()
				return ours, nil
			},
		}
		began := time.Now()
		if _, err := silent.Dial(ctx, "", func(bool) {}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// A frame that arrives meanwhile extends no deadline.
func TestACloseEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		frames := make(chan []byte)
		defer close(frames)
		broker := &AMQP{
			URI: func(context.Context) (string, error) { return "amqp://rabbit", nil },
			DialTCP: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go serve(theirs, frames)
				return ours, nil
			},
		}
		connection, err := broker.Dial(t.Context(), "", func(bool) {})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(time.Second, func() { frames <- frame(8, 0) })
		_ = connection.Close(began.Add(2 * time.Second)) // the broker does not answer
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("Close took %s", took)
		}
	})
}

func TestAWriteToAPeerThatDoesNotReadEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, _ := net.Pipe()
		began := time.Now()
		_, err := guard(ours, ours, nil).Write([]byte{0})
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != idleTimeout {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
