package rabbit

import (
	"sync"
)

// refusedLooks records which queues the broker has refused to show, and why. An entry leaves when a browse succeeds or a transfer
// gets a message, and with the connection, for example when the Secret changes. A restart forgets all entries, and the next
// browse finds out again.
type refusedLooks struct {
	mu sync.Mutex
	of map[string]error
}

// get returns the error of the last browse of a queue if the broker refused it; nil otherwise.
func (r *refusedLooks) get(queue string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[queue]
}

// set records an error, or with nil that the queue can be read. It reports whether a refusal begins or ends.
func (r *refusedLooks) set(queue string, err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = (r.of[queue] == nil) != (err == nil)
	if err == nil {
		delete(r.of, queue)
		return changed
	}
	if r.of == nil {
		r.of = map[string]error{}
	}
	r.of[queue] = err
	return changed
}
