package brokerconnection

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/metrics"
)

const kind = "BrokerConnection"

// countReconciliation counts a reconciliation by its error, or by the status that it wrote.
func countReconciliation(status v1alpha1.BrokerConnectionStatus, err error) {
	switch {
	case statuswriter.IsStale(err):
		metrics.Reconciliations.Inc(kind, "waiting", "StaleCache")
	case err != nil:
		metrics.Reconciliations.Inc(kind, "failed", "Error")
	default:
		metrics.Reconciliations.Inc(kind, "done", conditions.Ready(status.Conditions).Reason)
	}
}

// EmitMetrics emits the metrics of all BrokerConnections.
func (r *Reconciler) EmitMetrics(emit metrics.Emit) {
	list := &v1alpha1.BrokerConnectionList{}
	if err := r.client.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil { // the cache has stopped
		return
	}
	counts := conditions.NewCounts(kind)
	for i := range list.Items {
		counts.Add(emit, &list.Items[i], list.Items[i].Status.Conditions)
	}
	counts.Emit(emit)
}
