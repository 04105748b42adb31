package deadletterjob

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/ownership"
)

// acquireTurn acquires the turn at the dead-letter queue. If the job is queued, it returns the reason in words.
func (s *scope) acquireTurn(ctx context.Context, m Move) (why string, queued bool, err error) {
	first, waits, err := s.nextInQueue(ctx)
	switch {
	case err != nil:
		return "", false, err
	case waits:
		s.Tasks.await(s.before.turn(), first.key())
		if s.Tasks.statuses[first.Kind].IsOlder(first.Object) { // it may have ended before await
			return "", false, statuswriter.ErrStaleCache
		}
		if isBlocked(first) {
			return fmt.Sprintf("%s %q comes first, but cannot continue (%s). This %s waits, because it could delete messages that the %s "+
				"should move. Fix the cause, or cancel or delete the %s",
				first.Kind, first.GetName(), conditions.Ready(first.Status.Conditions).Reason, s.Kind, first.Kind, first.Kind), true, nil
		}
		return fmt.Sprintf("%s %q comes first, and has not ended", first.Kind, first.GetName()), true, nil
	}
	wait, granted := s.Tasks.acquire(s.key(), s.before.GetUID(), m.Queue)
	if granted {
		return "", false, nil
	}
	return wait.textFor(s.key(), m.Queue.Name), true, nil
}

// nextInQueue returns the first job of the same ConsumerQueue for which this one waits. waits is false if there is none.
func (s *scope) nextInQueue(ctx context.Context) (first Job, waits bool, err error) {
	jobs, err := s.jobsOfConsumerQueue(ctx)
	earlier := slices.DeleteFunc(jobs, func(other Job) bool { return !s.before.waitsFor(other) })
	if err != nil || len(earlier) == 0 {
		return Job{}, false, err
	}
	return slices.MinFunc(earlier, compareTurns), true, nil
}

// jobsOfConsumerQueue returns the jobs of the same ConsumerQueue, including this one.
func (s *scope) jobsOfConsumerQueue(ctx context.Context) (jobs []Job, err error) {
	jobs, err = listJobs(ctx, s.Client, client.InNamespace(s.before.GetNamespace()),
		client.MatchingFields{indexConsumerQueue: s.before.ConsumerQueue})
	// The index also has the Redrives that move messages to the ConsumerQueue.
	return slices.DeleteFunc(jobs, func(job Job) bool { return job.ConsumerQueue != s.before.ConsumerQueue }), err
}

// checkOvertaken returns the Blocker of a job that was suspended or stalled while another job took messages of the queue. The other job may
// have taken messages that the first one has counted, and newer dead letters cannot be distinguished from the rest. If shares is true, the
// other job may also belong to another ConsumerQueue.
func (s *scope) checkOvertaken(ctx context.Context, shares bool) (*Blocker, error) {
	if !s.before.hasBegun() {
		return nil, nil
	}
	jobs, cqs, err := s.jobsAndRecords(ctx, shares)
	if err != nil {
		return nil, err
	}
	for _, other := range jobs {
		if other.DryRun || other.key() == s.key() {
			continue
		}
		if s.Tasks.statuses[other.Kind].IsOlder(other.Object) { // the newest version may have taken messages
			return nil, statuswriter.ErrStaleCache
		}
		if s.isAfterStart(other.tookSince()) && other.Status.Source == s.status.Source && s.isAt(other.Status.Location) {
			return s.overtaken(other.Kind, client.ObjectKeyFromObject(other.Object)), nil
		}
	}
	for _, cq := range cqs {
		if !hasDeadLetterQueue(cq, string(s.status.Source)) || !s.isAt(cq.Status.Location) {
			continue
		}
		for _, entry := range cq.Status.FinishedJobs { // the job itself may be gone
			exists := func(job Job) bool { // a job that was created again took no messages itself
				return job.GetNamespace() == cq.Namespace && job.tookSince() != nil && finishedJob(job).isSameJob(entry)
			}
			if s.isAfterStart(entry.StartTime) && !slices.ContainsFunc(jobs, exists) {
				return s.overtaken(Kind(entry.Kind), client.ObjectKey{Namespace: cq.Namespace, Name: entry.Name}), nil
			}
		}
	}
	return nil, nil
}

