package deadletterjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// scope is one reconciliation of a job that has not ended.
type scope struct {
	*Reconciler

	// before is the job as last read or written.
	before Job
	work   Work
	// changed is the object whose status this reconciliation changes, as work does. status is a part of it.
	changed client.Object
	status  *v1alpha1.JobStatus
	// waitsToCount: the job waits for a slot of the Limiter.
	waitsToCount bool
}

func (r *Reconciler) scopeOf(object client.Object) *scope {
	changed := object.DeepCopyObject().(client.Object)
	return &scope{
		Reconciler: r, before: jobOf(object), work: r.Kind.workOn(changed, r.Finder), changed: changed, status: jobOf(changed).Status,
	}
}

func (s *scope) key() Key { return s.before.key() }

// isOpen reports whether the connection of a move is still open. A move has an AMQP connection of its own, so otherwise it would use
// credentials that are no longer in the Secret.
func (s *scope) isOpen(m Move) bool { return s.Finder.pool.Get(m.Queue.Connection) == m.Broker }

// reconcile advances the job, and returns when to reconcile again; zero means when an event arrives.
func (s *scope) reconcile(ctx context.Context) (time.Duration, error) {
	if s.Tasks.areEnding() { // the next leader continues
		return 0, nil
	}
	running := s.Tasks.get(s.key(), s.before.GetUID())
	if why := s.work.SyncProgress(running); why != nil {
		return s.block(ctx, *why)
	}
	wanted, why, err := s.resolve(ctx)
	if err != nil {
		return 0, err
	}
	switch {
	case running.runs() && (why == nil || why.KeepRunning && s.isOpen(running.Move)):
		if why == nil && !running.Move.is(wanted) {
			s.Tasks.stop(s.key()) // another task follows with the new Move
		}
		if running.settings.Rate != s.before.Rate {
			s.logRate()
		}
		s.Tasks.change(s.key(), s.settings())
		return s.writeProgress(ctx, running)
	case running.runs(): // it settles the published messages, then enqueues the job
		s.Tasks.stop(s.key())
		return s.writeProgress(ctx, running)
	case why != nil:
		return s.block(ctx, *why)
	case running.isReclaimed():
		return s.waitForSlot(ctx, running)
	case running.HasBegun(): // write its progress before the task is dropped
		if err := s.write(ctx); err != nil {
			return 0, err
		}
		s.drop()
	}
	return s.start(ctx, wanted)
}

// waitForSlot writes the progress of a move that waited and was stopped because another job needed its slot. The job tries again later.
func (s *scope) waitForSlot(ctx context.Context, stopped Task) (time.Duration, error) {
	value := s.work.RunningCondition(stopped.reclaimed, stopped.Move)
	value.Message += fmt.Sprintf(". Another job needed the slot of this %s, which tries again every %v", s.Kind, waitRetry)
	if err := s.writeRunning(ctx, value); err != nil {
		return 0, err
	}
	s.drop()
	return waitRetry, nil
}

// drop releases the turn of a job that has not ended.
func (s *scope) drop() {
	if s.Tasks.get(s.key(), s.before.GetUID()).HasBegun() {
		s.logOutcome("Stopped")
	}
	s.Tasks.drop(s.key(), s.before.GetUID())
}

// observeGeneration records the newest generation in the status of a job that has ended.
func (s *scope) observeGeneration(ctx context.Context) error {
	writer := conditions.For(&s.status.Conditions, s.before.GetGeneration())
	for _, condition := range s.status.Conditions {
		writer.Keep(condition.Type)
	}
	return s.write(ctx)
}

// block writes why no messages are taken, and releases the turn.
func (s *scope) block(ctx context.Context, why Blocker) (time.Duration, error) {
	why = limitWait(why, s.before, s.Now())
	writer := conditions.For(&s.status.Conditions, s.before.GetGeneration())
	if why.Suspended {
		writer.SetReady(conditions.Unknown(v1alpha1.ReasonSuspended, why.Ready.Message), conditions.ProgressNone)
		writer.Set(v1alpha1.ConditionSuspended, conditions.True(v1alpha1.ReasonSuspended, why.Ready.Message))
	} else {
		writer.ClearSuspended()
		writer.SetReady(why.Ready, why.Progress)
	}
	const missing = v1alpha1.ReasonConsumerQueueNotFound
	if why.Ready.Reason == missing && conditions.Ready(s.before.Status.Conditions).Reason != missing { // limitWait counts from now
		meta.FindStatusCondition(s.status.Conditions, v1alpha1.ConditionReady).LastTransitionTime = metav1.NewTime(s.Now())
	}
	if why.Final {
		writer.SetEnded(why.Ready)
		s.status.CompletionTime = new(metav1.NewTime(s.Now().Truncate(time.Second)))
	}
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	if !why.Final {
		s.drop()
		return why.Retry, nil
	}
	s.Tasks.drop(s.key(), s.before.GetUID())
	s.logOutcome("Ended")
	s.recordOnConsumerQueue(ctx)
	return s.untilExpired(), s.recordCompletion(ctx, s.before)
}

