package brokers

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// The indexes of ConsumerQueues in the cache.
const (
	// IndexConnection indexes by the effective name of the BrokerConnection.
	IndexConnection = "connection"
	// IndexBrokerObject indexes by the buckets of the broker objects that the ConsumerQueue wants or owns.
	IndexBrokerObject = "brokerObject"
)

// QueuesOf returns the ConsumerQueues of a BrokerConnection from the cache. They must not be changed.
func QueuesOf(ctx context.Context, cache client.Reader, connection client.ObjectKey) ([]v1alpha1.ConsumerQueue, error) {
	list := &v1alpha1.ConsumerQueueList{}
	err := cache.List(ctx, list, client.InNamespace(connection.Namespace),
		client.MatchingFields{IndexConnection: connection.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list ConsumerQueues: %w", err)
	}
	return list.Items, nil
}

// objectBuckets is the number of buckets for the keys of broker objects. Most objects belong to one ConsumerQueue, and an index entry
// for each would take 3 KiB. Buckets take a twentieth of that. A lookup also finds other ConsumerQueues in the bucket, which
// enqueueAffected leaves out.
const objectBuckets = 1024

func bucketOf(key string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(key)) // it never fails
	return strconv.Itoa(int(sum.Sum32() % objectBuckets))
}

// bucketsOf returns the buckets of keys, each once.
func bucketsOf(keys []string) []string {
	buckets := make([]string, len(keys))
	for i, key := range keys {
		buckets[i] = bucketOf(key)
	}
	slices.Sort(buckets)
	return slices.Compact(buckets)
}

// objectKeys returns the keys of broker objects. A queue and an exchange may have the same name.
func objectKeys(names vhost.Selection) []string {
	var keys []string
	for _, name := range names.Queues {
		keys = append(keys, "queue/"+name)
	}
	for _, name := range names.Exchanges {
		keys = append(keys, "exchange/"+name)
	}
	for _, name := range names.BindingsFrom {
		keys = append(keys, "route/"+name)
	}
	if names.FollowFrom != "" {
		keys = append(keys, "route/"+names.FollowFrom)
	}
	return keys
}

// ObjectKeysOf returns the keys of the broker objects that a ConsumerQueue wants or owns.
func ObjectKeysOf(cq *v1alpha1.ConsumerQueue) []string {
	return objectKeys(topology.SelectionWith(cq, topology.OwnedView(cq.Status.Topology)))
}

// AddIndexes adds the indexes that a Pool needs.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	connection := func(object client.Object) []string {
		return []string{object.(*v1alpha1.ConsumerQueue).ConnectionName()}
	}
	objects := func(object client.Object) []string { return bucketsOf(ObjectKeysOf(object.(*v1alpha1.ConsumerQueue))) }
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ConsumerQueue{}, IndexConnection, connection),
		indexer.IndexField(ctx, &v1alpha1.ConsumerQueue{}, IndexBrokerObject, objects),
	)
}
