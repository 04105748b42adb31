package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// rendered counts how often a value is encoded.
type rendered struct{ times *int }

func (r rendered) MarshalJSON() ([]byte, error) {
	*r.times++
	return []byte(`"orders"`), nil
}

// Values are encoded only if a line is written.
func TestLoggerRendersLate(t *testing.T) {
	t.Parallel()
	output, times := &bytes.Buffer{}, 0
	logger := newLogger(&ctrlzap.Options{DestWriter: output})
	about := logger.WithValues("queue", rendered{&times}).WithName("consumerqueue").WithValues("namespace", "shop").WithValues("attempt", 2)
	about.V(1).Info("not at this level")
	if times != 0 || output.Len() != 0 {
		t.Errorf("rendered %d times, and said %q", times, output)
	}
	about.Info("declared", "bindings", 3)
	got := map[string]any{}
	if err := json.Unmarshal(output.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "ts")
	want := map[string]any{
		"level": "info", "logger": "consumerqueue", "msg": "declared", "queue": "orders", "namespace": "shop", "attempt": 2.0, "bindings": 3.0,
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("said (-want +got):\n%s", difference)
	}
	logger.Info("again")
	if times != 1 {
		t.Errorf("rendered %d times", times)
	}
}

// A logger that writes nothing uses almost no memory.
func BenchmarkLoggerOfAReconciliation(b *testing.B) {
	logger := newLogger(&ctrlzap.Options{DestWriter: &bytes.Buffer{}})
	b.ReportAllocs()
	for b.Loop() {
		logger.WithValues("ConsumerQueue", "shop/orders").WithValues("namespace", "shop", "name", "orders").WithValues("reconcileID", "1").
			V(1).Info("nothing")
	}
}
