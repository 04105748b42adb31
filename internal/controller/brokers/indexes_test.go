package brokers

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// The number of index values is bounded, however many objects a ConsumerQueue names.
func TestObjectsAreSpreadOverBuckets(t *testing.T) {
	t.Parallel()
	sizes := map[string]int{}
	const objects = 100 * objectBuckets
	for number := range objects {
		sizes[bucketOf(fmt.Sprintf("queue/orders-%d.retry.30s", number))]++
	}
	topologytest.Equal(t, "buckets", objectBuckets, len(sizes))
	for bucket, size := range sizes {
		if size > 2*objects/objectBuckets {
			t.Errorf("bucket %s has %d of %d objects", bucket, size, objects)
		}
	}
}

// A notice does not enqueue a ConsumerQueue that only shares the bucket of an object. It enqueues a ConsumerQueue once, even if
// it names several of the objects.
func TestANoticeEnqueuesOnlyTheConsumerQueuesThatNameAnObject(t *testing.T) {
	t.Parallel()
	neighbour := ""
	for number := 0; neighbour == ""; number++ {
		if name := fmt.Sprintf("q-%d", number); bucketOf("queue/"+name) == bucketOf("queue/orders") {
			neighbour = name
		}
	}
	pool := NewPool(controllertest.Client(t, []controllertest.AddIndexes{AddIndexes},
		controllertest.Named(t, "shop", "orders", `{}`), controllertest.Named(t, "shop", neighbour, `{}`),
	), logr.Discard(), ConnectWithin(management.NewLimits(0), 0, nil))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pool.handleNotice(types.NamespacedName{Namespace: "shop", Name: "default"},
			snapshot.Notice{Queues: []string{"orders", "orders.dlq"}, Exchanges: []string{"orders.dlx"}})
	}()
	var enqueued []client.ObjectKey
	for {
		select {
		case e := <-pool.ConsumerQueueEvents:
			enqueued = append(enqueued, e.Object.Resource)
			continue
		case <-ended:
		}
		break
	}
	topologytest.Equal(t, "enqueued", []client.ObjectKey{controllertest.Orders}, enqueued)
}
