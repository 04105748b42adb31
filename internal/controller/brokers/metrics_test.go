package brokers

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// values returns what a source emits. A key is the name of the metric and its label values, in the order of the label names.
func values(t *testing.T, source metrics.Source) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(source))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			name := family.GetName()
			for _, label := range metric.Label {
				name += " " + label.GetValue()
			}
			found[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return found
}

// A connection that has not read its vhost yet has no metrics of a snapshot.
func TestStatsBecomeMetrics(t *testing.T) {
	t.Parallel()
	stats := rabbit.Stats{Reconnects: 3, ResyncInterval: 30 * time.Second, OperationLimit: 16}
	emit := func(emit metrics.Emit) { emitStats(emit, stats, "shop", "default") }
	want := map[string]float64{
		"warren_connection_up default shop amqp": 0, "warren_connection_up default shop management": 0,
		"warren_connection_reconnects_total default shop": 3, "warren_snapshot_refresh_interval_seconds default shop": 30,
		"warren_fences default shop": 0, "warren_connection_events_arriving default shop": 0, "warren_deletions_waiting default shop": 0,
		"warren_connection_operation_limit default shop": 16,
	}
	topologytest.Equal(t, "before the first refresh", want, values(t, emit))

	stats.AMQPUp, stats.ManagementUp, stats.EventsArrive, stats.SyncedAt = true, true, true, time.Unix(1000, 0)
	want["warren_connection_events_arriving default shop"] = 1
	stats.Size = snapshot.Size{Queues: 1, Exchanges: 2, Bindings: 3, Policies: 4, Bytes: 5}
	stats.Fences, stats.Oldest = 1, time.Unix(900, 0)
	want["warren_connection_up default shop amqp"], want["warren_connection_up default shop management"] = 1, 1
	want["warren_snapshot_timestamp_seconds default shop"], want["warren_snapshot_bytes default shop"] = 1000, 5
	want["warren_snapshot_objects Queue default shop"], want["warren_snapshot_objects Exchange default shop"] = 1, 2
	want["warren_snapshot_objects Binding default shop"], want["warren_snapshot_objects Policy default shop"] = 3, 4
	want["warren_fences default shop"], want["warren_fence_oldest_timestamp_seconds default shop"] = 1, 900
	topologytest.Equal(t, "after the first refresh", want, values(t, emit))
}

func TestMemoryBecomesMetrics(t *testing.T) {
	t.Parallel()
	topologytest.Equal(t, "memory", map[string]float64{
		"warren_snapshot_memory_bytes": 0, "warren_snapshot_memory_limit_bytes": 6 * management.Mebibyte,
	}, values(t, EmitMemory(management.NewLimits(management.Mebibyte))))
}

func TestWaitsBecomeMetrics(t *testing.T) {
	t.Parallel()
	l := NewLimiter(2, func(types.NamespacedName) {})
	end, _ := l.TryAcquire("blue:5672", keyOf("shop", "a"))
	l.TryAcquire("blue:5672", keyOf("shop", "b"))
	topologytest.Equal(t, "one waits", map[string]float64{"warren_limiter_waiting": 1}, values(t, l.EmitMetrics))
	end()
	topologytest.Equal(t, "none waits", map[string]float64{"warren_limiter_waiting": 0}, values(t, l.EmitMetrics))
}
