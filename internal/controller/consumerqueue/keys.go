package consumerqueue

import (
	"context"
	"maps"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IndexClaim is the index of ConsumerQueues by what they can share or dispute.
const IndexClaim = "stake"

// ownershipKeys are what a ConsumerQueue can share with others or dispute with them. Thousands may have the same exchange as the
// source of their messages, and agree on its type: they need not know of each other.
type ownershipKeys struct {
	queues []string
	// exchanges are those for retries and dead letters.
	exchanges []string
	// sources are the exchanges of bindings that have a type.
	sources map[string]v1alpha1.ExchangeType
}

// ownershipKeysOf are those of what a ConsumerQueue wants and of what it owns.
func ownershipKeysOf(cq *v1alpha1.ConsumerQueue) ownershipKeys {
	names := topology.SelectionOf(cq)
	found := ownershipKeys{queues: names.Queues, exchanges: names.Exchanges, sources: map[string]v1alpha1.ExchangeType{}}
	for _, binding := range cq.Spec.Bindings {
		name := string(binding.Exchange.Name)
		found.exchanges = slices.DeleteFunc(found.exchanges, func(other string) bool { return other == name })
		if binding.Exchange.Type != "" {
			found.sources[name] = binding.Exchange.Type
		}
	}
	for _, entry := range topology.Owned(cq.Status.Topology) {
		switch {
		case entry.Kind == v1alpha1.KindQueue:
			found.queues = append(found.queues, entry.Name)
		case entry.Kind == v1alpha1.KindExchange && entry.Role != v1alpha1.RoleSource:
			found.exchanges = append(found.exchanges, entry.Name)
		}
	}
	for _, list := range []*[]string{&found.queues, &found.exchanges} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return found
}

// indexKeys are those of indexClaim under which a ConsumerQueue is found.
func (s ownershipKeys) indexKeys() []string {
	keys := brokers.ObjectKeys(vhost.Selection{Queues: s.queues, Exchanges: s.exchanges})
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		keys = append(keys, sourceKey(name, s.sources[name]))
	}
	return keys
}

// conflictKeys are the keys of indexClaim under which those are found that have the same at stake.
func (s ownershipKeys) conflictKeys() []string {
	keys := brokers.ObjectKeys(vhost.Selection{Queues: s.queues, Exchanges: s.exchanges})
	for _, name := range s.exchanges {
		keys = append(keys, sourceKeys(name, "")...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		keys = append(keys, brokers.ObjectKeys(vhost.Selection{Exchanges: []string{name}})...)
		keys = append(keys, sourceKeys(name, s.sources[name])...)
	}
	return keys
}

func sourceKey(name string, kind v1alpha1.ExchangeType) string {
	return "source/" + string(kind) + "/" + name
}

// sourceKeys are those of an exchange with another type.
func sourceKeys(name string, but v1alpha1.ExchangeType) []string {
	var keys []string
	for _, kind := range []v1alpha1.ExchangeType{
		v1alpha1.ExchangeDirect, v1alpha1.ExchangeFanout, v1alpha1.ExchangeTopic, v1alpha1.ExchangeHeaders,
	} {
		if kind != but {
			keys = append(keys, sourceKey(name, kind))
		}
	}
	return keys
}

// AddIndexes adds the index by which ConsumerQueues find each other.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.ConsumerQueue{}, IndexClaim, func(object client.Object) []string {
		return ownershipKeysOf(object.(*v1alpha1.ConsumerQueue)).indexKeys()
	})
}
