package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const managerMetrics = `# TYPE warren_broker_request_duration_seconds histogram
warren_broker_request_duration_seconds_bucket{operation="GET /definitions/{vhost}",protocol="management",result="success",le="1"} 2
warren_broker_request_duration_seconds_bucket{operation="GET /definitions/{vhost}",protocol="management",result="success",le="+Inf"} 3
warren_broker_request_duration_seconds_sum{operation="GET /definitions/{vhost}",protocol="management",result="success"} 1.5
warren_broker_request_duration_seconds_count{operation="GET /definitions/{vhost}",protocol="management",result="success"} 3
warren_broker_request_duration_seconds_bucket{operation="GET /definitions/{vhost}",protocol="management",result="not_modified",le="+Inf"} 40
warren_broker_request_duration_seconds_sum{operation="GET /definitions/{vhost}",protocol="management",result="not_modified"} 0.1
warren_broker_request_duration_seconds_count{operation="GET /definitions/{vhost}",protocol="management",result="not_modified"} 40
warren_broker_request_duration_seconds_bucket{operation="queue.declare",protocol="amqp",result="success",le="+Inf"} 7
warren_broker_request_duration_seconds_sum{operation="queue.declare",protocol="amqp",result="success"} 0.1
warren_broker_request_duration_seconds_count{operation="queue.declare",protocol="amqp",result="success"} 7
# TYPE warren_reconciliations_total counter
warren_reconciliations_total{kind="BrokerConnection",reason="Connected",result="done"} 2
warren_reconciliations_total{kind="ConsumerQueue",reason="Correcting",result="done"} 3
warren_reconciliations_total{kind="ConsumerQueue",reason="InSync",result="done"} 5
warren_reconciliations_total{kind="ConsumerQueue",reason="RefreshPending",result="waiting"} 8
`

func TestManagerMetrics(t *testing.T) {
	t.Parallel()
	samples, err := parseMetrics([]byte(managerMetrics), requestsMetric, reconciledMetric, "no_such_metric")
	if err != nil {
		t.Fatal(err)
	}
	for protocol, want := range map[string]counts{
		"management": {"GET /definitions/{vhost}": 3, "GET /definitions/{vhost} (not_modified)": 40},
		"amqp":       {"queue.declare": 7},
	} {
		if difference := cmp.Diff(want, brokerRequests(samples, protocol)); difference != "" {
			t.Errorf("%s (- wanted, + got):\n%s", protocol, difference)
		}
	}
	if all, inSync := reconciliations(samples); all != 16 || inSync != 5 {
		t.Errorf("%v reconciliations, %v found in sync, not 16 and 5", all, inSync)
	}
}

func TestAPIWrites(t *testing.T) {
	t.Parallel()
	const text = `# TYPE apiserver_request_total counter
apiserver_request_total{code="201",group="messaging.warren.dev",resource="consumerqueues",subresource="",verb="POST"} 20
apiserver_request_total{code="200",group="messaging.warren.dev",resource="consumerqueues",subresource="status",verb="APPLY"} 40
apiserver_request_total{code="409",group="messaging.warren.dev",resource="consumerqueues",subresource="status",verb="APPLY"} 2
apiserver_request_total{code="200",group="messaging.warren.dev",resource="consumerqueues",subresource="",verb="LIST"} 9
apiserver_request_total{code="201",group="events.k8s.io",resource="events",subresource="",verb="POST"} 21
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",subresource="",verb="PUT"} 5
`
	samples, err := parseMetrics([]byte(text), "apiserver_request_total")
	if err != nil {
		t.Fatal(err)
	}
	want := counts{"POST consumerqueues": 20, "APPLY consumerqueues/status": 42, "POST events": 21}
	writes := apiWrites(samples)
	if difference := cmp.Diff(want, writes); difference != "" {
		t.Errorf("(- wanted, + got):\n%s", difference)
	}
	others, events := writes.withoutEvents()
	if others.total() != 62 || events.total() != 21 {
		t.Errorf("%v writes and %v Events, not 62 and 21", others.total(), events.total())
	}
}

func TestParseMetricsRefusesInvalidText(t *testing.T) {
	t.Parallel()
	if _, err := parseMetrics([]byte("<html>"), requestsMetric); err == nil {
		t.Error("no error")
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	before, after := counts{"a": 1, "b": 2, "own": 0}, counts{"a": 1, "b": 5, "c": 4, "d": 4}
	added := after.since(before)
	if difference := cmp.Diff(counts{"b": 3, "c": 4, "d": 4}, added); difference != "" {
		t.Errorf("since (- wanted, + got):\n%s", difference)
	}
	if got, want := added.String(), "c 4, d 4, b 3"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	// The sum exceeds the total: the output must show that something was counted twice or not at all.
	if difference := cmp.Diff(counts{"a": -1}, counts{"a": 2}.since(counts{"a": 3})); difference != "" {
		t.Errorf("since (- wanted, + got):\n%s", difference)
	}
}
