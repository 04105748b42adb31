package consumerqueue

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// emits compares the text of some metrics of the reconciler.
func (w *world) emits(text string, names ...string) {
	w.t.Helper()
	collector := metrics.NewCollector(w.reconciler.EmitMetrics)
	if err := testutil.CollectAndCompare(collector, strings.NewReader(text), names...); err != nil {
		w.t.Error(err)
	}
}

// A Ready ConsumerQueue has condition and message counts. The other metrics exist while a problem exists.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, twoQueues))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.broker.SetMessages("orders", 7)
	w.broker.SetMessages("dlq", 2)
	w.emits(`
# HELP warren_consumerqueue_messages `+controllertest.HelpOf(t, "warren_consumerqueue_messages")+`
# TYPE warren_consumerqueue_messages gauge
warren_consumerqueue_messages{name="orders",namespace="shop",role="dead_lettered"} 2
warren_consumerqueue_messages{name="orders",namespace="shop",role="main"} 7
`, "warren_consumerqueue_messages", "warren_resource_condition_since_timestamp_seconds")
	w.broker.SetMessages("dlq", -1)
	w.emits(`
# HELP warren_consumerqueue_messages `+controllertest.HelpOf(t, "warren_consumerqueue_messages")+`
# TYPE warren_consumerqueue_messages gauge
warren_consumerqueue_messages{name="orders",namespace="shop",role="main"} 7
`, "warren_consumerqueue_messages")
	w.broker.SetStuck("orders", 5)
	w.emits(`
# HELP warren_consumerqueue_stuck_dead_letters `+controllertest.HelpOf(t, "warren_consumerqueue_stuck_dead_letters")+`
# TYPE warren_consumerqueue_stuck_dead_letters gauge
warren_consumerqueue_stuck_dead_letters{name="orders",namespace="shop"} 5
`, "warren_consumerqueue_stuck_dead_letters")
	w.emits(`
# HELP warren_resources `+controllertest.HelpOf(t, "warren_resources")+`
# TYPE warren_resources gauge
warren_resources{condition="Drifted",kind="ConsumerQueue",namespace="shop",reason="InSync",status="False"} 1
warren_resources{condition="Ready",kind="ConsumerQueue",namespace="shop",reason="InSync",status="True"} 1
warren_resources{condition="RecreationRequired",kind="ConsumerQueue",namespace="shop",reason="InSync",status="False"} 1
`, "warren_resources")
}

// Advisories count by code. A suspended ConsumerQueue emits none: its advisories are old.
func TestMetricsOfAdvisories(t *testing.T) {
	t.Parallel()
	advisories := []v1alpha1.Advisory{
		{Code: v1alpha1.AdvisoryShadowedByPolicy, Name: "orders"},
		{Code: v1alpha1.AdvisoryDeadLettersExpire, Name: "dlq"},
		{Code: v1alpha1.AdvisoryShadowedByPolicy, Name: "dlq"},
	}
	orders, suspended := controllertest.ConsumerQueue(t, twoQueues), controllertest.Named(t, "shop", "suspended", twoQueues)
	orders.Status.Advisories, suspended.Status.Advisories = advisories, advisories
	conditions.For(&suspended.Status.Conditions, 1).SetSuspended("spec.suspend is set")
	w := newWorld(t, orders, suspended)
	w.emits(`
# HELP warren_consumerqueue_advisories `+controllertest.HelpOf(t, "warren_consumerqueue_advisories")+`
# TYPE warren_consumerqueue_advisories gauge
warren_consumerqueue_advisories{code="DeadLettersExpire",name="orders",namespace="shop"} 1
warren_consumerqueue_advisories{code="ShadowedByPolicy",name="orders",namespace="shop"} 2
`, "warren_consumerqueue_advisories")
}

// A missing BrokerConnection has one series, however many ConsumerQueues name it.
func TestMetricsOfMissingConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, twoQueues),
		controllertest.Named(t, "shop", "first", `{connectionRef: {name: typo}}`),
		controllertest.Named(t, "shop", "second", `{connectionRef: {name: typo}}`),
		controllertest.Named(t, "shop", "suspended", `{connectionRef: {name: later}, suspend: true}`),
		controllertest.Named(t, "elsewhere", "orders", `{}`))
	w.emits(`
# HELP warren_connection_missing `+controllertest.HelpOf(t, "warren_connection_missing")+`
# TYPE warren_connection_missing gauge
warren_connection_missing{name="default",namespace="elsewhere"} 1
warren_connection_missing{name="typo",namespace="shop"} 2
`, "warren_connection_missing")
}

// Drift is counted when it is found. It is counted again only after it was corrected.
func TestDriftIsCountedOnce(t *testing.T) {
	w := newWorld(t, controllertest.ConsumerQueue(t, twoQueues)) // not parallel: the counters are global
	detected, corrected := metrics.DriftDetected.With("Queue", "Declare"), metrics.DriftCorrected.With("Queue", "Declare")
	detectedBefore, correctedBefore := testutil.ToFloat64(detected), testutil.ToFloat64(corrected)
	counts := func(want float64) {
		t.Helper()
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		topologytest.Equal(t, "detected", want, testutil.ToFloat64(detected)-detectedBefore)
		topologytest.Equal(t, "corrected", want, testutil.ToFloat64(corrected)-correctedBefore)
	}
	counts(0)
	for again := range 2 {
		w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
		counts(float64(again) + 1)
		counts(float64(again) + 1)
	}
}

// The counters of Redrives and Purges end with the ConsumerQueue. A namespace could otherwise make any number of series.
func TestCountersEndWithTheConsumerQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // without the ConsumerQueue
	has := func(queue string) (found []string) {
		families, err := gathered(t).Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, series := range family.Metric {
				for _, label := range series.Label {
					if label.GetValue() == queue {
						found = append(found, family.GetName())
					}
				}
			}
		}
		return found
	}
	metrics.RedriveMessages.Add(2, "gone", "orders-gone", "Redrive", "moved")
	metrics.PurgeMessages.Add(2, "gone", "orders-gone", "deleted")
	metrics.PurgeMessages.Add(2, "gone", "orders-kept", "deleted")
	topologytest.Equal(t, "before", []string{"warren_purge_messages_total", "warren_redrive_messages_total"}, has("orders-gone"))
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "gone", Name: "orders-gone"}}
	if _, err := w.reconciler.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "after", nil, has("orders-gone"))
	topologytest.Equal(t, "of another", []string{"warren_purge_messages_total"}, has("orders-kept"))
}

// gathered is a registry with the event metrics.
func gathered(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := metrics.Register(registry); err != nil {
		t.Fatal(err)
	}
	return registry
}
