package deadletterjob

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
)

// acquireTurn acquires the turn at the dead-letter queue. If the job is queued, it returns the reason in words.
func (s *scope) acquireTurn(ctx context.Context, m Move) (why string, queued bool, err error) {
	first, waits, err := s.nextInQueue(ctx)
	switch {
	case err != nil:
		return "", false, err
	case waits:
		s.Tasks.await(s.key())
		return fmt.Sprintf("%s %q comes first, and has not ended", first.Kind, first.GetName()), true, nil
	}
	wait, granted := s.Tasks.acquire(s.key(), s.before.GetUID(), m.Queue)
	if granted {
		return "", false, nil
	}
	return wait.textFor(s.key(), m.Queue.Name), true, nil
}

// nextInQueue returns another job of the same ConsumerQueue that comes before this one.
func (s *scope) nextInQueue(ctx context.Context) (first Job, waits bool, err error) {
	jobs, err := s.jobsOfConsumerQueue(ctx)
	for _, other := range jobs {
		if !wantsTurn(other) || !isBefore(other, s.before) {
			continue
		}
		if s.Tasks.statuses[other.Kind].IsOlder(other.Object) { // the newest version may have ended
			return Job{}, false, statuswriter.ErrStaleCache
		}
		return other, true, nil
	}
	return Job{}, false, err
}

// jobsOfConsumerQueue returns the jobs of the same ConsumerQueue, including this one.
func (s *scope) jobsOfConsumerQueue(ctx context.Context) (jobs []Job, err error) {
	for _, kind := range []Kind{Redrive, Purge} {
		found, err := kind.list(ctx, s.Client, client.InNamespace(s.before.GetNamespace()),
			client.MatchingFields{IndexConsumerQueue: s.before.ConsumerQueue})
		if err != nil {
			return nil, err
		}
		// The index also has the Redrives that move messages to the ConsumerQueue.
		jobs = append(jobs, slices.DeleteFunc(found, func(job Job) bool { return job.ConsumerQueue != s.before.ConsumerQueue })...)
	}
	return jobs, nil
}

// checkOvertaken returns the Blocker of a job that was suspended or stalled while another job took messages of the queue. The other
// job may have taken messages of its total, and newer dead letters cannot be distinguished from the rest.
func (s *scope) checkOvertaken(ctx context.Context) (*Blocker, error) {
	if !s.before.hasBegun() {
		return nil, nil
	}
	jobs, err := s.jobsOfConsumerQueue(ctx)
	for _, other := range jobs {
		began := other.Status.StartTime
		if other.DryRun || began == nil || !began.After(s.status.StartTime.Time) || number(other.Status.Examined) == 0 {
			continue
		}
		return failed(v1alpha1.ReasonIncomplete,
			"%s; %s %q has taken messages of queue %q since, so the counted messages are no longer known. Create another %s for the rest",
			s.work.Summary(), other.Kind, other.GetName(), s.status.Source, s.Kind), nil
	}
	return nil, err
}

// wantsTurn reports whether a job takes messages as soon as it has its turn.
func wantsTurn(job Job) bool {
	return job.Status.CompletionTime == nil && job.GetDeletionTimestamp().IsZero() && !job.Suspend &&
		!meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionStalled) &&
		!meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionSuspended)
}

// isBefore reports whether one job has its turn before the other: a job that has begun comes first, then the older one.
func isBefore(one, other Job) bool {
	if one.hasBegun() != other.hasBegun() {
		return one.hasBegun()
	}
	created := one.GetCreationTimestamp()
	return cmp.Or(created.Compare(other.GetCreationTimestamp().Time), cmp.Compare(one.GetName(), other.GetName()),
		cmp.Compare(one.Kind, other.Kind)) < 0
}
