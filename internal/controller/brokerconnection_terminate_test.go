package controller

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/internal/rabbit"
)

func TestHowLongABrokerConnectionStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		since               time.Duration
		needed, terminating bool
		want                time.Duration
	}{
		"nobody needs it":                               {since: 0, want: 0},
		"just deleted, while in use":                    {since: time.Second, needed: true, want: 9 * time.Second},
		"nobody else was deleted":                       {since: 10 * time.Second, needed: true, want: 0},
		"some are being deleted":                        {since: time.Minute, needed: true, terminating: true, want: 4 * time.Minute},
		"some are being deleted and do not come to end": {since: 5 * time.Minute, needed: true, terminating: true, want: 0},
	} {
		equal(t, name, test.want, stay(test.since, test.needed, test.terminating))
	}
}

func TestAConnectionOutlivesItsSecret(t *testing.T) {
	t.Parallel()
	connections, key := NewConnections(nil, logr.Discard()), types.NamespacedName{Namespace: "shop", Name: "default"}
	equal(t, "without a connection", 0, connections.outlive(key, time.Hour))
	connections.open[key] = openConnection{Connection: &rabbit.Connection{}}
	first := connections.outlive(key, time.Hour)
	equal(t, "at first", true, first > 59*time.Minute)
	equal(t, "later less", true, connections.outlive(key, time.Hour) < first)
	equal(t, "at the end", true, connections.outlive(key, 0) <= 0)
	connections.adopt(key)
	equal(t, "when the Secret is back", true, connections.open[key].orphaned.IsZero())
}
