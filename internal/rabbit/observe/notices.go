package observe

import (
	"context"
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Notices merges notices until the receiver is free, so that a slow receiver delays no sender.
type Notices struct {
	notify func(snapshot.Notice)
	wake   chan struct{}

	mu      sync.Mutex
	waiting snapshot.Notice
}

// NewNotices returns Notices for a receiver.
func NewNotices(notify func(snapshot.Notice)) *Notices {
	return &Notices{notify: notify, wake: make(chan struct{}, 1)}
}

// Add adds a notice, and does not block.
func (n *Notices) Add(notice snapshot.Notice) {
	if notice.Empty() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = snapshot.Merge([]snapshot.Notice{n.waiting, notice})
	select {
	case n.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

func (n *Notices) take() snapshot.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	notice := n.waiting
	n.waiting = snapshot.Notice{}
	return notice
}

// Run calls the receiver until the context ends, from this goroutine.
func (n *Notices) Run(ctx context.Context) {
	for {
		select {
		case <-n.wake:
			n.notify(n.take())
		case <-ctx.Done():
			return
		}
	}
}
