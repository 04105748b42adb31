package deadletterjob

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A job counted the messages of the ConsumerQueue with which it began. Another ConsumerQueue of that name has other dead letters.
func TestAConsumerQueueThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	cq := controllertest.InSync(t, `{}`)
	cq.UID = "first"
	w := newRedriveWorld(t, cq, all)
	w.begin()
	cq = w.consumerQueue()
	topologytest.Equal(t, "error", nil, w.API.Delete(t.Context(), cq))
	// Neither clock matters.
	cq.ResourceVersion, cq.UID, cq.CreationTimestamp = "", "second", metav1.NewTime(w.get().Status.StartTime.Add(-time.Minute))
	topologytest.Equal(t, "error", nil, w.API.Create(t.Context(), cq))
	w.HoldMoves() // the next manager
	topologytest.Equal(t, "conditions",
		"Ready=False ConsumerQueueGone Stalled=True ConsumerQueueGone Failed=True ConsumerQueueGone ", readyOf(w.reconcile()))
}

// The API server may have a faster clock than the manager. A Redrive that begins soon after the creation of its ConsumerQueue continues,
// and its start is comparable to the start of other jobs.
func TestARedriveThatStartsBeforeItsConsumerQueueWasCreated(t *testing.T) {
	t.Parallel()
	cq := controllertest.InSync(t, `{}`)
	cq.UID = "first"
	cq.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute).Truncate(time.Second))
	w := newRedriveWorld(t, cq, all)
	w.begin()
	topologytest.Equal(t, "startTime is before the creation", true, w.get().Status.StartTime.Before(&cq.CreationTimestamp))
	w.HoldMoves() // the next manager
	topologytest.Equal(t, "conditions", "Ready=Unknown Moving Reconciling=True Moving ", readyOf(w.reconcile()))
}
