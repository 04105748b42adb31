package rabbit

import (
	"time"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/observe"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Stats are the values of the metrics of a connection.
type Stats struct {
	// AMQPUp: the AMQP connection is open. ManagementUp: the management API answered the last refresh.
	AMQPUp, ManagementUp bool
	// EventsArrive: the events of the vhost arrive.
	EventsArrive bool
	// Reconnects is how often AMQP has reconnected.
	Reconnects int
	// SyncedAt is Health.SyncedAt, and ResyncInterval is Config.ResyncInterval.
	SyncedAt       time.Time
	ResyncInterval time.Duration
	// Size is the size of the snapshot.
	Size snapshot.Size
	// Fences is how many fences of this connection, or of an owner that Config.KnownOwners does not know, may refuse messages. Oldest is
	// when the oldest of these fences was created; zero if there is none.
	Fences int
	Oldest time.Time
	// OperationLimit is how many operations may run on the AMQP connection at a time.
	OperationLimit int
	// DeletionsWaiting is how many calls of DeleteEmpty and Recreate wait for a batch.
	DeletionsWaiting int
}

// statsOf returns the values of the metrics of a connection.
func statsOf(config Config, observer *observe.Observer, deletions *safedelete.Deleter, operationLimit int) Stats {
	health := observer.State()
	stats := Stats{
		AMQPUp: health.Connected, ManagementUp: observer.Health.ManagementUp(), EventsArrive: !health.EventsSince.IsZero(),
		Reconnects: observer.Health.Reconnects(), SyncedAt: health.SyncedAt, ResyncInterval: config.ResyncInterval,
		DeletionsWaiting: deletions.Waiting(), OperationLimit: operationLimit,
	}
	names := map[string]bool{}
	for _, name := range deletions.Fences() {
		names[name] = true
	}
	observer.View(func(s *snapshot.Snapshot) {
		stats.Size = s.Size()
		for _, policy := range s.Fences {
			if fence.IsClosed(policy.Definition) {
				names[policy.Name] = true
			} else {
				delete(names, policy.Name)
			}
		}
	})
	// Other connections of the process count their fences themselves.
	known := func(string) bool { return false }
	if config.KnownOwners != nil {
		known = config.KnownOwners()
	}
	for name := range names {
		if parsed, _ := fence.ParseName(name); parsed.Owner == config.Owner || !known(parsed.Owner) {
			stats.Fences++
			if stats.Oldest.IsZero() || parsed.Begun.Before(stats.Oldest) {
				stats.Oldest = parsed.Begun
			}
		}
	}
	return stats
}
