package recreate

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/management"
)

const (
	// memberLimit is how long the members of a new queue may take to start.
	memberLimit = 2 * time.Second
	// maxRepeats is how often a swap is repeated because the new queue lacks a member.
	maxRepeats = 3
)

// completeMembers repeats the swap if the new queue lacks a member. RabbitMQ answers a queue.delete while other nodes still delete their
// members, and a declaration right after it can fail to start a member there (4.3.6). RabbitMQ never starts that member later, and clients
// that are connected to its node receive no messages. If the swap is refused, because the queue has consumers for example,
// completeMembers leaves the queue as it is, so that its bindings and messages can move back.
func (r *Recreator) completeMembers(
	ctx context.Context, rec Recreation, swapped *Swapped, recordDelete func(context.Context) error,
) error {
	for repeats := 0; ; repeats++ {
		node, err := r.missingMember(ctx, rec.Queue.Name)
		if err != nil || node == "" {
			return err
		}
		log := r.Log.WithValues("queue", rec.Queue.Name, "node", node)
		if repeats == maxRepeats {
			log.Info("The queue keeps too few members", "reason", "RabbitMQ has declared it without this member each time")
			return nil
		}
		log.Info("RabbitMQ has declared a queue without a member on one of its nodes, so the queue is declared again")
		again, err := r.swap(ctx, rec, true, recordDelete)
		swapped.add(again)
		if err != nil && !again.DeleteSent && ReasonOf(err) != "" {
			log.Info("The queue keeps too few members", "reason", err.Error())
			return nil // the queue works with fewer members
		}
		if err != nil {
			return err
		}
	}
}

// add adds the result of a repeated swap.
func (s *Swapped) add(again Swapped) {
	s.DeleteSent = true // the first swap has already sent a delete
	s.Moved += again.Moved
	s.Past += again.Past
	s.FenceStood += again.FenceStood
	s.Absent += again.Absent
}

// missingMember returns a running node on which the queue should have a member and has none; empty if there is none, or if RabbitMQ does
// not answer. RabbitMQ 3.10 cannot answer.
func (r *Recreator) missingMember(ctx context.Context, queue string) (node string, err error) {
	err = r.until(ctx, memberLimit, func() (bool, error) {
		members, failed := r.api.QuorumStatus(ctx, queue)
		if failed != nil {
			r.Log.V(1).Info("The members of a queue are not known", "queue", queue, "reason", failed.Error())
		}
		node = ""
		for _, member := range members {
			if member.State == management.NoMember {
				node = member.Node
			}
		}
		return node == "", nil
	})
	return node, err
}
