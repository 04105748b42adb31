package facts

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An import of definitions succeeds, and leaves a queue with other arguments as it is.
func TestAnImportSkipsAQueueWithOtherArguments(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("orders")
		before := w.Definitions()
		w.Import(json.RawMessage(`{"queues": [{"name": "orders", "durable": true, "auto_delete": false,
			"arguments": {"x-queue-type": "quorum", "x-message-ttl": 60000}}]}`))
		if difference := cmp.Diff(before, w.Definitions()); difference != "" {
			w.t.Errorf("the import changed (-before +after):\n%s", difference)
		}
	})
}
