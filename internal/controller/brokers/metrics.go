package brokers

import (
	"maps"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// EmitMetrics emits the state of each open connection and the size of its snapshot.
func (p *Pool) EmitMetrics(emit metrics.Emit) {
	p.mu.Lock()
	open := maps.Clone(p.open)
	p.mu.Unlock()
	for key, connection := range open {
		emitStats(emit, connection.broker.Stats(), key.Namespace, key.Name)
	}
}

func emitStats(emit metrics.Emit, stats rabbit.Stats, namespace, name string) {
	metrics.ConnectionUp.Emit(emit, asNumber(stats.AMQPUp), namespace, name, "amqp")
	metrics.ConnectionUp.Emit(emit, asNumber(stats.ManagementUp), namespace, name, "management")
	metrics.EventsArriving.Emit(emit, asNumber(stats.EventsArrive), namespace, name)
	metrics.Reconnects.Emit(emit, float64(stats.Reconnects), namespace, name)
	metrics.OperationLimit.Emit(emit, float64(stats.OperationLimit), namespace, name)
	metrics.SnapshotInterval.Emit(emit, stats.ResyncInterval.Seconds(), namespace, name)
	metrics.Fences.Emit(emit, float64(stats.Fences), namespace, name)
	metrics.DeletionsWaiting.Emit(emit, float64(stats.DeletionsWaiting), namespace, name)
	metrics.FenceOldest.EmitTime(emit, stats.Oldest, namespace, name)
	if stats.SyncedAt.IsZero() {
		return // there is no snapshot yet
	}
	metrics.SnapshotTime.EmitTime(emit, stats.SyncedAt, namespace, name)
	metrics.SnapshotBytes.Emit(emit, float64(stats.Size.Bytes), namespace, name)
	for kind, count := range map[string]int{
		"Queue": stats.Size.Queues, "Exchange": stats.Size.Exchanges, "Binding": stats.Size.Bindings, "Policy": stats.Size.Policies,
	} {
		metrics.SnapshotObjects.Emit(emit, float64(count), namespace, name, kind)
	}
}

func asNumber(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// EmitMemory emits the size of all snapshots together.
func EmitMemory(limits *management.Limits) metrics.Source {
	return func(emit metrics.Emit) {
		used, limit := limits.Usage()
		metrics.SnapshotMemory.Emit(emit, float64(used))
		metrics.SnapshotMemoryLimit.Emit(emit, float64(limit))
	}
}
