package safedelete

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// deletedQueue is what it takes to declare a queue again.
type deletedQueue struct {
	topology.Queue
	bindings []topology.Binding
	// sent: the broker was told to delete the queue, whatever it answered.
	sent bool
}

// restoration declares queues of a group again that were deleted before the group was found not to be empty.
type restoration struct{ *deletion }

// remember takes note of a queue that is to be deleted together with others.
func (d restoration) remember(ctx context.Context, queue string) error {
	if len(d.queues) == 1 {
		return nil
	}
	var bindings []vhost.Binding
	err := d.deleter.deletions.requests.Hold(ctx, d.deleter.errs, func() (err error) {
		bindings, err = d.deleter.api.BindingsOf(ctx, queue)
		return err
	})
	if err != nil {
		return wrapQueue(queue, err)
	}
	one := deletedQueue{Queue: topology.Queue{Name: queue, Arguments: vhost.Normalize(d.stats[queue].Arguments)}}
	for _, binding := range bindings {
		one.bindings = append(one.bindings, topology.Binding{
			Source: binding.Source, Destination: queue, RoutingKey: binding.RoutingKey, Arguments: binding.Arguments,
		})
	}
	d.proving.Lock()
	defer d.proving.Unlock()
	d.deleted = append(d.deleted, one)
	return nil
}

// sent takes note that the broker is told to delete a queue from here on.
func (d restoration) sent(queue string) {
	for i := range d.deleted {
		if d.deleted[i].Name == queue {
			d.deleted[i].sent = true
		}
	}
}

// restore declares again what was deleted before something came into another queue of the group, and adds to the reason
// what came of it. Nothing is lost: the queues were empty, and publishers who use mandatory know what reached no queue.
func (d restoration) restore(ctx context.Context, reason error) error {
	if len(d.queues) == 0 { // all of the group are deleted
		return nil
	}
	var again []string
	for _, queue := range d.deleted {
		if !queue.sent {
			continue
		}
		if err := d.deleter.broker.Declare(ctx, d.cluster, queue.Queue, queue.bindings); err != nil {
			d.deleter.Log.Error(err, "A queue that was deleted could not be declared again", "vhost", d.deleter.VHost, "queue", queue.Name)
			return d.deleter.errs.AddTo(reason, fmt.Sprintf("queue %q was deleted, and could not be declared again: %v", queue.Name, err))
		}
		again = append(again, fmt.Sprintf("%q", queue.Name))
		if !slices.Contains(d.queues, queue.Name) {
			d.queues = append(d.queues, queue.Name)
			d.inside[queue.Name] = 0
		}
	}
	if len(again) == 0 {
		return reason
	}
	d.deleter.Log.Info("Declared queues again that were deleted before another queue of their group got a message or a consumer",
		"vhost", d.deleter.VHost, "queues", again, "reason", reason.Error())
	return d.deleter.errs.AddTo(reason, "queues deleted before are declared again: "+strings.Join(again, ", "))
}
