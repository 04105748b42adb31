package rabbit

import (
	"context"
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// notices merges notices until the receiver is free, so that a slow receiver delays nothing.
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
	n.waiting = snapshot.Merge([]snapshot.Notice{n.waiting, notice})
	select {
	case n.wake <- struct{}{}:
	default: // it will wake anyway
	}
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
