package recreate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

const (
	// memberLimit is how long the members of a new queue may take to start.
	memberLimit = 3 * time.Second
	// maxRepeats is how often a swap is repeated because the new queue lacks a member.
	maxRepeats = 3
)

// completeMembers repeats the swap if the new queue lacks a member. RabbitMQ answers a queue.delete while other nodes still delete their
// members, and a declaration right after it can fail to start a member there (4.3.6). RabbitMQ never starts that member later, and clients
// that are connected to its node receive no messages. If the swap cannot be repeated, because the queue has consumers for example,
// completeMembers leaves the queue as it is, so that its bindings and messages can move back.
func (r *Recreator) completeMembers(
	ctx context.Context, rec Recreation, swapped *Swapped, recordDelete func(context.Context) error,
) error {
	for range maxRepeats {
		node, err := r.missingMember(ctx, rec.Queue.Name)
		if err != nil || node == "" {
			return err
		}
		r.Log.Info("RabbitMQ has declared a queue without a member on one of its nodes, so the queue is declared again",
			"queue", rec.Queue.Name, "node", node)
		again, err := r.swap(ctx, rec, leaveToDrain, recordDelete)
		swapped.DeleteSent = true
		swapped.Moved += again.Moved
		swapped.Past += again.Past
		swapped.FenceStood += again.FenceStood
		if err != nil && ReasonOf(err) != "" && !again.DeleteSent {
			r.Log.Info("The queue keeps too few members", "queue", rec.Queue.Name, "node", node, "reason", err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaveToDrain leaves the messages of a queue to the drainer, which uses basic.get. A queue that lacks a member may deliver none.
func leaveToDrain(context.Context, Recreation, *Swapped) error { return nil }

// missingMember returns a running node on which the queue has a member that does not run; empty if there is none, or if the user may not
// list nodes.
func (r *Recreator) missingMember(ctx context.Context, queue string) (string, error) {
	var down []string
	err := r.until(ctx, memberLimit, func() (bool, error) {
		info, err := r.api.QueueInfo(ctx, queue, management.WithMembers)
		if err != nil || info == nil {
			return true, err
		}
		down = slices.DeleteFunc(slices.Clone(info.Members), func(node string) bool { return slices.Contains(info.Online, node) })
		return len(down) == 0, nil
	})
	if err != nil || len(down) == 0 {
		return "", withBrokerReason(err)
	}
	nodes, err := r.api.Nodes(ctx, "")
	if errors.Is(err, brokererr.ErrAccessRefused) {
		return "", nil
	}
	for _, node := range nodes {
		if node.Running != nil && *node.Running && slices.Contains(down, node.Name) {
			return node.Name, nil
		}
	}
	return "", withBrokerReason(err)
}
