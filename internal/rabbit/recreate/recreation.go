package recreate

import (
	"crypto/rand"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Recreation is one recreation of a queue, as the status of a ConsumerQueue records it.
type Recreation struct {
	// ID is part of the names of all objects that the recreation declares; see NewID.
	ID string
	// Queue is the queue with its new arguments, which stay the same until the recreation has ended.
	Queue topology.Queue
	// Bindings are the recorded bindings of the queue: all that Divert has passed to its callback, of which the latest call has all.
	Bindings []vhost.Binding
	// Tiers are the delay tiers that dead-letter to the queue through the default exchange. Swap holds back their messages.
	Tiers []string
	// WithoutHold: nothing may be bound to the queue, and it has no hold. For delay tiers.
	WithoutHold bool
	// Emptied: Empty has returned without an error once. Messages that arrive after that came past the bindings.
	Emptied bool
	// DeleteSent: Swap has called its callback, and has not returned Swapped.DeleteSent as false since. A delete may be under way, or was
	// executed.
	DeleteSent bool
}

// MaxBindings is how many bindings a queue may have that is recreated: all of them are recorded.
const MaxBindings = 64

// idLength is long enough for IDs never to meet, and short enough for names.
const idLength = 10

// NewID makes an ID of a recreation.
func NewID() string { return strings.ToLower(rand.Text()[:idLength]) }

const (
	prefixHold  = "warren-hold-"
	prefixBack  = "warren-back-"
	prefixProbe = "warren-probe-"
)

// Hold is the name of the queue that gets the messages meanwhile.
func (r Recreation) Hold() string { return cut(prefixHold + r.ID + "." + r.Queue.Name) }

// HoldExchange is the name of the fanout exchange that leads to the hold alone.
func (r Recreation) HoldExchange() string { return prefixHold + r.ID }

// BackExchange is the name of the fanout exchange that leads to the queue alone.
func (r Recreation) BackExchange() string { return prefixBack + r.ID }

// probe is the name of the queue on which the new arguments are tried.
func (r Recreation) probe() string { return cut(prefixProbe + r.ID + "." + r.Queue.Name) }

// IsOwn reports whether a binding is one of the recreation's own, which are not recorded.
func (r Recreation) IsOwn(binding vhost.Binding) bool {
	return binding.Source == r.HoldExchange() || binding.Source == r.BackExchange()
}

// IDOf is the ID of the recreation whose hold for a queue has this name; false if that is no name of a hold for this queue.
func IDOf(hold, queue string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(hold, prefixHold)
	if !ok || len(rest) <= idLength {
		return "", false
	}
	id = rest[:idLength]
	return id, (Recreation{ID: id, Queue: topology.Queue{Name: queue}}).Hold() == hold
}

// cut shortens a name to what RabbitMQ allows, and does not cut a character.
func cut(name string) string {
	for len(name) > vhost.LongestName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}

// QueueSeen is a queue as Look finds it.
type QueueSeen struct {
	Exists    bool
	Arguments vhost.Arguments
	// Ready and Consumers are current. A consumer that has gone and holds messages counts; messages that consumers hold do not.
	Ready, Consumers int
	// Bindings leave out the recreation's own.
	Bindings []vhost.Binding
}

// Seen is what Look finds at the broker.
type Seen struct {
	Queue, Hold QueueSeen
	// IsNew: the queue exists with the new arguments.
	IsNew bool
	// Fenced: a fence of a recreation stands over the queue. If the status is lost, that counts as DeleteSent.
	Fenced bool
}

// Progress is how the messages of a phase are moved.
type Progress struct {
	// State and Detail say what the mover does or waits for.
	State  transfer.State
	Detail string
	// Moved is how many messages this call has moved.
	Moved int
	// Past is how many of them came past the bindings: after Recreation.Emptied, other than from a tier.
	Past int
	// Remaining is how many are still ready, as of the beginning of the call.
	Remaining int
}

// Swapped is what Swap has done.
type Swapped struct {
	// DeleteSent: if the error is nil, the queue was deleted and declared. With an error, a delete may be under way: the caller records
	// that and calls Swap again. If DeleteSent is false, the queue is untouched even if the callback has recorded a delete: GiveBack is the
	// way back.
	DeleteSent bool
	// Moved is how many messages Swap itself has moved to the hold, and Past how many of them came past the bindings; see Progress.
	Moved, Past int
	// FenceStood is for how long publishers by name were refused, and Absent for how long there was no queue at most; zero if unknown.
	FenceStood, Absent time.Duration
}
