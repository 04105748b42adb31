package controller

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// decoded returns a ConsumerQueue as decoded from the API server: no two strings share memory.
func decoded(t testing.TB, name string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := controllertest.Synced(t, name, `{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order]}], retry: {delayTiers: [{delay: 30s}]}}`, "")
	for i := range cq.Status.Topology {
		cq.Status.Topology[i].State = v1alpha1.StateInSync
	}
	text, err := json.Marshal(cq)
	if err != nil {
		t.Fatal(err)
	}
	read := &v1alpha1.ConsumerQueue{}
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	return read
}

// Compacting changes no value.
func TestCompact(t *testing.T) {
	t.Parallel()
	cq := decoded(t, "orders")
	want := cq.DeepCopy()
	compact(cq)
	topologytest.Equal(t, "ConsumerQueue", want, cq)
	topologytest.Equal(t, "entries without room for more", len(cq.Status.Topology), cap(cq.Status.Topology))

	empty := &v1alpha1.ConsumerQueue{}
	compact(empty)
	topologytest.Equal(t, "an empty ConsumerQueue", &v1alpha1.ConsumerQueue{}, empty)
}

// BenchmarkCachedConsumerQueue measures the memory of a cached ConsumerQueue with six objects.
func BenchmarkCachedConsumerQueue(b *testing.B) {
	const count = 1000
	cached := make([]*v1alpha1.ConsumerQueue, count)
	for b.Loop() {
		clear(cached)
		before := controllertest.HeapInUse()
		for i := range cached {
			cached[i] = decoded(b, fmt.Sprintf("orders-%04d", i))
		}
		plain := controllertest.HeapInUse()
		for i := range cached {
			compact(cached[i])
		}
		b.ReportMetric(float64(plain-before)/count, "plain-B/ConsumerQueue")
		b.ReportMetric(float64(controllertest.HeapInUse()-before)/count, "B/ConsumerQueue")
	}
	runtime.KeepAlive(cached)
}