// jobsAndRecords returns the jobs of the ConsumerQueue, and the ConsumerQueue, which lists its finished jobs. If shares is true, it returns
// all jobs and ConsumerQueues of all namespaces. The caller must not change them.
func (s *scope) jobsAndRecords(ctx context.Context, shares bool) (jobs []Job, cqs []*v1alpha1.ConsumerQueue, err error) {
	if !shares {
		jobs, err := s.jobsOfConsumerQueue(ctx)
		if err != nil {
			return nil, nil, err
		}
		own, err := s.recordOf(ctx, s.before)
		if own == nil {
			return jobs, nil, err
		}
		return jobs, []*v1alpha1.ConsumerQueue{own}, err
	}
	list := &v1alpha1.ConsumerQueueList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list ConsumerQueues: %w", err)
	}
	for i := range list.Items {
		if s.Tasks.records.IsOlder(&list.Items[i]) {
			return nil, nil, statuswriter.ErrStaleCache
		}
		cqs = append(cqs, &list.Items[i])
	}
	jobs, err = listJobs(ctx, s.Client)
	return jobs, cqs, err
}

// isAfterStart reports whether a time is later than the start of the job.
func (s *scope) isAfterStart(at *metav1.Time) bool {
	return at != nil && at.After(s.status.StartTime.Time)
}

func (s *scope) isAt(location v1alpha1.Location) bool {
	return ownership.Recorded(location).IsIn(ownership.Recorded(s.status.Location))
}

// overtaken ends a job because another one has taken messages of its queue. The message does not name jobs of other namespaces.
func (s *scope) overtaken(kind Kind, other client.ObjectKey) *Blocker {
	name := fmt.Sprintf("%s %q", kind, other.Name)
	if other.Namespace != s.before.GetNamespace() {
		name = fmt.Sprintf("a %s in another namespace", kind)
	}
	return failed(v1alpha1.ReasonIncomplete,
		"%s; %s may have taken messages of queue %q meanwhile, so Warren cannot know which counted messages remain. Create "+
			"another %s for the rest",
		s.work.Summary(), name, s.status.Source, s.Kind)
}

// hasDeadLetterQueue reports whether a queue is the dead-letter queue of a ConsumerQueue according to the status.
func hasDeadLetterQueue(cq *v1alpha1.ConsumerQueue, name string) bool {
	return slices.ContainsFunc(cq.Status.Topology, func(entry v1alpha1.TopologyEntry) bool {
		return entry.Kind == v1alpha1.KindQueue && entry.Role == v1alpha1.RoleDeadLetter && entry.Name == name
	})
}

// waitsFor reports whether another job has its turn first. Jobs overtake a blocked job, which may wait for days. Only a Purge waits
// for a blocked Redrive, because it could delete messages that the Redrive should move, unless one of the two is a dry run.
func (j Job) waitsFor(other Job) bool {
	if !wantsTurn(other) || !isBefore(other, j) {
		return false
	}
	return !isBlocked(other) || j.Kind == Purge && !j.DryRun && other.Kind == Redrive && !other.DryRun
}

// isBlocked reports whether a job cannot take messages before something else changes. A Redrive is also Suspended if the ConsumerQueue of
// its destination is.
func isBlocked(job Job) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionStalled) ||
		meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionSuspended) ||
		!job.hasBegun() && conditions.Ready(job.Status.Conditions).Reason == v1alpha1.ReasonDestinationMissing
}

// wantsTurn reports whether a job takes messages when its turn comes and nothing blocks it.
func wantsTurn(job Job) bool {
	return job.Status.CompletionTime == nil && job.GetDeletionTimestamp().IsZero() && !job.Suspend
}

// isBefore reports whether one job has its turn before the other.
func isBefore(one, other Job) bool { return compareTurns(one, other) < 0 }

// compareTurns orders the jobs of a ConsumerQueue: a job that has begun comes first, then the older one.
func compareTurns(one, other Job) int { return one.turn().compare(other.turn()) }

// turn is the place of a job among the jobs of a ConsumerQueue.
type turn struct {
	begun   bool
	created time.Time
	key     Key
}

func (j Job) turn() turn { return turn{j.hasBegun(), j.GetCreationTimestamp().Time, j.key()} }

func (t turn) compare(other turn) int {
	switch {
	case t.begun && !other.begun:
		return -1
	case !t.begun && other.begun:
		return 1
	}
	return cmp.Or(t.created.Compare(other.created), cmp.Compare(t.key.Name, other.key.Name), cmp.Compare(t.key.Kind, other.key.Kind))
}
