package preview

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// reported is what the status of a ConsumerQueue tells of its broker.
type reported struct {
	observed vhost.Observed
	// foreign are the bindings that no ConsumerQueue wants.
	foreign vhost.IDs
	// uncertain are the objects of which the status does not tell how they are: the broker could not be read, or the spec has changed
	// since.
	uncertain vhost.IDs
}

// read makes out what the broker has. before is what the ConsumerQueue of the cluster asks for, after what is asked for now: the status
// tells how an object differs from what is desired, or that it does not.
func read(status v1alpha1.ConsumerQueueStatus, before, after topology.Topology) reported {
	r := reported{
		observed: vhost.Observed{
			Exchanges: map[string]vhost.Exchange{}, Queues: map[string]vhost.Queue{},
			BindingsTo: map[string][]vhost.Binding{}, BindingsFrom: map[string][]vhost.Binding{},
		},
		foreign: vhost.IDs{}, uncertain: vhost.IDs{},
	}
	for _, entry := range status.Topology {
		if entry.State == v1alpha1.StateMissing {
			continue
		}
		id := topology.IDOf(entry)
		desired := before
		switch {
		case entry.State == v1alpha1.StateForeign:
			r.foreign[id] = true
		case entry.State == v1alpha1.StateInSync && entry.LastSyncedHash == after.HashOf(id):
			desired = after
		case entry.State == v1alpha1.StateUnknown, becomesDeclared(entry, before, after),
			entry.State == v1alpha1.StateInSync && entry.LastSyncedHash != before.HashOf(id):
			r.uncertain[id] = true
			desired = after // so that nothing follows from this object for others
		}
		r.add(entry, desired, changesOf(id, status.Changes))
	}
	r.addUnlisted(status, before)
	r.observed.DeadLetters = deadLettersOf(r.observed)
	return r
}

// becomesDeclared says whether Warren is to declare an exchange that it only used before: the status does not tell the type.
func becomesDeclared(entry v1alpha1.TopologyEntry, before, after topology.Topology) bool {
	declares := func(topo topology.Topology) bool {
		return slices.ContainsFunc(topo.Exchanges, func(e topology.Exchange) bool { return e.Name == entry.Name && e.Declare })
	}
	return entry.Kind == v1alpha1.KindExchange && declares(after) && !declares(before)
}

// add adds an object that is at the broker as desired, but for what changes say.
func (r *reported) add(entry v1alpha1.TopologyEntry, desired topology.Topology, changes []v1alpha1.Change) {
	switch entry.Kind {
	case v1alpha1.KindExchange:
		r.observed.Exchanges[entry.Name] = exchangeFrom(entry.Name, desired, changes)
	case v1alpha1.KindQueue:
		r.observed.Queues[entry.Name] = queueFrom(entry.Name, desired, changes)
	case v1alpha1.KindBinding:
		bind(&r.observed, topology.BindingOf(entry).AtBroker())
	}
}

// addUnlisted adds what a status that was cut does not list. What is listed comes first in the order of the topology, so the rest is
// taken to be as desired, and called uncertain.
func (r *reported) addUnlisted(status v1alpha1.ConsumerQueueStatus, before topology.Topology) {
	if status.TopologyOmitted == 0 {
		return
	}
	listed := topology.InventoryOf(status.Topology)
	unlisted := func(id vhost.ID) bool {
		_, known := listed[id]
		return !known
	}
	for _, binding := range before.Bindings {
		if id := binding.ID(); unlisted(id) {
			r.uncertain[id] = true
			bind(&r.observed, binding.AtBroker())
		}
	}
}

// routePath is the path of a change that is about where messages return to.
const routePath = "route"

func changesOf(id vhost.ID, all []v1alpha1.Change) []v1alpha1.Change {
	var changes []v1alpha1.Change
	for _, change := range all {
		if changeID(change) == id {
			changes = append(changes, change)
		}
	}
	return changes
}

func changeID(change v1alpha1.Change) vhost.ID {
	return vhost.ID{
		Kind: vhost.Kind(change.Kind), Name: change.Name,
		Source: change.Source, Destination: change.Destination, RoutingKey: change.RoutingKey, Arguments: change.Arguments,
	}
}

func exchangeFrom(name string, desired topology.Topology, changes []v1alpha1.Change) vhost.Exchange {
	found := vhost.Exchange{Durable: true, Arguments: vhost.Arguments{}}
	for _, exchange := range desired.Exchanges {
		if exchange.Name == name {
			found.Type = string(exchange.Type)
		}
	}
	for _, change := range changes {
		switch change.Path {
		case "type":
			found.Type = change.Observed
		case "durable":
			found.Durable = change.Observed == "true"
		case "autoDelete":
			found.AutoDelete = change.Observed == "true"
		case "internal":
			found.Internal = change.Observed == "true"
		}
		setArgument(found.Arguments, change)
	}
	return found
}

func queueFrom(name string, desired topology.Topology, changes []v1alpha1.Change) vhost.Queue {
	found := vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum}}
	for _, queue := range desired.Queues {
		if queue.Name == name {
			maps.Copy(found.Arguments, queue.Arguments)
		}
	}
	for _, change := range changes {
		switch change.Path {
		case "durable":
			found.Durable = change.Observed == "true"
		case "autoDelete":
			found.AutoDelete = change.Observed == "true"
		case "exclusive":
			found.Exclusive = change.Observed == "true"
		}
		setArgument(found.Arguments, change)
	}
	return found
}

// setArgument has arguments as a change observed them.
func setArgument(arguments vhost.Arguments, change v1alpha1.Change) {
	name, isArgument := strings.CutPrefix(change.Path, "arguments.")
	switch {
	case !isArgument:
	case change.Observed == "":
		delete(arguments, name)
	default:
		arguments[name] = valueOf(change.Observed)
	}
}

// valueOf reads what vhost.Display has rendered.
func valueOf(text string) any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return text
	}
	return vhost.Normal(value)
}
