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
	const (
		continues = "Ready=Unknown Moving Reconciling=True Moving "
		ends      = "Ready=False ConsumerQueueGone Stalled=True ConsumerQueueGone Failed=True ConsumerQueueGone "
	)
	for name, test := range map[string]struct {
		created time.Duration // how long after the start of the Redrive
		want    string
	}{
		"after the Redrive began":  {time.Second, ends},
		"when the Redrive began":   {0, continues},
		"before the Redrive began": {-time.Minute, continues},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			w.begin()
			cq := w.consumerQueue()
			topologytest.Equal(t, "error", nil, w.API.Delete(t.Context(), cq))
			cq.ResourceVersion, cq.CreationTimestamp = "", metav1.NewTime(w.get().Status.StartTime.Add(test.created))
			topologytest.Equal(t, "error", nil, w.API.Create(t.Context(), cq))
			w.HoldMoves() // the next manager
			topologytest.Equal(t, "conditions", test.want, readyOf(w.reconcile()))
		})
	}
}

// The API server may have a faster clock than the manager. A Redrive that begins soon after the creation of its ConsumerQueue continues.
func TestARedriveDoesNotStartBeforeItsConsumerQueueWasCreated(t *testing.T) {
	t.Parallel()
	cq := controllertest.InSync(t, `{}`)
	cq.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute).Truncate(time.Second))
	w := newRedriveWorld(t, cq, all)
	w.begin()
	topologytest.Equal(t, "startTime", cq.CreationTimestamp.UTC(), w.get().Status.StartTime.UTC())
	w.HoldMoves() // the next manager
	topologytest.Equal(t, "conditions", "Ready=Unknown Moving Reconciling=True Moving ", readyOf(w.reconcile()))
}
