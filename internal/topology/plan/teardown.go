package plan

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Teardown is the next step in removing the topology of a deleted ConsumerQueue: the first of its lists that is not empty. Compute it again
// after each step, because each removal unblocks other objects.
type Teardown struct {
	// WorkQueues are the delay tiers followed by the main queue. Warren deletes all of them or none.
	WorkQueues []string
	// FeedingQueue is a foreign queue that dead-letters into WorkQueues; empty if there is none.
	FeedingQueue string
	// DeadLetterQueues are dead-letter queues to which no queue dead-letters. Warren deletes them one by one.
	DeadLetterQueues []string
	// Bindings lead to queues that Warren retains for other ConsumerQueues. No other ConsumerQueue specifies these bindings.
	Bindings []topology.Binding
	// Exchanges are exchanges that are no longer in use.
	Exchanges []string
	// Retained are the objects that remain when all lists are empty. It leaves out source exchanges, which Warren never deletes.
	Retained []Retained
}

// Retained is an object of a deleted ConsumerQueue that stays at the broker.
type Retained struct {
	Entry  v1alpha1.TopologyEntry
	Reason string
}

// TeardownOf computes the next step for the objects that a ConsumerQueue owned. sharedWith returns the name of the ConsumerQueue that still
// needs an object, or the empty string. kept maps queues that could not be deleted to the reason.
func TeardownOf(
	owned []v1alpha1.TopologyEntry, observed vhost.Observed, sharedWith func(v1alpha1.TopologyEntry) string, kept map[string]string,
) Teardown {
	t := Teardown{}
	var queues, bindings, exchanges []v1alpha1.TopologyEntry
	for _, entry := range owned {
		other := sharedWith(entry)
		switch {
		case !observed.Has(topology.IDOf(entry)), entry.Kind == v1alpha1.KindExchange && entry.Role == v1alpha1.RoleSource:
		case other != "" && entry.Kind != v1alpha1.KindBinding:
			t.Retained = append(t.Retained, Retained{entry, "shared with " + other})
		case other != "":
		case entry.Kind == v1alpha1.KindQueue:
			queues = append(queues, entry)
		case entry.Kind == v1alpha1.KindBinding:
			bindings = append(bindings, entry)
		default:
			exchanges = append(exchanges, entry)
		}
	}
	search := observed.SearchDeadLetters()
	t.addWorkQueues(queues, search)
	t.addDeadLetterQueues(queues, search, kept)
	t.addBindings(bindings, queues, search)
	t.addExchanges(exchanges, observed)
	return t
}

func (t *Teardown) addWorkQueues(queues []v1alpha1.TopologyEntry, search *vhost.DeadLetterSearch) {
	for _, role := range []v1alpha1.Role{v1alpha1.RoleDelayTier, v1alpha1.RoleMain} {
		for _, entry := range queues {
			if entry.Role == role {
				t.WorkQueues = append(t.WorkQueues, entry.Name)
			}
		}
	}
	for _, queue := range t.WorkQueues {
		if from := search.Into(queue, t.WorkQueues); from != "" {
			t.FeedingQueue = from
		}
	}
}

func (t *Teardown) addDeadLetterQueues(queues []v1alpha1.TopologyEntry, search *vhost.DeadLetterSearch, kept map[string]string) {
	for _, entry := range queues {
		if entry.Role != v1alpha1.RoleDeadLetter {
			continue
		}
		from := search.Into(entry.Name, nil)
		switch {
		case kept[entry.Name] != "":
			t.Retained = append(t.Retained, Retained{entry, kept[entry.Name]})
		case from != "":
			t.Retained = append(t.Retained, Retained{entry, fmt.Sprintf("queue %q dead-letters to it", from)})
		default:
			t.DeadLetterQueues = append(t.DeadLetterQueues, entry.Name)
		}
	}
}

// addBindings leaves out bindings of queues that the ConsumerQueue owns, because they are deleted or retained with the queue.
func (t *Teardown) addBindings(bindings, queues []v1alpha1.TopologyEntry, search *vhost.DeadLetterSearch) {
	all, own := topology.BindingsOf(bindings), vhost.IDs{}
	for _, queue := range queues {
		own[topology.IDOf(queue)] = true
	}
	leaving := topology.IDsOf(all)
	for _, binding := range all {
		if !own[vhost.QueueID(binding.Destination)] && search.NeededBy(binding.AtBroker(), leaving, toAnyQueue) == "" {
			t.Bindings = append(t.Bindings, binding)
		}
	}
}

func toAnyQueue(string, vhost.Binding) bool { return true }

func (t *Teardown) addExchanges(exchanges []v1alpha1.TopologyEntry, observed vhost.Observed) {
	leaving := topology.IDsOf(t.Bindings)
	for _, entry := range exchanges {
		if use := observed.UsedBy(entry.Name, leaving); use != "" {
			t.Retained = append(t.Retained, Retained{entry, use})
			continue
		}
		t.Exchanges = append(t.Exchanges, entry.Name)
	}
}

// HalfDeleted returns the delay tiers, with their bindings, that an interrupted deletion of the work queues has deleted. They were in sync
// with desired, and are missing although the main queue exists. owned are the objects that the ConsumerQueue owned. The result is empty if
// the main queue is also missing, because it is deleted last, and if the main queue belongs to another client.
func HalfDeleted(desired topology.Topology, owned topology.Inventory, observed vhost.Observed) topology.Topology {
	missing := topology.Topology{}
	for _, queue := range desired.Queues {
		exists := observed.Has(queue.ID())
		switch {
		case queue.Role == v1alpha1.RoleMain && (!exists || !topology.Owns(owned[queue.ID()])):
			return topology.Topology{}
		case queue.Role != v1alpha1.RoleDelayTier || exists || owned[queue.ID()].State == v1alpha1.StateMissing:
		case owned.WasInSync(queue.ID(), queue.Hash()):
			missing.Queues = append(missing.Queues, queue)
		}
	}
	for _, binding := range desired.Bindings {
		isOfMissing := slices.ContainsFunc(missing.Queues, func(queue topology.Queue) bool { return queue.Name == binding.Destination })
		if isOfMissing && observed.Has(vhost.ExchangeID(binding.Source)) {
			missing.Bindings = append(missing.Bindings, binding)
		}
	}
	return missing
}
