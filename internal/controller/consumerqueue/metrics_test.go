package consumerqueue

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// emits checks what the reconciler emits of some metrics.
func (w *world) emits(text string, names ...string) {
	w.t.Helper()
	collector := metrics.NewCollector(w.reconciler.EmitMetrics)
	if err := testutil.CollectAndCompare(collector, strings.NewReader(text), names...); err != nil {
		w.t.Error(err)
	}
}

// A ConsumerQueue that is well has counts and messages; the rest is there while something wants attention.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, twoQueues))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.broker.SetMessages("orders", 7)
	w.broker.SetMessages("dlq", 2)
	w.emits(`
# HELP warren_consumerqueue_messages `+helpOf(t, "warren_consumerqueue_messages")+`
# TYPE warren_consumerqueue_messages gauge
warren_consumerqueue_messages{name="orders",namespace="shop",role="dead_lettered"} 2
warren_consumerqueue_messages{name="orders",namespace="shop",role="main"} 7
`, "warren_consumerqueue_messages", "warren_resource_condition_since_timestamp_seconds")
	w.broker.SetMessages("dlq", -1)
	w.emits(`
# HELP warren_consumerqueue_messages `+helpOf(t, "warren_consumerqueue_messages")+`
# TYPE warren_consumerqueue_messages gauge
warren_consumerqueue_messages{name="orders",namespace="shop",role="main"} 7
`, "warren_consumerqueue_messages")
	w.emits(`
# HELP warren_resources `+helpOf(t, "warren_resources")+`
# TYPE warren_resources gauge
warren_resources{condition="Drifted",kind="ConsumerQueue",namespace="shop",reason="InSync",status="False"} 1
warren_resources{condition="Ready",kind="ConsumerQueue",namespace="shop",reason="InSync",status="True"} 1
warren_resources{condition="RecreationRequired",kind="ConsumerQueue",namespace="shop",reason="InSync",status="False"} 1
`, "warren_resources")
}

// Drift is counted when it is found, and again only after it was gone.
func TestDriftIsCountedOnce(t *testing.T) {
	w := newWorld(t, controllertest.ConsumerQueue(t, twoQueues)) // not parallel: the counters are those of the process
	detected, corrected := metrics.DriftDetected.With("Queue", "Declare"), metrics.DriftCorrected.With("Queue", "Declare")
	counts := func(want float64) {
		t.Helper()
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		topologytest.Equal(t, "detected", want, testutil.ToFloat64(detected))
		topologytest.Equal(t, "corrected", want, testutil.ToFloat64(corrected))
	}
	before := testutil.ToFloat64(detected)
	topologytest.Equal(t, "corrected", before, testutil.ToFloat64(corrected))
	counts(before)
	for again := range 2 {
		w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
		counts(before + float64(again) + 1)
		counts(before + float64(again) + 1)
	}
}

func helpOf(t *testing.T, name string) string {
	t.Helper()
	for _, metric := range metrics.Definitions() {
		if metric.Name == name {
			return metric.Help
		}
	}
	t.Fatalf("there is no metric %s", name)
	return ""
}
