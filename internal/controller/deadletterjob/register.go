package deadletterjob

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/ownership"
)

// QueueKey identifies a queue. One user at a time takes messages from the queue.
type QueueKey struct {
	Connection client.ObjectKey
	Location   ownership.Location
	// Address is where the connection opened the vhost by AMQP; empty if the connection cannot prove that. See rabbit.Place.
	Address string
	Name    string
}

// mayBe reports whether two keys may identify the same queue. In one namespace, the addresses of a cluster may differ. Between two
// namespaces, both must have opened the vhost at the same address, because another tenant can forge everything else.
func (k QueueKey) mayBe(other QueueKey) bool {
	if k.Connection.Namespace != other.Connection.Namespace && (k.Address == "" || k.Address != other.Address) {
		return false
	}
	return k.Location.Cluster.MayBe(other.Location.Cluster) && k.Location.VHost == other.Location.VHost && k.Name == other.Name
}

// Uses describes what a user does, for a reader in the given namespace. It does not name jobs of other namespaces.
func (k Key) Uses(queue, namespace string) string {
	switch {
	case k.Kind == "":
		return fmt.Sprintf("a request of the dead-letter API browses queue %q", queue)
	case k.Namespace != namespace:
		return fmt.Sprintf("a %s in another namespace takes messages from queue %q", k.Kind, queue)
	}
	return fmt.Sprintf("%s %q takes messages from queue %q", k.Kind, k.Name, queue)
}

// Register has the users of dead-letter queues in this process, in the order of their arrival. The first user of a queue has the turn and
// the other users wait, because the messages that a user holds are hidden from other users. A browse may run beside a job; see Browse. The
// zero Register is empty.
type Register struct {
	mu      sync.Mutex
	entries []*Entry
	// turns counts the turns of jobs that remove messages. removals has the number of the last such turn of each queue. forgotten is the
	// number of the last turn before removals was cleared.
	turns, forgotten int
	removals         map[QueueKey]int
}

// maxRemovals is the maximum number of queues in Register.removals. The names of queues that no longer exist must not fill the memory.
const maxRemovals = 10_000

// Entry is the entry of a user in a Register until Leave is called.
type Entry struct {
	register *Register
	queue    QueueKey
	user     Key
	granted  func()
	waits    bool
	// browses: the user may be admitted beside a job of its namespace. beside is that job once the user is admitted.
	browses bool
	beside  *Entry
	// held returns how many messages a job holds. It is nil if no browse may run beside this user.
	held func() int
	// resumed: a browse beside this job has just ended, so the next browse waits.
	resumed bool
}

// betweenBrowses is how long a job takes messages between two browses. It is shorter than the wait of a browse for its turn.
const betweenBrowses = time.Second

// Join adds a user behind all other users of the queue. If the user must wait, granted is called when its turn comes.
func (r *Register) Join(user Key, queue QueueKey, granted func()) *Entry {
	return r.add(&Entry{register: r, queue: queue, user: user, granted: granted})
}

// Browse is Join for a user that need not see all messages. It does not wait for a job that admits browses.
func (r *Register) Browse(user Key, queue QueueKey, granted func()) *Entry {
	return r.add(&Entry{register: r, queue: queue, user: user, granted: granted, browses: true})
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

// blocker returns the entry that the given entry waits for; nil if there is none. That is the first entry in front of it, or a browse that
// was already admitted.
func (r *Register) blocker(waiting *Entry) *Entry {
	isInFront := true
	for _, entry := range r.entries {
		isInFront = isInFront && entry != waiting
		if entry != waiting && entry.queue.mayBe(waiting.queue) && (isInFront || !entry.waits) {
			return entry
		}
	}
	return nil
}

// host returns the job beside which a browse may run; nil if there is none. Browses slow a job down, so browses of other namespaces wait.
// Only one browse is admitted at a time, because two browses could change the order of the messages.
func (r *Register) host(browse *Entry) *Entry {
	for _, entry := range r.entries {
		if entry.held != nil && !entry.resumed && !r.isBrowsed(entry) &&
			entry.queue.mayBe(browse.queue) && entry.user.Namespace == browse.user.Namespace {
			return entry
		}
	}
	return nil
}

func (r *Register) isBrowsed(job *Entry) bool {
	return slices.ContainsFunc(r.entries, func(entry *Entry) bool { return entry.beside == job })
}

// Queue returns the key of the queue at which the user has the turn or waits for it.
func (e *Entry) Queue() QueueKey { return e.queue }

// Waits reports whether the user waits, and for which user.
func (e *Entry) Waits() (user Key, waits bool) {
	e.register.mu.Lock()
	defer e.register.mu.Unlock()
	if e.waits {
		return e.register.blocker(e).user, true
	}
	return Key{}, false
}

// AdmitBrowses admits browses beside a job that has the turn. The job must pause while IsBrowsed. held returns how many messages it
// holds.
func (e *Entry) AdmitBrowses(held func() int) {
	e.register.change(func() { e.held = held })
}

// RecordRemoval records that a job that has the turn begins to remove messages.
func (e *Entry) RecordRemoval() {
	r := e.register
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.removals) == maxRemovals || r.removals == nil {
		r.removals, r.forgotten = map[QueueKey]int{}, r.turns
	}
	r.turns++
	r.removals[e.queue] = r.turns
}

// Removals returns two numbers. turns is how many turns so far were of jobs that remove messages, at any queue. last is the number of the
// latest such turn at this queue. If last is larger than an earlier value of turns, a job may have removed messages of this queue since.
func (e *Entry) Removals() (turns, last int) {
	r := e.register
	r.mu.Lock()
	defer r.mu.Unlock()
	last = r.forgotten
	for queue, number := range r.removals {
		if queue.mayBe(e.queue) {
			last = max(last, number)
		}
	}
	return r.turns, last
}

// IsBrowsed reports whether a browse was admitted beside the job.
func (e *Entry) IsBrowsed() bool {
	e.register.mu.Lock()
	defer e.register.mu.Unlock()
	return e.register.isBrowsed(e)
}

// HeldByJob returns how many messages the job beside a browse holds. It returns false if the browse has the turn alone.
func (e *Entry) HeldByJob() (held int, beside bool) {
	e.register.mu.Lock()
	host := e.beside
	e.register.mu.Unlock()
	if host == nil {
		return 0, false
	}
	return host.held(), true
}

// Leave removes the entry and admits users that waited for it. It may be called again.
func (e *Entry) Leave() {
	e.register.change(func() {
		before := len(e.register.entries)
		e.register.entries = slices.DeleteFunc(e.register.entries, func(each *Entry) bool { return each == e })
		if e.beside != nil && len(e.register.entries) < before {
			e.beside.resume()
		}
	})
}

// resume lets a job take messages for betweenBrowses before another browse is admitted beside it. Otherwise browses that follow each other
// would stop the job.
func (e *Entry) resume() {
	e.resumed = true
	time.AfterFunc(betweenBrowses, func() { e.register.change(func() { e.resumed = false }) })
}

// change changes the Register, and admits users that no longer need to wait. Both happen under one lock, because a waiting entry must have
// a blocker.
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
