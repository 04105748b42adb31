package brokers

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// The indexes of ConsumerQueues by which the cache is asked.
const (
	// IndexConnection is, of a ConsumerQueue, the effective name of its BrokerConnection.
	IndexConnection = "connection"
	// IndexBrokerObject is, of a ConsumerQueue, the bucket of each broker object that it has to do with.
	IndexBrokerObject = "brokerObject"
)

// objectBuckets is how many buckets the keys of broker objects are spread over. Under keys of their own, nearly all objects are of one
// ConsumerQueue only, and the index takes 3 KiB for each. In buckets it takes a twentieth, and a few others are found with
// the ConsumerQueue that is asked for; see enqueueAffected.
const objectBuckets = 1024

// bucketOf is the bucket of a key.
func bucketOf(key string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(key)) // it never fails
	return strconv.Itoa(int(sum.Sum32() % objectBuckets))
}

// bucketsOf are the buckets of keys, each of them once.
func bucketsOf(keys []string) []string {
	buckets := make([]string, len(keys))
	for i, key := range keys {
		buckets[i] = bucketOf(key)
	}
	slices.Sort(buckets)
	return slices.Compact(buckets)
}

// ObjectKeys are the keys of broker objects; a queue and an exchange may have the same name.
func ObjectKeys(names vhost.Selection) []string {
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

// ObjectKeysOf are the keys of the broker objects of a ConsumerQueue: what it wants and what it owns.
func ObjectKeysOf(cq *v1alpha1.ConsumerQueue) []string {
	return ObjectKeys(topology.SelectionWith(cq, topology.OwnedView(cq.Status.Topology)))
}

// AddIndexes adds the indexes by which a pool finds ConsumerQueues.
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