// untilExpired returns for how long a job that has just ended is kept; zero is forever.
func (s *scope) untilExpired() time.Duration {
	if s.before.TTL != nil {
		return time.Duration(*s.before.TTL)*time.Second + time.Second
	}
	return 0
}

// start waits for the turn and starts the task.
func (s *scope) start(ctx context.Context, m Move) (time.Duration, error) {
	config, wrong := s.work.Config(m)
	if wrong != nil {
		return s.block(ctx, *wrong)
	}
	// Jobs of other ConsumerQueues do not change the count of a Purge, except for messages of unknown origin: any job may take these.
	shares := m.Source.Shared && (!config.Delete || config.Apart != nil)
	if why, err := s.checkOvertaken(ctx, shares); err != nil {
		return 0, err
	} else if why != nil {
		return s.block(ctx, *why)
	}
	s.setLocation(m)
	if why, queued, err := s.acquireTurn(ctx, m); err != nil {
		return 0, err
	} else if queued {
		return waitRetry, s.writeRunning(ctx, conditions.Unknown(v1alpha1.ReasonQueued, why))
	}
	if stop := s.count(ctx, m); stop != nil {
		return s.block(ctx, *stop)
	}
	verb := "Started"
	if s.before.hasBegun() {
		verb = "Continued"
	}
	config.Log, config.Queue, config.Total = s.auditLog(), m.Queue.Name, int(ptr.Deref(s.status.Total, 0))
	if err := s.announce(ctx, m, config); err != nil {
		s.Tasks.drop(s.key(), s.before.GetUID())
		return 0, err
	}
	s.logStart(verb)
	s.Tasks.begin(s.key(), m, config, s.settings(), s.Now())
	return earlyInterval, nil
}

// settings returns the settings of the task. They allow no more messages than the written status.atMost.
func (s *scope) settings() mover.Settings {
	return mover.Settings{Rate: s.before.Rate, MaxDepth: s.before.MaxDepth, MaxMoved: int(ptr.Deref(s.before.Status.AtMost, 0))}
}

// announce writes the status before the first message is taken, because the next manager needs it after a crash. A job that the
// broker refused keeps its Ready condition until it moves messages.
func (s *scope) announce(ctx context.Context, m Move, config mover.Config) error {
	s.work.RecordIntent()
	if !config.DryRun {
		begun := mover.Progress{Moved: config.Moved, Unsure: config.Unsure}
		s.status.AtMost = new(int64(nextAtMost(config, begun, s.before.Rate)))
	}
	if s.before.hasBegun() && conditions.Ready(s.status.Conditions).Reason == v1alpha1.ReasonPermissionDenied {
		return s.write(ctx)
	}
	return s.writeRunning(ctx, s.work.RunningCondition(mover.Progress{}, m))
}

func (s *scope) setLocation(m Move) {
	s.status.Source = v1alpha1.QueueName(m.Queue.Name)
	ownership.Location{Cluster: m.Broker.Health().Cluster, VHost: m.Queue.Location.VHost}.Record(&s.status.Location)
}

