package deadletterjob

import (
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/ownership"
)

// Turn identifies a queue. One user at a time takes messages of the queue.
type Turn struct {
	Connection client.ObjectKey
	Location   ownership.Location
	// Address is where the broker let the connection into the vhost; empty if the connection cannot prove that. See rabbit.Place.
	Address string
	Queue   string
}

// isAt reports whether two turns may be at the same queue. In one namespace, the addresses of a cluster may differ. Between two
// namespaces, AMQP must have been let in at the same address, because another tenant can forge everything else.
func (t Turn) isAt(other Turn) bool {
	if t.Connection.Namespace != other.Connection.Namespace && (t.Address == "" || t.Address != other.Address) {
		return false
	}
	return t.Location.Cluster.MayBe(other.Location.Cluster) && t.Location.VHost == other.Location.VHost && t.Queue == other.Queue
}

// User is a Redrive, a Purge, or a request of the dead-letter API, whose Kind is empty.
type User struct {
	Kind string
	client.ObjectKey
}

// Uses describes what a user does, for a reader of a namespace. It does not name jobs of other namespaces.
func (u User) Uses(queue, namespace string) string {
	switch {
	case u.Kind == "":
		return fmt.Sprintf("a request of the dead-letter API browses queue %q", queue)
	case u.Namespace != namespace:
		return fmt.Sprintf("a %s in another namespace takes messages of queue %q", u.Kind, queue)
	}
	return fmt.Sprintf("%s %q takes messages of queue %q", u.Kind, u.Name, queue)
}

// Register has the users of dead-letter queues in this process, in the order of their arrival. The first user of a queue has the
// turn and the others wait, because a user's unacknowledged messages are hidden from the others. A browse may run beside a job; see
// Browse. The zero Register is empty.
type Register struct {
	mu      sync.Mutex
	entries []*Entry
}

// Entry is the entry of a user in a Register until Leave is called.
type Entry struct {
	register *Register
	turn     Turn
	user     User
	granted  func()
	waits    bool
	// browses: the user may be admitted beside a job of its namespace. beside is that job, after the admission.
	browses bool
	beside  *Entry
	// held returns how many messages a job holds. It is nil if the user admits no browse beside it.
	held func() int
}

// Join adds a user behind all others of the queue. If the user must wait, granted is called when its turn comes.
func (r *Register) Join(user User, turn Turn, granted func()) *Entry {
	return r.add(&Entry{register: r, turn: turn, user: user, granted: granted})
}

// Browse is Join for a user that need not see all messages. It does not wait for a job that admits browses.
func (r *Register) Browse(user User, turn Turn, granted func()) *Entry {
	return r.add(&Entry{register: r, turn: turn, user: user, granted: granted, browses: true})
}

func (r *Register) add(entry *Entry) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry.waits = true
	r.entries = append(r.entries, entry)
	r.admit(entry)
	return entry
}

// admit admits a waiting entry if nothing blocks it any longer.
func (r *Register) admit(entry *Entry) (admitted bool) {
	if !entry.waits {
		return false
	}
	if entry.browses {
		entry.beside = r.host(entry)
	}
	entry.waits = entry.beside == nil && r.blocker(entry) != nil
	return !entry.waits
}

// blocker returns the entry that another one waits for; nil if there is none. That is the first one in front of it, or a browse that
// was admitted before.
func (r *Register) blocker(waiting *Entry) *Entry {
	isInFront := true
	for _, entry := range r.entries {
		isInFront = isInFront && entry != waiting
		if entry != waiting && entry.turn.isAt(waiting.turn) && (isInFront || !entry.waits) {
			return entry
		}
	}
	return nil
}

// host returns the job beside which a browse may run; nil if there is none. Browses slow a job down, so browses of other
// namespaces wait. Only one browse is admitted at a time: two could return their messages in another order.
func (r *Register) host(browse *Entry) *Entry {
	for _, entry := range r.entries {
		if entry.held != nil && entry.turn.isAt(browse.turn) && entry.user.Namespace == browse.user.Namespace && !r.isBrowsed(entry) {
			return entry
		}
	}
	return nil
}

func (r *Register) isBrowsed(job *Entry) bool {
	return slices.ContainsFunc(r.entries, func(entry *Entry) bool { return entry.beside == job })
}

// Turn is the turn that the user waits for, or has.
func (p *Entry) Turn() Turn { return p.turn }

// Waits reports whether the user waits, and for which user.
func (p *Entry) Waits() (user User, waits bool) {
	p.register.mu.Lock()
	defer p.register.mu.Unlock()
	if p.waits {
		return p.register.blocker(p).user, true
	}
	return User{}, false
}

// LetIn admits browses beside a job that has the turn. The job must pause while IsBrowsed. held returns how many messages it
// holds.
func (p *Entry) LetIn(held func() int) {
	p.register.change(func() { p.held = held })
}

// IsBrowsed reports whether a browse was admitted beside the job.
func (p *Entry) IsBrowsed() bool {
	p.register.mu.Lock()
	defer p.register.mu.Unlock()
	return p.register.isBrowsed(p)
}

// Host returns how many messages the job beside a browse holds. It returns false if the browse has the turn alone.
func (p *Entry) Host() (held int, hosted bool) {
	p.register.mu.Lock()
	host := p.beside
	p.register.mu.Unlock()
	if host == nil {
		return 0, false
	}
	return host.held(), true
}

// Leave removes the entry and admits users that waited for it. It may be called again.
func (p *Entry) Leave() {
	p.register.change(func() {
		p.register.entries = slices.DeleteFunc(p.register.entries, func(each *Entry) bool { return each == p })
	})
}

// change changes the Register, and admits users that need not wait any longer. In between, a waiting entry might have no blocker.
func (r *Register) change(change func()) {
	for _, entry := range r.admittedAfter(change) {
		entry.granted()
	}
}

func (r *Register) admittedAfter(change func()) (admitted []*Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	for _, entry := range r.entries {
		if r.admit(entry) {
			admitted = append(admitted, entry)
		}
	}
	return admitted
}
