package safedelete

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// deletedQueue is a queue with its bindings, so that it can be declared again.
type deletedQueue struct {
	topology.Queue
	bindings []topology.Binding
}

// restoration declares the deleted queues of a group again if another queue of the group was not deleted.
type restoration struct{ *batch }

// fewQueues is the maximum number of queues whose bindings are read one by one. For more queues, one listing is cheaper, although the
// broker visits all queues of the vhost for it. If the listing fails, bindingsOf reads one by one, too.
const fewQueues = 4

// remember records the queues of groups with several queues, with their bindings, so that restore can declare them again.
func (r restoration) remember(ctx context.Context) error {
	var together []string
	for _, g := range r.groups {
		if len(g.queues) > 1 {
			together = append(together, g.queues...)
		}
	}
	bindings, err := r.bindingsOf(ctx, together)
	if err != nil {
		return err
	}
	for _, g := range r.groups {
		if len(g.queues) < 2 {
			continue
		}
		for _, queue := range g.queues {
			one := deletedQueue{Queue: topology.Queue{Name: queue, Arguments: vhost.Normalize(r.stats[queue].Arguments)}}
			for _, binding := range bindings[queue] {
				one.bindings = append(one.bindings, topology.Binding{
					Source: binding.Source, Destination: queue, RoutingKey: binding.RoutingKey, Arguments: binding.Arguments,
				})
			}
			g.deleted = append(g.deleted, one)
		}
	}
	return nil
}

// stillDeleting is the message about a queue for which a queue.delete may still be running, of this process or of an earlier one.
const stillDeleting = "RabbitMQ may still be deleting queue %q"

// bindingsOf returns the bindings of queues. It uses the snapshot if events or a refresh have shown that it was current after the batch
// began to ask its callers whether the queues may still be deleted. Otherwise it makes one request for each queue, or one listing for many
// queues.
func (r restoration) bindingsOf(ctx context.Context, queues []string) (map[string][]vhost.Binding, error) {
	bindings := map[string][]vhost.Binding{}
	if r.deleter.observer.State().CurrentAt.After(r.asked) {
		r.deleter.observer.View(func(known *snapshot.Snapshot) {
			for _, queue := range queues {
				bindings[queue] = known.BindingsTo(queue)
			}
		})
		return bindings, nil
	}
	if len(queues) > fewQueues {
		if all, err := r.deleter.bindings.get(ctx, r.deleter.errs); err == nil {
			return all, nil
		}
	}
	for _, queue := range queues {
		err := r.deleter.deletions.requests.Hold(ctx, r.deleter.errs, func() (err error) {
			bindings[queue], err = r.deleter.api.BindingsOf(ctx, queue)
			return err
		})
		if err != nil {
			return nil, wrapQueue(queue, err)
		}
	}
	return bindings, nil
}

// send records that a queue.delete is about to be sent.
func (r restoration) send(g *group, queue string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.begun = true
	r.sent[queue] = time.Now()
}

// refused records that the broker refused a queue.delete for lack of a permission, so that it is not deleting the queue. If the queue of a
// recreation is gone, the broker refused only the declaration after the delete.
func (r restoration) refused(ctx context.Context, g *group, queue string) {
	if _, exists, err := r.deleter.held(ctx, r.cluster, queue); err != nil || !exists {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sent, queue)
	g.begun = g.begun && g.recreation == nil // other queues of a deletion may be gone
}

// isSent reports whether a queue.delete may have been sent, whatever the broker answered.
func (r restoration) isSent(queue string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.sent[queue].IsZero()
}

// awaitGone waits for queues whose deletion the broker has not answered. RabbitMQ may still be deleting such a queue, and would also delete
// a queue with the same name that is declared before it has finished. awaitGone returns the queues that RabbitMQ may still be deleting. It
// declares the new queue of a recreation as soon as the old one is gone.
func (r restoration) awaitGone(ctx context.Context) (vanishing []string) {
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	sent := slices.DeleteFunc(r.queues(), func(queue string) bool { return !r.isSent(queue) })
	failed := forEach(ctx, r.deleter.errs, sent, func(queue string) error {
		if g := r.recreationOf(queue); g != nil {
			if err := r.deleter.declareOnceGone(ctx, r.cluster, *g.recreation); err != nil {
				return err
			}
			r.swapped(g, 0)
			return nil
		}
		for {
			_, exists, err := r.deleter.held(ctx, r.cluster, queue)
			if err == nil && !exists {
				r.gone(queue)
				return nil
			}
			if err := retry.Sleep(ctx, r.deleter.errs, gonePause); err != nil {
				return err
			}
		}
	})
	return slices.Sorted(maps.Keys(failed))
}

// restore declares the deleted queues of a group again if the rest of the group was not deleted, and adds the result to the reason. The
// reason is a message or a consumer in another queue, a lost connection, a deadline, or the end of the call. No stored message is lost,
// because the queues were empty. While a queue is missing, publishers that use mandatory get their messages back. restore declares no queue
// that RabbitMQ may still be deleting; see awaitGone.
func (r restoration) restore(ctx context.Context, g *group, reason error) error {
	if len(g.queues) == 0 { // all queues of the group are deleted
		return nil
	}
	for _, queue := range g.queues {
		if r.isSent(queue) {
			reason = r.deleter.errs.AddTo(reason, fmt.Sprintf(stillDeleting, queue))
		}
	}
	var again []string
	for _, queue := range g.deleted {
		if !r.isSent(queue.Name) || slices.Contains(g.queues, queue.Name) {
			continue
		}
		if err := r.deleter.changer.Declare(ctx, r.cluster, queue.Queue, queue.bindings); err != nil {
			r.deleter.Log.Error(err, "Cannot declare a deleted queue again", "vhost", r.deleter.VHost, "queue", queue.Name)
			reason = r.deleter.errs.AddTo(reason, fmt.Sprintf("queue %q was deleted, and could not be declared again: %v", queue.Name, err))
			continue
		}
		again = append(again, fmt.Sprintf("%q", queue.Name))
		g.queues = append(g.queues, queue.Name)
		r.count(queue.Name, -r.count(queue.Name, 0))
	}
	if len(again) == 0 {
		return reason
	}
	r.deleter.Log.Info("Declared deleted queues again, because another queue of their group was not deleted",
		"vhost", r.deleter.VHost, "queues", again, "reason", reason.Error())
	return r.deleter.errs.AddTo(reason, "deleted queues are declared again: "+strings.Join(again, ", "))
}
