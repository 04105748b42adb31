package eventfeed

import (
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// RabbitMQ deletes the bindings of a queue or exchange with it. It announces the bindings first, and the queue up to 70 ms later. A
// connection that received these notices immediately would bind a queue again that RabbitMQ is deleting. RabbitMQ then answers that there
// is no such queue, and 4.3.6 was seen to close the connection. Notices of deleted bindings therefore wait until an event announces the
// deletion of their queue or exchange, or for a short time.

// PendingNotices holds notices of changes by other clients until they may be delivered. The zero value is ready to use.
type PendingNotices struct {
	mu      sync.Mutex
	notices []snapshot.Notice
	// deleted are the ends of deleted bindings, until an event announces the deletion of one end.
	deleted map[bindingEnds]bool
	// overdue fires when the notices must be delivered although both ends exist; nil while no notice waits.
	overdue *time.Timer
}

type bindingEnds struct {
	source, destination string
	toExchange          bool
}

// include reports whether an object is one of the ends.
func (e bindingEnds) include(id vhost.ID) bool {
	if id.Kind == vhost.KindQueue {
		return !e.toExchange && e.destination == id.Name
	}
	return e.source == id.Name || e.toExchange && e.destination == id.Name
}

// Add adds a change and its notice, which is empty if the change concerns no connection.
func (p *PendingNotices) Add(change Change, concerned snapshot.Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !concerned.Empty() {
		p.notices = append(p.notices, concerned)
	}
	switch {
	case change.Kind != Deleted:
	case change.ID.Kind != vhost.KindBinding:
		maps.DeleteFunc(p.deleted, func(ends bindingEnds, _ bool) bool { return ends.include(change.ID) })
	case !concerned.Empty():
		if p.deleted == nil {
			p.deleted = map[bindingEnds]bool{}
		}
		p.deleted[bindingEnds{change.Binding.Source, change.Binding.Destination, change.Binding.ToExchange}] = true
	}
}

// Take returns the notices that may be delivered now. If one must wait, all wait. Take then calls deliver after the budget.
func (p *PendingNotices) Take(budget time.Duration, deliver func()) snapshot.Notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.deleted) == 0 {
		return p.clear()
	}
	if p.overdue == nil {
		p.overdue = time.AfterFunc(budget, deliver)
	}
	return snapshot.Notice{}
}

// TakeAll returns all notices.
func (p *PendingNotices) TakeAll() snapshot.Notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clear()
}

func (p *PendingNotices) clear() snapshot.Notice {
	if p.overdue != nil {
		p.overdue.Stop()
	}
	all := snapshot.Merge(p.notices)
	p.notices, p.deleted, p.overdue = nil, nil, nil
	return all
}
