package transport

import (
	"context"
	"errors"
	"io"
	"net"
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
