package snapshot

import "slices"

// Notice says what changed since the last one.
type Notice struct {
	// Health: Connection.Health tells something else, or the vhost has been read for the first time: then everything may differ from
	// what the receiver knows, and no names are listed.
	Health bool
	// Queues are those whose object, bindings into them or applying policies changed, sorted.
	Queues []string
	// Exchanges are those that came, went or changed themselves, sorted.
	Exchanges []string
	// Routes are exchanges from which messages may now go elsewhere: those whose bindings changed, or that changed
	// themselves, and those that lead to them, sorted.
	Routes []string
}

// Empty says that there is nothing to say.
func (n Notice) Empty() bool {
	return !n.Health && len(n.Queues)+len(n.Exchanges)+len(n.Routes) == 0
}

// And returns what two notices say together.
func (n Notice) And(other Notice) Notice {
	return Notice{
		Health: n.Health || other.Health, Queues: union(n.Queues, other.Queues),
		Exchanges: union(n.Exchanges, other.Exchanges), Routes: union(n.Routes, other.Routes),
	}
}

// union merges two sorted sets.
func union(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	merged := slices.Concat(a, b)
	slices.Sort(merged)
	return slices.Compact(merged)
}
