package transport

import (
	"strings"
	"testing"
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
