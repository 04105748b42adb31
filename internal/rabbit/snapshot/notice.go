package snapshot

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
	// Messages: the messages of the vhost's queues were counted.
	Messages bool
}

// Empty says that there is nothing to say.
func (n Notice) Empty() bool {
	return !n.Health && !n.Messages && len(n.Queues)+len(n.Exchanges)+len(n.Routes) == 0
}

// Merge returns what notices say together.
func Merge(notices []Notice) Notice {
	queues, exchanges, routes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	health, messages := false, false
	for _, notice := range notices {
		health, messages = health || notice.Health, messages || notice.Messages
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
	merged.Health, merged.Messages = health, messages
	return merged
}
