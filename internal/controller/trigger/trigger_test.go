package trigger

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestSpecOrRequest(t *testing.T) {
	t.Parallel()
	object := func(generation int64, requested string) client.Object {
		cq := &v1alpha1.ConsumerQueue{}
		cq.Generation = generation
		cq.Annotations = map[string]string{"other": "annotation", v1alpha1.RequestedAtAnnotation: requested}
		return cq
	}
	old := object(1, "noon")
	for name, test := range map[string]struct {
		now  client.Object
		want bool
	}{
		"no change":        {object(1, "noon"), false},
		"a new generation": {object(2, "noon"), true},
		"a new request":    {object(1, "midnight"), true},
	} {
		topologytest.Equal(t, name, test.want, SpecOrRequest().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: test.now}))
	}
	topologytest.Equal(t, "a new resource", true, SpecOrRequest().Create(event.CreateEvent{Object: old}))
}

func TestStatusLost(t *testing.T) {
	t.Parallel()
	ready := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason}}
	}
	queue := func(conditions []metav1.Condition, objects int) client.Object {
		return &v1alpha1.ConsumerQueue{Status: v1alpha1.ConsumerQueueStatus{
			Conditions: conditions, Topology: make([]v1alpha1.TopologyEntry, objects),
		}}
	}
	connection := func(conditions []metav1.Condition) client.Object {
		return &v1alpha1.BrokerConnection{Status: v1alpha1.BrokerConnectionStatus{Conditions: conditions}}
	}
	for name, test := range map[string]struct {
		old, now client.Object
		want     bool
	}{
		"a ConsumerQueue's status is replaced by {}":    {queue(ready("InSync"), 3), queue(nil, 0), true},
		"a ConsumerQueue's status is removed":           {queue(ready("InSync"), 3), queue(ready("Pending"), 0), true},
		"only the inventory is removed":                 {queue(ready("InSync"), 3), queue(ready("InSync"), 0), true},
		"a BrokerConnection's status is replaced by {}": {connection(ready("Connected")), connection(nil), true},
		"a BrokerConnection's status is removed":        {connection(ready("Connected")), connection(ready("Pending")), true},
		"the status is written for the first time":      {queue(ready("Pending"), 0), queue(ready("InSync"), 3), false},
		"Warren writes a ConsumerQueue's status":        {queue(ready("InSync"), 3), queue(ready("Correcting"), 2), false},
		"Warren writes a BrokerConnection's status":     {connection(ready("Connected")), connection(ready("BrokerUnreachable")), false},
		"the status was lost before":                    {queue(nil, 0), queue(nil, 0), false},
		"a resource that was never reconciled":          {queue(ready("Pending"), 0), queue(nil, 0), false},
		"a resource that declares nothing (yet)":        {queue(ready("Conflict"), 0), queue(ready("Conflict"), 0), false},
	} {
		topologytest.Equal(t, name, test.want, StatusLost().Update(event.UpdateEvent{ObjectOld: test.old, ObjectNew: test.now}))
	}
	lost := StatusLost()
	topologytest.Equal(t, "a new resource", false, lost.Create(event.CreateEvent{Object: queue(nil, 0)}))
	topologytest.Equal(t, "a deleted resource", false, lost.Delete(event.DeleteEvent{Object: queue(nil, 0)}))
	topologytest.Equal(t, "news of the broker", false, lost.Generic(event.GenericEvent{Object: queue(nil, 0)}))
}

// The annotation requested-at triggers a reconciliation, and lastHandledReconcileAt echoes it. The status holds 1024
// characters, so a longer value could never be recognized as handled.
func TestRequestedAt(t *testing.T) {
	t.Parallel()
	cq := &v1alpha1.ConsumerQueue{}
	topologytest.Equal(t, "without a request", "", RequestedAt(cq))
	cq.Annotations = map[string]string{v1alpha1.RequestedAtAnnotation: "noon"}
	topologytest.Equal(t, "with a request", "noon", RequestedAt(cq))
	cq.Annotations[v1alpha1.RequestedAtAnnotation] = strings.Repeat("x", 2000)
	topologytest.Equal(t, "length of a long request", 1024, len(RequestedAt(cq)))
}

func TestJittered(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if got := Jittered(time.Second); got < time.Second || got > 1100*time.Millisecond {
			t.Fatalf("%v", got)
		}
	}
	topologytest.Equal(t, "the shortest", time.Duration(1), Jittered(1))
}
