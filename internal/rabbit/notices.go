package rabbit

import (
	"context"
	"slices"
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// notices gathers what there is to say until the receiver is free to hear it, so that a slow receiver holds nothing up.
type notices struct {
	notify func(snapshot.Notice)
	wake   chan struct{}

	mu      sync.Mutex
	waiting snapshot.Notice
}

func newNotices(notify func(snapshot.Notice)) *notices {
	return &notices{notify: notify, wake: make(chan struct{}, 1)}
}

func (n *notices) add(notice snapshot.Notice) {
	if notice.Empty() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting.Health = n.waiting.Health || notice.Health
	n.waiting.Queues = union(n.waiting.Queues, notice.Queues)
	n.waiting.Exchanges = union(n.waiting.Exchanges, notice.Exchanges)
	n.waiting.Routes = union(n.waiting.Routes, notice.Routes)
	select {
	case n.wake <- struct{}{}:
	default: // it will wake anyway
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

func (n *notices) take() snapshot.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	notice := n.waiting
	n.waiting = snapshot.Notice{}
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