// count counts the messages when the job begins. The job does not take messages that arrive later.
func (s *scope) count(ctx context.Context, m Move) *Blocker {
	if s.before.hasBegun() {
		return nil
	}
	release, ok := s.Limiter.TryAcquire(m.Queue.Location.Cluster.Endpoint, s.key().ObjectKey)
	if !ok {
		s.waitsToCount = true
		stop := waiting(v1alpha1.ReasonQueued, "other jobs are counting messages, and this job has no slot to count the messages "+
			"of queue %q. This job begins by itself when it gets a slot", m.Queue.Name)
		stop.Retry = brokers.LimiterRetry
		return stop
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	counted, exists, err := m.Broker.CountQueue(ctx, m.Cluster, m.Queue.Name, m.Type)
	if err != nil {
		return brokerRefused(err)
	}
	if !exists {
		return waiting(v1alpha1.ReasonSourceMissing, "queue %q does not exist", m.Queue.Name)
	}
	switch {
	case counted.Ready+counted.Held > 0:
	case m.Limited && counted.IsUncounted: // a browse could make the broker delete messages
		return tooBusy(m.Queue.Name)
	case !m.Limited:
		if stop := s.checkCounted(ctx, m); stop != nil {
			return stop
		}
	}
	s.status.Total = new(int64(counted.Ready + counted.Held))
	s.status.StartTime = new(metav1.NewTime(s.Now().Truncate(time.Second)))
	s.status.ConsumerQueueUID = string(m.ConsumerQueueUID)
	return nil
}

// countLimit is how long a worker may count the messages of a queue. A broker that delivers none of the messages that it announces
// would otherwise hold the worker until the end of the reconciliation.
const countLimit = 30 * time.Second

func tooBusy(queue string) *Blocker {
	stop := waiting(v1alpha1.ReasonBrokerUnreachable, "queue %q is too busy to count its messages", queue)
	stop.Retry = soonRetry
	return stop
}

// checkCounted returns a Blocker if a queue reports zero messages but holds some. A busy quorum queue does that, and the job would end
// immediately.
func (s *scope) checkCounted(ctx context.Context, m Move) *Blocker {
	counted := true
	_, err := m.Broker.Browse(ctx, m.Cluster, mover.BrowseConfig{
		Log: s.Log, Queue: m.Queue.Name, MaxMessages: 1,
		Visit: func(int, *amqp.Delivery) bool {
			counted = false
			return false
		},
	})
	switch {
	case ctx.Err() != nil: // the browse may have ended before the first message
		return waiting(v1alpha1.ReasonBrokerUnreachable, "the broker did not show within %v whether queue %q has messages",
			countLimit, m.Queue.Name)
	case !counted, errors.Is(err, mover.ErrUnreadable):
		return tooBusy(m.Queue.Name)
	case err != nil:
		return brokerRefused(err)
	}
	return nil
}

// writeProgress writes the progress of the task and the next atMost if either is due. It returns when to reconcile again.
func (s *scope) writeProgress(ctx context.Context, running Task) (time.Duration, error) {
	value := s.work.RunningCondition(running.Progress, running.Move)
	before := conditions.Ready(s.status.Conditions)
	now := s.Now()
	wait := untilWrite(now, s.status.StartTime.Time, running.writtenAt, before.Reason != value.Reason)
	needsAtMost := running.needsAtMost()
	if wait > 0 && !needsAtMost && s.status.ObservedGeneration == s.before.GetGeneration() {
		return wait, nil
	}
	if needsAtMost {
		s.status.AtMost = new(int64(nextAtMost(running.config, running.Progress, running.settings.Rate)))
	}
	if err := s.writeRunning(ctx, value); err != nil {
		return 0, err
	}
	s.Tasks.wrote(s.key(), now)
	s.Tasks.change(s.key(), s.settings())
	return untilWrite(now, s.status.StartTime.Time, now, false), nil
}

// writeRunning writes the status of a job that has not ended.
func (s *scope) writeRunning(ctx context.Context, value conditions.Value) error {
	writer := conditions.For(&s.status.Conditions, s.before.GetGeneration())
	writer.ClearSuspended()
	writer.SetReady(value, conditions.Reconciling)
	return s.write(ctx)
}

// write writes the status if it has changed, then the Events that follow from the change.
func (s *scope) write(ctx context.Context) error {
	s.status.ObservedGeneration = s.before.GetGeneration()
	changed := s.changed
	if equality.Semantic.DeepEqual(s.before.Object, changed) {
		return nil
	}
	before := s.before
	written := changed.DeepCopyObject().(client.Object)
	if err := s.Tasks.statuses[s.Kind].Update(ctx, s.Client, written); err != nil {
		return err
	}
	changed.SetResourceVersion(written.GetResourceVersion())
	s.before = jobOf(changed.DeepCopyObject().(client.Object))
	s.recordTransition(*before.Status)
	return nil
}
