package topology

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// SelectionOf selects the broker objects of a ConsumerQueue, and the objects that route to or from them, for all versions.
func SelectionOf(cq *v1alpha1.ConsumerQueue) vhost.Selection {
	spec, err := resolve(cq, vhost.Version{})
	if err != nil {
		return vhost.Selection{Queues: []string{cq.QueueName()}}
	}
	selection := vhost.Selection{Queues: []string{spec.main}, FollowFrom: spec.returnExchange}
	for _, source := range spec.bindings {
		selection.Exchanges = append(selection.Exchanges, string(source.Exchange.Name))
	}
	for _, tier := range spec.tiers {
		selection.Queues = append(selection.Queues, tier.queue)
	}
	if spec.retryExchange != nil {
		selection.Exchanges = append(selection.Exchanges, spec.retryExchange.Name)
		selection.BindingsFrom = append(selection.BindingsFrom, spec.retryExchange.Name)
	}
	if spec.dlx != nil {
		selection.Exchanges = append(selection.Exchanges, spec.dlx.Name)
		selection.BindingsFrom = append(selection.BindingsFrom, spec.dlx.Name)
		selection.Queues = append(selection.Queues, spec.dlq)
	}
	return selection
}

// SelectionWith is SelectionOf plus the objects of an inventory.
func SelectionWith(cq *v1alpha1.ConsumerQueue, owned []v1alpha1.TopologyEntry) vhost.Selection {
	all := SelectionOf(cq)
	for _, entry := range owned {
		switch entry.Kind {
		case v1alpha1.KindQueue:
			all.Queues = append(all.Queues, entry.Name)
		case v1alpha1.KindExchange:
			all.Exchanges = append(all.Exchanges, entry.Name)
		case v1alpha1.KindBinding:
			all.Queues, all.Exchanges = append(all.Queues, entry.Destination), append(all.Exchanges, entry.Source)
			all.Bindings = append(all.Bindings, IDOf(entry))
		}
	}
	slices.Sort(all.Queues)
	slices.Sort(all.Exchanges)
	all.Queues, all.Exchanges = slices.Compact(all.Queues), slices.Compact(all.Exchanges)
	return all
}
