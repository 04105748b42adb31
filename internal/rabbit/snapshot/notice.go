package snapshot

// Notice says what changed since the last one.
type Notice struct {
	// Health: Connection.Health tells something else, or the vhost has been read for the first time: then everything may differ from
	// what the receiver knows, and no names are listed.
	Health bool
	// Capabilities: Connection.Health tells other capabilities, which concern nobody but who reports them.
	Capabilities bool
	// Current: a refresh or a catch-up has ended, so Health.SyncedAt or Health.CurrentAt is later.
	Current bool
	// Queues are those whose object, bindings into them or applying policies changed, sorted.
	Queues []string
	// Exchanges are those that came, went or changed themselves, sorted.
	Exchanges []string
	// Routes are exchanges from which messages may now go elsewhere: those whose bindings changed, or that changed
	// themselves, and those that lead to them, sorted.
	Routes []string
	// Messages: the messages of the vhost's queues were counted.
	Messages bool
}

// Empty says that there is nothing to say.
func (n Notice) Empty() bool {
	return !n.Health && !n.Capabilities && !n.Current && !n.Messages && len(n.Queues)+len(n.Exchanges)+len(n.Routes) == 0
}

// Merge returns what notices say together.
func Merge(notices []Notice) Notice {
	queues, exchanges, routes, all := map[string]bool{}, map[string]bool{}, map[string]bool{}, Notice{}
	for _, notice := range notices {
		all.Health = all.Health || notice.Health
		all.Capabilities = all.Capabilities || notice.Capabilities
		all.Current = all.Current || notice.Current
		all.Messages = all.Messages || notice.Messages
		for _, part := range []struct {
			from []string
			to   map[string]bool
		}{{notice.Queues, queues}, {notice.Exchanges, exchanges}, {notice.Routes, routes}} {
			for _, name := range part.from {
				part.to[name] = true
			}
		}
	}
	merged := newNotice(queues, exchanges, routes)
	merged.Health, merged.Capabilities, merged.Current, merged.Messages = all.Health, all.Capabilities, all.Current, all.Messages
	return merged
}
