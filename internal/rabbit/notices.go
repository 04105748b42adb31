package rabbit

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Notice says what changed since the last one.
type Notice struct {
	// Health: Connection.Health tells something else, or the first look has been made: then everything may differ from
	// what the receiver knows, and no names are listed.
	Health bool
	// Queues are those whose object, bindings into them or applying policies changed, sorted.
	Queues []string
	// Exchanges are those whose object or bindings from them changed, sorted.
	Exchanges []string
}

// notices gathers what there is to say until the receiver is free to hear it, so that a slow receiver holds nothing up.
type notices struct {
	notify func(Notice)
	wake   chan struct{}

	mu                sync.Mutex
	health            bool
	queues, exchanges map[string]bool
}

func newNotices(notify func(Notice)) *notices {
	return &notices{
		notify: notify, wake: make(chan struct{}, 1), queues: map[string]bool{}, exchanges: map[string]bool{},
	}
}

func (n *notices) add(health bool, queues, exchanges []string) {
	if !health && len(queues)+len(exchanges) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.health = n.health || health
	for _, name := range queues {
		n.queues[name] = true
	}
	for _, name := range exchanges {
		n.exchanges[name] = true
	}
	select {
	case n.wake <- struct{}{}:
	default: // it will wake anyway
	}
}

func (n *notices) take() Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	notice := Notice{
		Health: n.health, Queues: slices.Sorted(maps.Keys(n.queues)), Exchanges: slices.Sorted(maps.Keys(n.exchanges)),
	}
	n.health = false
	clear(n.queues)
	clear(n.exchanges)
	return notice
}

func (n *notices) run(ctx context.Context) {
	for {
		select {
		case <-n.wake:
			n.notify(n.take())
		case <-ctx.Done():
			return
		}
	}
}
