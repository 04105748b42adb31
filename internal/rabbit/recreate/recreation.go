package recreate

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Recreation is one recreation of a queue, as the status of a ConsumerQueue records it.
type Recreation struct {
	// ID is part of the names of all objects that the recreation declares; see NewID.
	ID string
	// Queue is the queue with its new arguments, which stay the same until the recreation has ended.
	Queue topology.Queue
	// Bindings are the bindings of the queue that Divert has last passed to record.
	Bindings []vhost.Binding
	// Tiers are the delay tiers that dead-letter to the queue through the default exchange. Swap holds back their messages.
	Tiers []string
	// WithoutHold: the queue may have no bindings, and the recreation has no hold. This is for delay tiers.
	WithoutHold bool
	// Moves: the ready messages of the queue are moved. Otherwise the recreation begins only when the queue has none.
	Moves bool
	// Emptied: Empty has returned without an error once. Messages that arrive after that came past the bindings.
	Emptied bool
	// AcceptsPast: Swap continues if messages came past the bindings. Otherwise it fails with PublishersPastBindings.
	AcceptsPast bool
	// DeleteSent: Swap has called recordDelete, and has not returned Swapped.DeleteSent as false since then. A delete may be running, or
	// may have been executed.
	DeleteSent bool
	// StatusLost: the status was lost. It is unknown whether the queue is the new one, because the spec may ask for the old arguments
	// again.
	StatusLost bool
}

// A queue with more bindings is not recreated, because a status records all of them.
const (
	// MaxBindings is the maximum number of bindings of a queue.
	MaxBindings = 64
	// MaxBindingBytes is the maximum size of the arguments of these bindings together, in bytes.
	MaxBindingBytes = 64 << 10
)

// idLength is long enough to make IDs unique, and short enough for names.
const idLength = 10

// NewID returns an ID for a recreation of an owner, which is the namespace and name of a ConsumerQueue. It ends with a hash of the
// owner, so that each owner finds its own recreations if all statuses are lost.
func NewID(owner string) string {
	mark := markOf(owner)
	return strings.ToLower(rand.Text()[:idLength-len(mark)]) + mark
}

// IsIDOf reports whether NewID returned an ID for this owner.
func IsIDOf(owner, id string) bool { return strings.HasSuffix(id, markOf(owner)) }

// markOf returns the characters that the IDs of an owner end with.
func markOf(owner string) string {
	hash := sha256.Sum256([]byte(owner))
	return strings.ToLower(base32.StdEncoding.EncodeToString(hash[:])[:idLength/2])
}

// Hold is the name of the queue to which the bindings lead during the recreation. Its messages are newer than the messages of the
// backlog.
func (r Recreation) Hold() string { return r.named(vhost.PrefixHold) }

// Backlog is the name of the queue to which the messages of the queue are moved.
func (r Recreation) Backlog() string { return r.named(vhost.PrefixBacklog) }

// BacklogExchange is the name of the fanout exchange that leads only to the backlog.
func (r Recreation) BacklogExchange() string { return vhost.PrefixBacklog + r.ID }

// BackExchange is the name of the fanout exchange that leads only to the queue.
func (r Recreation) BackExchange() string { return vhost.PrefixBack + r.ID }

// probe is the name of the queue on which Divert tries the new arguments.
func (r Recreation) probe() string { return r.named(vhost.PrefixProbe) }

// IsOwn reports whether a binding is one of the recreation's own bindings, which are not recorded.
func (r Recreation) IsOwn(binding vhost.Binding) bool {
	return binding.Source == r.BacklogExchange() || binding.Source == r.BackExchange()
}

// idOf returns the ID of the recreation of a queue whose hold or backlog has this name; false if the name belongs to no such recreation.
func idOf(name, queue string) (id string, ok bool) {
	for _, prefix := range []string{vhost.PrefixHold, vhost.PrefixBacklog} {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || len(rest) <= idLength {
			continue
		}
		of := Recreation{ID: rest[:idLength], Queue: topology.Queue{Name: queue}}
		return of.ID, name == of.Hold() || name == of.Backlog()
	}
	return "", false
}

// named returns the name of a queue of the recreation. A name that is too long for RabbitMQ ends with a hash instead of its last
// characters, so that Find distinguishes queues whose names begin alike.
func (r Recreation) named(prefix string) string {
	name, hash := prefix+r.ID+"."+r.Queue.Name, sha256.Sum256([]byte(r.Queue.Name))
	suffix := fmt.Sprintf(".%x", hash[:8])
	if len(name) <= vhost.MaxNameLength-len(suffix) {
		return name
	}
	for len(name) > vhost.MaxNameLength-len(suffix) {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + suffix
}

// QueueSeen is the state of a queue at the broker.
type QueueSeen struct {
	Exists    bool
	Arguments vhost.Arguments
	// Ready and Consumers are current. A consumer that is gone but still holds messages counts. Messages that consumers hold do
	// not count as ready.
	Ready, Consumers int
	// Bindings are all bindings except the recreation's own.
	Bindings []vhost.Binding
}

// Seen is the result of Inspect.
type Seen struct {
	Queue, Hold QueueSeen
	// IsNew: the queue exists with the new arguments.
	IsNew bool
	// Fenced: a fence of a recreation matches the queue. If the status was lost, a delete may be running; see CheckNoDelete.
	Fenced bool
}

// Progress is the progress of moving messages in a phase.
type Progress struct {
	// State and Detail describe what the mover does or waits for.
	State  mover.State
	Detail string
	// Moved is how many messages this call has moved.
	Moved int
	// Past is how many of them came past the bindings: they arrived after Recreation.Emptied, and not from a tier.
	Past int
	// Remaining is how many of the messages that were ready at the beginning of the call are not moved yet.
	Remaining int
}

// Swapped is the result of Swap.
type Swapped struct {
	// DeleteSent: if the error is nil, the queue was deleted and declared. With an error, a delete may be running: the caller
	// records that and calls Swap again. If DeleteSent is false, the queue is unchanged even if recordDelete was called, and the
	// caller can restore the old queue with GiveBack.
	DeleteSent bool
	// Moved is how many messages Swap itself has moved to the backlog, and Past how many of them came past the bindings; see Progress.
	Moved, Past int
	// FenceStood is how long the fence refused messages that were published to the queue by name. Absent is the maximum time for which the
	// queue did not exist. Both are zero if unknown.
	FenceStood, Absent time.Duration
}
