package brokerconnection

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// To close a connection takes seconds if the broker does not answer.
func TestOneNamespaceCannotTakeAllWorkers(t *testing.T) {
	t.Parallel()
	queue := options().NewQueue("", nil)
	defer queue.ShutDown()
	for i := range workers {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: strconv.Itoa(i)}})
	}
	taken := 0
	for ; queue.Len() > 0; taken++ {
		queue.Get()
	}
	topologytest.Equal(t, "workers of the namespace", workers/2, taken)
}
