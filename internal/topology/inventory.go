package topology

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Inventory indexes the entries of status.topology by object.
type Inventory map[vhost.ID]v1alpha1.TopologyEntry

// InventoryOf indexes entries of status.topology.
func InventoryOf(entries []v1alpha1.TopologyEntry) Inventory {
	inventory := make(Inventory, len(entries))
	for _, entry := range entries {
		inventory[IDOf(entry)] = entry
	}
	return inventory
}

// WasInSync reports whether an object was once in sync in its current desired form, which the hash identifies.
func (i Inventory) WasInSync(id vhost.ID, hash string) bool {
	return hash != "" && i[id].LastSyncedHash == hash
}

// IDOf returns the ID of an entry's object.
func IDOf(entry v1alpha1.TopologyEntry) vhost.ID {
	return vhost.ID{
		Kind: vhost.Kind(entry.Kind), Name: entry.Name,
		Source: entry.Source, Destination: entry.Destination, RoutingKey: entry.RoutingKey, Arguments: entry.Arguments,
	}
}

// IDOfChange returns the ID of a change's object.
func IDOfChange(change v1alpha1.Change) vhost.ID {
	return vhost.ID{
		Kind: vhost.Kind(change.Kind), Name: change.Name,
		Source: change.Source, Destination: change.Destination, RoutingKey: change.RoutingKey, Arguments: change.Arguments,
	}
}

// EntryOf returns an entry for an object.
func EntryOf(id vhost.ID) v1alpha1.TopologyEntry {
	return v1alpha1.TopologyEntry{
		Kind: v1alpha1.ObjectKind(id.Kind), Name: id.Name,
		Source: id.Source, Destination: id.Destination, RoutingKey: id.RoutingKey, Arguments: id.Arguments,
	}
}

// BindingOf returns the binding of an entry.
func BindingOf(entry v1alpha1.TopologyEntry) Binding {
	arguments, _ := vhost.ParseArguments(entry.Arguments) // Warren wrote them
	return Binding{
		Source: entry.Source, Destination: entry.Destination, RoutingKey: entry.RoutingKey, Arguments: arguments, Role: entry.Role,
	}
}

// BindingsOf returns the bindings among entries.
func BindingsOf(entries []v1alpha1.TopologyEntry) []Binding {
	var bindings []Binding
	for _, entry := range entries {
		if entry.Kind == v1alpha1.KindBinding {
			bindings = append(bindings, BindingOf(entry))
		}
	}
	return bindings
}

// Owned returns the entries that the ConsumerQueue owns. It owns the exchanges and queues that Warren declared or is about to declare, or
// that were once in sync, and all bindings except foreign ones. An exchange or queue that Warren found in another form belongs to another
// client until it is recreated.
func Owned(entries []v1alpha1.TopologyEntry) []v1alpha1.TopologyEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(entry v1alpha1.TopologyEntry) bool { return !Owns(entry) })
}

// OwnedView is Owned without a copy if the ConsumerQueue owns all entries. The caller must not change the result.
func OwnedView(entries []v1alpha1.TopologyEntry) []v1alpha1.TopologyEntry {
	if slices.ContainsFunc(entries, func(entry v1alpha1.TopologyEntry) bool { return !Owns(entry) }) {
		return Owned(entries)
	}
	return slices.Clip(entries)
}

// Intended reports whether Warren was about to declare an object and has not seen it in sync since. The object may exist because of Warren,
// because of another client, or not at all.
func Intended(entry v1alpha1.TopologyEntry) bool {
	return entry.Kind != v1alpha1.KindBinding && entry.Origin == v1alpha1.OriginDeclared && entry.LastSyncedHash == ""
}

// Owns reports whether the ConsumerQueue owns the object of an entry; see Owned.
func Owns(entry v1alpha1.TopologyEntry) bool {
	if entry.Kind == v1alpha1.KindBinding {
		return entry.Role != ""
	}
	return entry.Origin == v1alpha1.OriginDeclared || entry.LastSyncedHash != ""
}

// SplitByOrigin separates entries into those declared by Warren and those found. A binding has no origin: it counts as declared
// if Warren declared both its ends.
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
