package brokers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// ConnectionKey names the BrokerConnection of a ConsumerQueue.
func ConnectionKey(cq *v1alpha1.ConsumerQueue) client.ObjectKey {
	return client.ObjectKey{Namespace: cq.Namespace, Name: cq.ConnectionName()}
}
