package transfers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/deadletterqueue"
	"github.com/warren-mq/warren/internal/ownership"
)

// resolve finds out which messages are to be taken, and where they go, or why none are.
func (s *scope) resolve(ctx context.Context) (Move, *Halt, error) {
	if why, err := s.whyFinished(ctx); why != nil || err != nil {
		return Move{}, why, err
	}
	switch {
	case s.before.Cancel:
		return Move{}, Done(v1alpha1.ReasonCancelled, "cancelled: "+s.work.Tally()), nil
	case s.before.Suspend:
		return Move{}, suspended("spec.suspend is set"), nil
	}
	from, stop, err := s.findQueue(ctx)
	if stop != nil || err != nil {
		return Move{}, stop, err
	}
	details, obstacle := s.Finder.Inspect(ctx, from)
	if obstacle != nil {
		return Move{}, HaltOf(obstacle), nil
	}
	m := Move{
		Broker: from.Broker, Cluster: from.Location.Cluster.Key(), ConsumerQueue: from.ConsumerQueue.Name,
		Turn:   from.Turn(),
		Source: details.Source, Limited: details.Limited,
	}
	stop, err = s.work.Destine(ctx, from, &m)
	return m, stop, err
}

// findQueue finds the dead-letter queue: the same one as at the beginning.
func (s *scope) findQueue(ctx context.Context) (deadletterqueue.Queue, *Halt, error) {
	from, obstacle, err := s.Finder.Find(ctx, client.ObjectKey{Namespace: s.before.GetNamespace(), Name: s.before.ConsumerQueue})
	if err != nil || !s.before.hasBegun() {
		return from, HaltOf(obstacle), err
	}
	began := ownership.Recorded(s.status.Location)
	switch {
	case obstacle != nil && obstacle.Reason == v1alpha1.ReasonConsumerQueueNotFound:
		return from, Failed(v1alpha1.ReasonConsumerQueueGone, obstacle.Message+"; "+s.work.Tally()), nil
	case from.Broker != nil && !from.Location.IsIn(began):
		return from, Failed(v1alpha1.ReasonConnectionChanged, fmt.Sprintf(
			"BrokerConnection %q leads to %s now, and the %s began in %s; %s",
			from.ConsumerQueue.ConnectionName(), from.Location, s.Kind, began, s.work.Tally())), nil
	case obstacle == nil && from.Names.Queue != "" && string(s.status.Source) != from.Names.Queue:
		return from, Failed(v1alpha1.ReasonSourceChanged, fmt.Sprintf(
			"the dead-letter queue of ConsumerQueue %q is %q now, and the %s began with %q; %s",
			from.ConsumerQueue.Name, from.Names.Queue, s.Kind, s.status.Source, s.work.Tally())), nil
	}
	return from, HaltOf(obstacle), nil
}
