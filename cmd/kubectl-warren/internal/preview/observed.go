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

// reported is the state of the broker according to the status of a ConsumerQueue.
type reported struct {
	observed vhost.Observed
	// foreign are the bindings that no ConsumerQueue specifies.
	foreign vhost.IDs
	// uncertain are objects whose state is unknown, because the broker could not be read or the spec has changed since.
	uncertain vhost.IDs
}

// read reconstructs the state of the broker. before is the topology of the ConsumerQueue in the cluster, and after is the topology of the
// new spec. The status records how each object differs from before.
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
			desired = after // so that it does not affect the plan for other objects
		}
		r.add(entry, desired, changesOf(id, status.Changes))
	}
	r.addUnlisted(status, before)
	r.observed.DeadLetterRoutes = vhost.DeadLetterRoutesIn(r.observed.Queues)
	return r
}

// becomesDeclared reports whether Warren will declare an exchange that it did not declare before. The status does not contain its type.
func becomesDeclared(entry v1alpha1.TopologyEntry, before, after topology.Topology) bool {
	declares := func(topo topology.Topology) bool {
		return slices.ContainsFunc(topo.Exchanges, func(e topology.Exchange) bool { return e.Name == entry.Name && e.Declare })
	}
	return entry.Kind == v1alpha1.KindExchange && declares(after) && !declares(before)
}

// add adds the desired object with changes applied to it.
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

// addUnlisted adds objects that a truncated status does not list. The listed objects are the first of the topology; the others
// are assumed to match, and marked as uncertain.
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

// routePath is the path of a change that concerns the return route.
const routePath = "route"

func changesOf(id vhost.ID, all []v1alpha1.Change) []v1alpha1.Change {
	var changes []v1alpha1.Change
	for _, change := range all {
		if topology.IDOfChange(change) == id {
			changes = append(changes, change)
		}
	}
	return changes
}

func exchangeFrom(name string, desired topology.Topology, changes []v1alpha1.Change) vhost.Exchange {
	found := vhost.Exchange{Durable: true, Arguments: vhost.Arguments{}}
	for _, exchange := range desired.Exchanges {
		if exchange.Name == name {
			found.Type = string(exchange.Type)
		}
	}
	for _, change := range changes {
		if change.Path == "type" {
			found.Type = change.Observed
		}
	}
	setObserved(changes, found.Arguments, map[string]*bool{
		"durable": &found.Durable, "autoDelete": &found.AutoDelete, "internal": &found.Internal,
	})
	return found
}

func queueFrom(name string, desired topology.Topology, changes []v1alpha1.Change) vhost.Queue {
	found := vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum}}
	for _, queue := range desired.Queues {
		if queue.Name == name {
			maps.Copy(found.Arguments, queue.Arguments)
		}
	}
	setObserved(changes, found.Arguments, map[string]*bool{
		"durable": &found.Durable, "autoDelete": &found.AutoDelete, "exclusive": &found.Exclusive,
	})
	return found
}

// setObserved sets the changed fields and arguments to their observed values.
func setObserved(changes []v1alpha1.Change, arguments vhost.Arguments, fields map[string]*bool) {
	for _, change := range changes {
		if field := fields[change.Path]; field != nil {
			*field = change.Observed == "true"
		}
		name, isArgument := strings.CutPrefix(change.Path, "arguments.")
		switch {
		case !isArgument:
		case change.Observed == "":
			delete(arguments, name)
		default:
			arguments[name] = valueOf(change.Observed)
		}
	}
}

// valueOf parses a text of vhost.Display.
func valueOf(text string) any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return text
	}
	return vhost.Normal(value)
}
