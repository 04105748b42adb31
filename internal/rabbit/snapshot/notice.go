package snapshot

import "slices"

// Notice lists the changes since the last notice.
type Notice struct {
	// Health: Connection.Health returns another result, or the first refresh of the vhost has ended. Any object may have changed, and the
	// notice lists no names.
	Health bool
	// Capabilities: Connection.Health returns other capabilities. Only a receiver that reports capabilities needs this.
	Capabilities bool
	// Current: a refresh or a catch-up has ended, so Health.SyncedAt or Health.CurrentAt is later.
	Current bool
	// Queues are the queues that changed, or whose bindings or policies changed, sorted.
	Queues []string
	// Exchanges are the exchanges that were created, deleted or changed, sorted.
	Exchanges []string
	// Routes are the exchanges that may now route messages elsewhere: exchanges that changed, exchanges whose bindings changed, and all
	// exchanges that lead to one of them, sorted.
	Routes []string
	// Messages: new message counts of the vhost's queues are available.
	Messages bool
}

// Empty reports whether nothing changed.
func (n Notice) Empty() bool {
	return !n.Health && !n.Capabilities && !n.Current && !n.Messages && len(n.Queues)+len(n.Exchanges)+len(n.Routes) == 0
}

// Merge returns one notice with the content of all notices.
func Merge(notices []Notice) (merged Notice) {
	for _, notice := range notices {
		merged.Health = merged.Health || notice.Health
		merged.Capabilities = merged.Capabilities || notice.Capabilities
		merged.Current = merged.Current || notice.Current
		merged.Messages = merged.Messages || notice.Messages
		merged.Queues = append(merged.Queues, notice.Queues...)
		merged.Exchanges = append(merged.Exchanges, notice.Exchanges...)
		merged.Routes = append(merged.Routes, notice.Routes...)
	}
	for _, names := range []*[]string{&merged.Queues, &merged.Exchanges, &merged.Routes} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return merged
}
