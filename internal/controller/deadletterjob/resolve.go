package deadletterjob

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/ownership"
)

// resolve returns the Move of the job, or a Blocker.
func (s *scope) resolve(ctx context.Context) (Move, *Blocker, error) {
	if why, err := s.checkFinishedBefore(ctx); why != nil || err != nil {
		return Move{}, why, err
	}
	switch {
	case s.before.Cancel:
		return Move{}, completed(v1alpha1.ReasonCancelled, "%s", s.work.Summary()), nil
	case s.before.Suspend:
		return Move{}, suspended("spec.suspend is true"), nil
	}
	from, stop, err := s.findQueue(ctx)
	if stop != nil || err != nil {
		return Move{}, stop, err
	}
	details, blocker := s.Finder.Inspect(ctx, from)
	if blocker != nil {
		return Move{}, blocker, nil
	}
	m := Move{
		Broker: from.Broker, Cluster: from.Location.Cluster.Key(),
		ConsumerQueue: from.ConsumerQueue.Name, ConsumerQueueUID: from.ConsumerQueue.UID,
		Queue: from.Key(), Details: details,
	}
	stop, err = s.work.ResolveDestination(ctx, from, &m)
	return m, stop, err
}

// findQueue finds the dead-letter queue. A job that has begun never switches to another queue.
func (s *scope) findQueue(ctx context.Context) (Queue, *Blocker, error) {
	from, blocker, err := s.Finder.Find(ctx, client.ObjectKey{Namespace: s.before.GetNamespace(), Name: s.before.ConsumerQueue})
	if err != nil || !s.before.hasBegun() {
		return from, blocker, err
	}
	began := ownership.Recorded(s.status.Location)
	switch {
	case blocker != nil && blocker.Ready.Reason == v1alpha1.ReasonConsumerQueueNotFound:
		metrics.ForgetConsumerQueue(s.before.GetNamespace(), s.before.ConsumerQueue) // the move may have counted more since the deletion
		return from, failed(v1alpha1.ReasonConsumerQueueGone, "%s; %s", blocker.Ready.Message, s.work.Summary()), nil
	case from.ConsumerQueue != nil && string(from.ConsumerQueue.UID) != s.status.ConsumerQueueUID:
		return from, failed(v1alpha1.ReasonConsumerQueueGone, "ConsumerQueue %q was deleted and created again after the %s had begun; %s",
			from.ConsumerQueue.Name, s.Kind, s.work.Summary()), nil
	case from.Broker != nil && !from.Location.IsIn(began):
		return from, failed(v1alpha1.ReasonConnectionChanged, "BrokerConnection %q now leads to %s, but the %s began in %s; %s",
			from.ConsumerQueue.ConnectionName(), from.Location, s.Kind, began, s.work.Summary()), nil
	case blocker == nil && from.Names.Queue != "" && string(s.status.Source) != from.Names.Queue:
		return from, failed(v1alpha1.ReasonSourceChanged,
			"the dead-letter queue of ConsumerQueue %q is now %q, but the %s began with %q; %s",
			from.ConsumerQueue.Name, from.Names.Queue, s.Kind, s.status.Source, s.work.Summary()), nil
	}
	return from, blocker, nil
}
