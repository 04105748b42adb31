package deadletterjob

import (
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

const withDeliveryLimit = `{deadLetter: {queue: {deliveryLimit: 5}}}`

// The broker may delete a message that returns to a queue with a delivery limit.
func TestARedriveThatWouldReturnMessagesToAQueueWithADeliveryLimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   string
		shared bool
	}{
		"a dry run":           {spec: `{consumerQueueRef: {name: orders}, dryRun: true}`},
		"a selector":          {spec: `{consumerQueueRef: {name: orders}, selector: {reasons: [Rejected]}}`},
		"maxMessages":         {spec: `{consumerQueueRef: {name: orders}, maxMessages: 3}`},
		"the queue is shared": {spec: all, shared: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, withDeliveryLimit), test.spec)
			w.shared = test.shared
			w.Broker.SetMessages("orders.dlq", 9)
			topologytest.Equal(t, "conditions", "Ready=False DeliveryLimited Stalled=True DeliveryLimited ", readyOf(w.reconcile()))
			topologytest.Equal(t, "moves", 0, len(w.Reconciler.Tasks.begun(Redrive)))
		})
	}
}

// Each attempt returns a message to the queue, where the broker may delete it. So no event and no restart begins another attempt.
func TestARedriveOfAQueueWithADeliveryLimitIsNotRetried(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, withDeliveryLimit), all)
	topologytest.Equal(t, "the move knows the limit", true, w.begin().DeliveryLimited)
	w.Mover.End <- brokererr.ErrAccessRefused
	topologytest.Equal(t, "enqueued", again, <-w.Enqueued)
	result, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again})
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "conditions", "Ready=False PermissionDenied Stalled=True PermissionDenied Failed=True PermissionDenied ", readyOf(w.get()))
	topologytest.Equal(t, "requeued after", 0, result.RequeueAfter)
	w.HoldMoves() // the next manager
	w.reconcile()
	topologytest.Equal(t, "moves of the next manager", 0, len(w.Reconciler.Tasks.begun(Redrive)))
}
