package brokers

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// The indexes of ConsumerQueues by which the cache is asked.
const (
	// IndexConnection is, of a ConsumerQueue, the effective name of its BrokerConnection.
	IndexConnection = "connection"
	// IndexBrokerObject is, of a ConsumerQueue, each broker object that it has to do with.
	IndexBrokerObject = "brokerObject"
)

// ObjectKeys are the keys of IndexBrokerObject; a queue and an exchange may have the same name.
func ObjectKeys(names vhost.Selection) []string {
	var keys []string
	for _, name := range names.Queues {
		keys = append(keys, "queue/"+name)
	}
	for _, name := range names.Exchanges {
		keys = append(keys, "exchange/"+name)
	}
	if names.FollowFrom != "" {
		keys = append(keys, "route/"+names.FollowFrom)
	}
	return keys
}

// ObjectKeysOf are the keys of IndexBrokerObject of a ConsumerQueue: what it wants and what it owns.
func ObjectKeysOf(cq *v1alpha1.ConsumerQueue) []string {
	return ObjectKeys(topology.SelectionWith(cq, topology.Owned(cq.Status.Topology)))
}

// AddIndexes adds the indexes by which a pool finds ConsumerQueues.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	connection := func(object client.Object) []string {
		return []string{object.(*v1alpha1.ConsumerQueue).ConnectionName()}
	}
	objects := func(object client.Object) []string { return ObjectKeysOf(object.(*v1alpha1.ConsumerQueue)) }
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ConsumerQueue{}, IndexConnection, connection),
		indexer.IndexField(ctx, &v1alpha1.ConsumerQueue{}, IndexBrokerObject, objects),
	)
}
