package deadletterjob

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/topology"
)

// ResolveDestination resolves spec.destination. It refuses a queue with a delivery limit if some messages would be read and stay.
func (w *redriveWork) ResolveDestination(ctx context.Context, from Queue, m *Move) (*Blocker, error) {
	if leaves := w.whyMessagesStay(m.Source.Shared); m.Limited && leaves != "" {
		return stalled(v1alpha1.ReasonDeliveryLimited,
			"queue %q has a delivery limit, so the broker may delete messages that are examined and returned. This Redrive would "+
				"return some, because %s. Move all messages, or recreate the queue with deliveryLimit Unlimited", m.Queue.Name, leaves), nil
	}
	stop, err := w.findDestination(ctx, from, m)
	if stop != nil || err != nil {
		return stop, err
	}
	m.RouteQueues = []string{cmp.Or(m.Destination, from.Names.Main)} // messages to their original route are assumed to reach the main queue
	if m.Behind != "" {
		m.RouteQueues = append(m.RouteQueues, m.Behind)
	}
	if stop := checkDestinationKeeps(*m); stop != nil {
		return stop, nil
	}
	w.status.Destination = v1alpha1.QueueName(m.Destination)
	return nil, nil
}

// checkDestinationKeeps returns a Blocker if a queue on the route drops messages when it is full.
func checkDestinationKeeps(m Move) *Blocker {
	why, read := m.whyDrops()
	switch {
	case !read:
		return waiting(v1alpha1.ReasonConsumerQueueNotReady, "Warren has not read queue %q yet", m.RouteQueues[0])
	case why != "":
		return stalled(v1alpha1.ReasonDestinationDropsMessages,
			"%s: when the queue is full, it drops its oldest messages, so a Redrive could lose as many messages as it moves. Set "+
				"overflow RejectPublish for the queue, or move the messages to another ConsumerQueue", why)
	}
	return nil
}

// whyMessagesStay names the field that makes some messages stay after they are examined; empty if all messages are moved.
func (w *redriveWork) whyMessagesStay(shared bool) string {
	spec := w.redrive.Spec
	switch {
	case w.job.DryRun:
		return "spec.dryRun is set"
	case spec.Selector != nil:
		return "spec.selector is set"
	case spec.MaxMessages != nil:
		return "spec.maxMessages is set"
	case shared:
		return "other ConsumerQueues share the queue"
	}
	return ""
}

func (w *redriveWork) findDestination(ctx context.Context, from Queue, m *Move) (*Blocker, error) {
	given := w.redrive.Spec.Destination
	if given == nil {
		given = &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToMain}
	}
	switch given.Type {
	case v1alpha1.RedriveToOriginal:
		return nil, nil
	case v1alpha1.RedriveToRetry:
		return toTier(from, given.Delay, m), nil
	case v1alpha1.RedriveToConsumerQueue:
		return w.toConsumerQueue(ctx, from, given.ConsumerQueueRef.Name, m)
	}
	toQueue(from.Names.Main, m)
	return nil, nil
}

func toQueue(name string, m *Move) {
	m.Destination, m.Route = name, contract.Route{RoutingKey: name}
}

// toTier sets a delay tier as the destination.
func toTier(from Queue, delay v1alpha1.Duration, m *Move) *Blocker {
	wanted, err := delay.Parse()
	if delay != "" && err != nil {
		return stalled(v1alpha1.ReasonInvalidDestination, "spec.destination.delay: %v", err)
	}
	at := slices.IndexFunc(from.Names.Tiers, func(tier topology.TierRoute) bool { return delay == "" || tier.Delay == wanted })
	if at < 0 {
		delays := make([]string, len(from.Names.Tiers))
		for i, tier := range from.Names.Tiers {
			delays[i] = tier.Delay.String()
		}
		message := fmt.Sprintf("ConsumerQueue %q has no delay tier", from.ConsumerQueue.Name)
		if len(delays) > 0 {
			message = fmt.Sprintf("spec.destination.delay %s: ConsumerQueue %q has delay tiers of %s",
				delay, from.ConsumerQueue.Name, text.Quoted(delays))
		}
		return stalled(v1alpha1.ReasonInvalidDestination, "%s", message)
	}
	m.Destination, m.Route, m.Behind = from.Names.Tiers[at].Queue, from.Names.Tiers[at].Route, from.Names.Main
	return nil
}

// toConsumerQueue sets the main queue of another ConsumerQueue as the destination.
func (w *redriveWork) toConsumerQueue(ctx context.Context, from Queue, name string, m *Move) (*Blocker, error) {
	cq, blocker, err := w.finder.ConsumerQueue(ctx, client.ObjectKey{Namespace: w.redrive.Namespace, Name: name})
	if blocker != nil || err != nil {
		return blocker, err
	}
	if cq.ConnectionName() != from.ConsumerQueue.ConnectionName() {
		return stalled(v1alpha1.ReasonInvalidDestination,
			"spec.destination.consumerQueueRef: ConsumerQueue %q has BrokerConnection %q, and messages come from %q",
			name, cq.ConnectionName(), from.ConsumerQueue.ConnectionName()), nil
	}
	if blocker := ComparedAt(from.Location, cq); blocker != nil {
		return blocker, nil
	}
	if !HasQueue(cq, cq.QueueName()) {
		return waiting(v1alpha1.ReasonDestinationMissing, "queue %q does not exist", cq.QueueName()), nil
	}
	toQueue(cq.QueueName(), m)
	return nil, nil
}
