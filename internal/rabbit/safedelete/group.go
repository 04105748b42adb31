package safedelete

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// group is one call of DeleteEmpty or Recreate. Either all of its queues are deleted, or none.
type group struct {
	ctx     context.Context // ends with the call, and when the connection is about to be closed
	cluster string
	// queues are the queues of the call, without queues that are known not to exist.
	queues []string
	// stillDeletable asks the caller again before the fence goes up; it may be nil.
	stillDeletable func(context.Context) error
	// recreation is how the one queue of the group is declared again; nil if the queues are only deleted.
	recreation *Recreation
	done       chan error // has room for the result
	since      time.Time  // when the group began to wait for a batch
	kind       kind
	slow       int // how often the batch of this group was too slow

	// The batch uses the fields below.

	err     error // why the group cannot be deleted now
	begun   bool  // a queue.delete was sent for one of the queues
	deleted []deletedQueue
	// declared: the queue of a recreation was deleted and declared again. outcome is the result for the caller.
	declared bool
	outcome  Recreated
}

// drop removes a queue that does not exist.
func (g *group) drop(queue string) {
	g.queues = slices.DeleteFunc(slices.Clone(g.queues), func(other string) bool { return other == queue })
}

// kind has the properties that groups must have in common to share a fence, according to the snapshot. If the snapshot is outdated, the
// batch has several fences.
type kind struct {
	cluster  string
	policies string // in effect, as JSON
	// hurry is the time in which the group must be deleted because its sentinels expire, rounded down to 1, 2, 4 or 8 s; zero if
	// the whole budget is available.
	hurry time.Duration
	// recreated is the queue of a recreation. It shares its fence with no other queue, because each recreation decides when its
	// fence may be opened.
	recreated string
}

// kindOf returns the kind of a group, according to the snapshot.
func (d *Deleter) kindOf(g *group) kind {
	of := kind{cluster: g.cluster}
	if g.recreation != nil {
		of.recreated = g.recreation.Queue.Name
	}
	d.observer.View(func(known *snapshot.Snapshot) {
		var policies []string
		for _, queue := range g.queues {
			now := &queueStats{}
			now.Arguments = known.Queues[queue].Arguments
			user, _ := holdingPolicy(queue, known.Policies, false)
			operator, _ := holdingPolicy(queue, known.Policies, true)
			now.user, now.operator = user.Definition, operator.Definition
			if text := vhost.Normalize(now.user).JSON(); len(policies) == 0 || policies[len(policies)-1] != text {
				policies = append(policies, text)
			}
			if ttl, expires := now.ttl(); expires && ttl/2 < budget && (of.hurry == 0 || ttl/2 < of.hurry) {
				of.hurry = max(ttl/2, time.Second)
			}
		}
		of.policies = strings.Join(policies, "\n")
	})
	for rounded := time.Second; of.hurry > 0; rounded *= 2 {
		if 2*rounded > of.hurry {
			of.hurry = rounded
			break
		}
	}
	return of
}
