package topology

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Inventory is what status.topology records of objects, by their identity.
type Inventory map[vhost.ID]v1alpha1.TopologyEntry

// InventoryOf reads entries of status.topology.
func InventoryOf(entries []v1alpha1.TopologyEntry) Inventory {
	inventory := make(Inventory, len(entries))
	for _, entry := range entries {
		inventory[IDOf(entry)] = entry
	}
	return inventory
}

// WasInSync says whether an object was once seen just as it is desired now, which its hash tells.
func (i Inventory) WasInSync(id vhost.ID, hash string) bool {
	return hash != "" && i[id].LastSyncedHash == hash
}

// IDOf identifies the object of an entry.
func IDOf(entry v1alpha1.TopologyEntry) vhost.ID {
	return vhost.ID{
		Kind: vhost.Kind(entry.Kind), Name: entry.Name,
		Source: entry.Source, Destination: entry.Destination, RoutingKey: entry.RoutingKey, Arguments: entry.Arguments,
	}
}

// EntryOf is an entry about an object.
func EntryOf(id vhost.ID) v1alpha1.TopologyEntry {
	return v1alpha1.TopologyEntry{
		Kind: v1alpha1.ObjectKind(id.Kind), Name: id.Name,
		Source: id.Source, Destination: id.Destination, RoutingKey: id.RoutingKey, Arguments: id.Arguments,
	}
}

// BindingOf is the binding of an entry.
func BindingOf(entry v1alpha1.TopologyEntry) Binding {
	var arguments map[string]any
	decoder := json.NewDecoder(strings.NewReader(entry.Arguments))
	decoder.UseNumber()
	_ = decoder.Decode(&arguments) // of a binding without arguments there is nothing to read
	return Binding{
		Source: entry.Source, Destination: entry.Destination, RoutingKey: entry.RoutingKey,
		Arguments: vhost.Normalize(arguments), Role: entry.Role,
	}
}

// BindingsOf are the bindings among entries.
func BindingsOf(entries []v1alpha1.TopologyEntry) []Binding {
	var bindings []Binding
	for _, entry := range entries {
		if entry.Kind == v1alpha1.KindBinding {
			bindings = append(bindings, BindingOf(entry))
		}
	}
	return bindings
}

// Owned are the entries of objects that are a ConsumerQueue's own: exchanges and queues that Warren declared for it, or is
// about to, or has seen just as it wants them, and all bindings but foreign ones. An exchange or queue that was found
// otherwise is somebody else's until it is recreated.
func Owned(entries []v1alpha1.TopologyEntry) []v1alpha1.TopologyEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(entry v1alpha1.TopologyEntry) bool { return !Owns(entry) })
}

// OwnedView is Owned for those who only read: where all entries are own, it is the entries themselves.
func OwnedView(entries []v1alpha1.TopologyEntry) []v1alpha1.TopologyEntry {
	if slices.ContainsFunc(entries, func(entry v1alpha1.TopologyEntry) bool { return !Owns(entry) }) {
		return Owned(entries)
	}
	return slices.Clip(entries)
}

// Intended says whether an object was about to be declared and has never been seen as wanted since: the broker may have it
// from Warren, from somebody else, or not at all.
func Intended(entry v1alpha1.TopologyEntry) bool {
	return entry.Kind != v1alpha1.KindBinding && entry.Origin == v1alpha1.OriginDeclared && entry.LastSyncedHash == ""
}

// Owns says whether an entry is of an object that is a ConsumerQueue's own; see Owned.
func Owns(entry v1alpha1.TopologyEntry) bool {
	if entry.Kind == v1alpha1.KindBinding {
		return entry.Role != ""
	}
	return entry.Origin == v1alpha1.OriginDeclared || entry.LastSyncedHash != ""
}

// SplitByOrigin tells what Warren declared from what it found. A binding has no origin: it counts as declared if Warren
// declared both its ends.
func SplitByOrigin(owned []v1alpha1.TopologyEntry) (declared, found []v1alpha1.TopologyEntry) {
	isDeclared := func(kind v1alpha1.ObjectKind, name string) bool {
		return slices.ContainsFunc(owned, func(e v1alpha1.TopologyEntry) bool {
			return e.Kind == kind && e.Name == name && e.Origin == v1alpha1.OriginDeclared
		})
	}
	for _, entry := range owned {
		ours := entry.Origin == v1alpha1.OriginDeclared
		if entry.Kind == v1alpha1.KindBinding {
			ours = isDeclared(v1alpha1.KindExchange, entry.Source) && isDeclared(v1alpha1.KindQueue, entry.Destination)
		}
		if ours {
			declared = append(declared, entry)
		} else {
			found = append(found, entry)
		}
	}
	return declared, found
}
