package observe

import (
	"slices"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestConsumersInARow(t *testing.T) {
	t.Parallel()
	known, now := consumers{}, time.Unix(1_000_000, 0)
	topologytest.Equal(t, "before the first count", Consumers{}, known.get("orders"))
	for i, step := range []struct {
		others bool
		want   Consumers
	}{
		{true, Consumers{Others: true, Counts: 1}},
		{true, Consumers{Others: true, Counts: 2}},
		{false, Consumers{Counts: 1}},
		{false, Consumers{Counts: 2}},
		{true, Consumers{Others: true, Counts: 1}},
	} {
		topologytest.Equal(t, "asked", []string{"orders"}, known.begin(now))
		known.note("orders", step.others)
		if got := known.get("orders"); got != step.want {
			t.Errorf("count %d: %+v, want %+v", i, got, step.want)
		}
	}

	known.get("bills")
	topologytest.Equal(t, "all that are wanted", []string{"bills", "orders"}, slices.Sorted(slices.Values(known.begin(now))))
	topologytest.Equal(t, "none is wanted", 0, len(known.begin(now)))
	topologytest.Equal(t, "entries that no caller requests are forgotten", 0, len(known.of))
	known.note("orders", true)
	topologytest.Equal(t, "nor learnt", Consumers{}, known.get("orders"))

	known.note("orders", true)
	known.refuse("orders", now.Add(time.Hour))
	topologytest.Equal(t, "refused", Consumers{}, known.get("orders"))
	topologytest.Equal(t, "not again so soon", 0, len(known.begin(now.Add(time.Hour-1))))
	known.get("orders")
	topologytest.Equal(t, "later", []string{"orders"}, known.begin(now.Add(time.Hour)))
}

func TestQueueUses(t *testing.T) {
	t.Parallel()
	at := clusterQueue{vhost.Cluster{ID: "abc", Name: "rabbit", Endpoint: "one:5672"}, "10.0.0.1:5672", "/", "orders.dlq"}
	elsewhere := map[string]clusterQueue{
		"another queue":   {at.cluster, at.place, "/", "bills.dlq"},
		"another vhost":   {at.cluster, at.place, "other", "orders.dlq"},
		"another cluster": {vhost.Cluster{ID: "def", Name: "hare", Endpoint: "two:5672"}, at.place, "/", "orders.dlq"},
	}
	through := clusterQueue{vhost.Cluster{Name: "rabbit", Endpoint: "two:5672"}, "10.0.0.2:5672", "/", "orders.dlq"} // may be the same cluster
	uses, now := queueUses{}, time.Now()
	topologytest.Equal(t, "before", false, uses.since(now, at))
	first, second := uses.begin(at), uses.begin(through)
	for name, other := range elsewhere {
		topologytest.Equal(t, name, false, uses.since(now, other))
	}
	first()
	topologytest.Equal(t, "one goes on", true, uses.since(now.Add(time.Hour), at))
	second()
	topologytest.Equal(t, "both have ended since", true, uses.since(now, at))
	topologytest.Equal(t, "the broker may not have noticed", true, uses.since(now.Add(consumerSettle/2), through))
	topologytest.Equal(t, "later", false, uses.since(now.Add(time.Hour), at))

	uses.of[at] = queueUse{ended: now.Add(-time.Hour)}
	uses.begin(elsewhere["another queue"])
	_, known := uses.of[at]
	topologytest.Equal(t, "what ended long ago is known", false, known)

	forged := clusterQueue{at.cluster, "10.0.0.1:5672 tls.serverName", "/", "orders.dlq"}
	uses.begin(forged)
	topologytest.Equal(t, "runs there", true, uses.includes(forged))
	topologytest.Equal(t, "runs at another broker that another tenant forges", false, uses.includes(at))
}
