package topology

import (
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Consents maps the objects that a ConsumerQueue shares to the namespaces that may use them.
type Consents map[vhost.ID][]v1alpha1.NamespaceName

// ConsentsOf returns the consents in a spec; nil for none.
func ConsentsOf(cq *v1alpha1.ConsumerQueue) Consents {
	spec, err := resolve(cq, vhost.Version{}) // names are the same on all versions
	if err != nil {
		return nil
	}
	consents := Consents{}
	if given := cq.Spec.DeadLetter; given != nil && spec.dlx != nil {
		if given.Exchange != nil {
			consents.add(spec.dlx.ID(), given.Exchange.SharedWith)
		}
		if given.Queue != nil {
			consents.add(vhost.QueueID(spec.dlq), given.Queue.SharedWith)
		}
	}
	if spec.retryExchange != nil {
		consents.add(spec.retryExchange.ID(), cq.Spec.Retry.Exchange.SharedWith)
	}
	if len(consents) == 0 {
		return nil
	}
	return consents
}

func (c Consents) add(id vhost.ID, namespaces []v1alpha1.NamespaceName) {
	if len(namespaces) > 0 {
		c[id] = namespaces
	}
}

// consentField returns the field of a spec that shares an exchange or queue of this role with other namespaces; empty if there is
// none.
func consentField(kind vhost.Kind, role v1alpha1.Role) string {
	switch {
	case kind == vhost.KindQueue && role == v1alpha1.RoleDeadLetter:
		return "spec.deadLetter.queue.sharedWith"
	case kind == vhost.KindExchange && role == v1alpha1.RoleDeadLetter:
		return "spec.deadLetter.exchange.sharedWith"
	case kind == vhost.KindExchange && role == v1alpha1.RoleRetry:
		return "spec.retry.exchange.sharedWith"
	}
	return ""
}

// Shareable returns the exchanges and queues that other namespaces may use only with consent. The values are the names of the fields that
// give consent.
func (t Topology) Shareable() map[vhost.ID]string {
	fields := map[vhost.ID]string{}
	for _, exchange := range t.Exchanges {
		if field := consentField(vhost.KindExchange, exchange.Role); field != "" && exchange.Declare {
			fields[exchange.ID()] = field
		}
	}
	for _, queue := range t.Queues {
		if field := consentField(vhost.KindQueue, queue.Role); field != "" {
			fields[queue.ID()] = field
		}
	}
	return fields
}
