package transfers

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/deadletterqueue"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
)

// takeTurn takes the turn at the dead-letter queue. If the object has to wait, why says for whom.
func (s *scope) takeTurn(ctx context.Context, m Move) (why string, queued bool, err error) {
	first, waits, err := s.whoComesFirst(ctx)
	switch {
	case err != nil:
		return "", false, err
	case waits:
		s.Tasks.await(s.key())
		return fmt.Sprintf("%s %q comes first, and has not ended", first.Kind, first.GetName()), true, nil
	}
	rival, granted := s.Tasks.claim(s.key(), s.before.GetUID(), m.Turn)
	switch {
	case granted:
		return "", false, nil
	case rival.Name == "":
		return "too many Redrives and Purges have begun; this one begins when another has ended", true, nil
	}
	return rival.Uses(m.Turn.Queue, s.before.GetNamespace()), true, nil
}

// whoComesFirst finds another object for the same ConsumerQueue that has its turn before this one.
func (s *scope) whoComesFirst(ctx context.Context) (first Job, waits bool, err error) {
	for _, kind := range []Kind{Redrive, Purge} {
		jobs, err := kind.list(ctx, s.Client, client.InNamespace(s.before.GetNamespace()),
			client.MatchingFields{deadletterqueue.IndexConsumerQueue: s.before.ConsumerQueue})
		if err != nil {
			return Job{}, false, err
		}
		for _, other := range jobs {
			if other.ConsumerQueue != s.before.ConsumerQueue || !wantsTurn(other) || !isBefore(other, s.before) {
				continue
			}
			if s.Tasks.statuses[kind].IsOlder(other.Object) { // it may have ended
				return Job{}, false, statuswriter.ErrStaleCache
			}
			return other, true, nil
		}
	}
	return Job{}, false, nil
}

// wantsTurn says whether an object will take messages as soon as it can.
func wantsTurn(job Job) bool {
	return job.Status.CompletionTime == nil && job.GetDeletionTimestamp().IsZero() && !job.Suspend &&
		!meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionStalled) &&
		!meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionSuspended)
}

// isBefore says whether one object has its turn before another: the one that has begun, else the older one.
func isBefore(one, other Job) bool {
	if one.hasBegun() != other.hasBegun() {
		return one.hasBegun()
	}
	created := one.GetCreationTimestamp()
	return cmp.Or(created.Compare(other.GetCreationTimestamp().Time), cmp.Compare(one.GetName(), other.GetName()),
		cmp.Compare(one.Kind, other.Kind)) < 0
}
