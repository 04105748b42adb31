package controller

import (
	"github.com/warren-mq/warren/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// connectionKey names the BrokerConnection of a ConsumerQueue.
func connectionKey(cq *v1alpha1.ConsumerQueue) client.ObjectKey {
	return client.ObjectKey{Namespace: cq.Namespace, Name: cq.ConnectionName()}
}
