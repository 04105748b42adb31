package redrive

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/ssa"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// scope is one reconciliation of a Redrive.
type scope struct {
	*Reconciler

	redrive *v1alpha1.Redrive
	status  *v1alpha1.RedriveStatus
}

// reconcile does what is next, and returns when to look again.
func (s *scope) reconcile(ctx context.Context) (time.Duration, error) {
	if s.tasks.areEnding() { // whoever leads next goes on
		return 0, nil
	}
	running := s.tasks.look(s.key(), s.redrive.UID)
	if running.cancel != nil {
		record(s.status, running.progress)
	}
	if running.ended && !running.stopped {
		return s.halt(ctx, outcome(s.status, isSet(s.redrive.Spec.DryRun), running.err))
	}
	wanted, why, err := s.resolve(ctx)
	if err != nil {
		return 0, err
	}
	moving := running.cancel != nil && !running.ended
	switch {
	case moving && (why == nil || why.harmless):
		if why == nil && !running.move.is(wanted) {
			s.tasks.stop(s.key()) // and begins again, as is wanted now
		}
		s.tasks.change(s.key(), settingsOf(s.redrive))
		return s.tell(ctx, running)
	case moving: // it settles what it has published, and wakes the Redrive then
		s.tasks.stop(s.key())
		return s.tell(ctx, running)
	case why != nil:
		return s.halt(ctx, *why)
	case running.ended: // it was stopped, and is to go on
		s.tasks.drop(s.key())
	}
	return s.start(ctx, wanted)
}

func (s *scope) key() client.ObjectKey { return client.ObjectKeyFromObject(s.redrive) }

// halt says why no messages are moved, and gives up the turn.
func (s *scope) halt(ctx context.Context, why halt) (time.Duration, error) {
	writer := conditions.For(&s.status.Conditions, s.redrive.Generation)
	if why.suspended {
		writer.SetReady(conditions.Unknown(v1alpha1.ReasonSuspended, why.value.Message), conditions.ProgressNone)
		writer.Set(v1alpha1.ConditionSuspended, conditions.True(v1alpha1.ReasonSuspended, why.value.Message))
	} else {
		writer.ClearSuspended()
		writer.SetReady(why.value, why.progress)
	}
	if why.final {
		s.status.CompletionTime = new(metav1.NewTime(s.now().Truncate(time.Second)))
	}
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	s.tasks.drop(s.key())
	if why.final {
		s.tellConsumerQueue(ctx)
		return s.untilExpired(), nil
	}
	return why.retry, nil
}

// untilExpired is how long a Redrive that has just ended is kept; zero for ever.
func (s *scope) untilExpired() time.Duration {
	if ttl := s.redrive.Spec.TTLSecondsAfterFinished; ttl != nil {
		return time.Duration(*ttl)*time.Second + time.Second
	}
	return 0
}

// start waits for the turn, and begins to move messages.
func (s *scope) start(ctx context.Context, m move) (time.Duration, error) {
	judge, err := judgeOf(s.redrive, m)
	if err != nil {
		return s.halt(ctx, *stalled(v1alpha1.ReasonInvalidSelector, err.Error()))
	}
	s.status.Source, s.status.Destination = v1alpha1.QueueName(m.turn.queue), v1alpha1.QueueName(m.destination)
	s.setLocation(m)
	if rival, queued, err := s.takeTurn(ctx, m); queued || err != nil {
		if err != nil {
			return 0, err
		}
		return s.wait(ctx, v1alpha1.ReasonQueued, rival)
	}
	if stop := s.count(ctx, m); stop != nil {
		return s.halt(ctx, *stop)
	}
	// What is to be moved is written before the first message is: whoever goes on after a crash must know how far to go.
	if err := s.say(ctx, doing(transfer.Moving, "", m.turn.queue, m.destination)); err != nil {
		s.tasks.drop(s.key())
		return 0, err
	}
	s.tasks.begin(s.key(), m, s.configOf(judge, m), settingsOf(s.redrive), s.now())
	return earlyInterval, nil
}

// setLocation records where the queues are.
func (s *scope) setLocation(m move) {
	cluster := m.broker.Health().Cluster.Keeping(recordedLocation(s.status).Cluster)
	s.status.ClusterID, s.status.ClusterName, s.status.ClusterEndpoint = cluster.ID, cluster.Name, cluster.Endpoint
	s.status.VHost = m.turn.vhost
}

// count finds out how many messages there are, once: those that come later are not moved.
func (s *scope) count(ctx context.Context, m move) *halt {
	if s.hasBegun() {
		return nil
	}
	ready, exists, err := m.broker.CountReady(ctx, m.cluster, m.turn.queue)
	if err != nil {
		return whyBrokerRefuses(err)
	}
	if !exists {
		return waiting(v1alpha1.ReasonSourceMissing, fmt.Sprintf("queue %q does not exist", m.turn.queue))
	}
	s.status.Total = new(int64(ready))
	s.status.StartTime = new(metav1.NewTime(s.now().Truncate(time.Second)))
	record(s.status, transfer.Progress{})
	return nil
}

// configOf says what the transfer of a Redrive does.
func (s *scope) configOf(j judge, m move) transfer.Config {
	spec := s.redrive.Spec
	config := transfer.Config{
		Log: s.log.WithValues("redrive", s.key()), Queue: m.turn.queue, Destination: m.destination, Judge: j,
		Total: int(number(s.status.Total)), Moved: int(number(s.status.Moved)), DryRun: isSet(spec.DryRun),
		Selective: spec.Select != nil || m.source.Shared, Limited: m.limited, MaxFailures: 10,
	}
	if config.DryRun {
		config.Moved = 0 // it counts from the start again
	}
	if spec.Limit != nil {
		config.Limit = int(*spec.Limit)
	}
	if spec.MaxFailures != nil {
		config.MaxFailures = int(*spec.MaxFailures)
	}
	return config
}

// settingsOf are the settings of a transfer that may change while it runs.
func settingsOf(redrive *v1alpha1.Redrive) transfer.Settings {
	return transfer.Settings{Rate: numberOf(redrive.Spec.Rate, 0), MaxDepth: numberOf(redrive.Spec.MaxDestinationDepth, -1)}
}

// wait says that a Redrive waits for others, and keeps its place.
func (s *scope) wait(ctx context.Context, reason, message string) (time.Duration, error) {
	return waitRetry, s.say(ctx, conditions.Unknown(reason, message))
}

// tell writes how a transfer fares, if that is due, and returns when to look again.
func (s *scope) tell(ctx context.Context, running task) (time.Duration, error) {
	value := doing(running.progress.State, running.progress.Detail, running.move.turn.queue, running.move.destination)
	before := conditions.Ready(s.status.Conditions)
	now := s.now()
	wait := untilWrite(now, s.status.StartTime.Time, running.writtenAt, before.Reason != value.Reason)
	if wait > 0 && s.status.ObservedGeneration == s.redrive.Generation {
		return wait, nil
	}
	if err := s.say(ctx, value); err != nil {
		return 0, err
	}
	s.tasks.wrote(s.key(), now)
	return untilWrite(now, s.status.StartTime.Time, now, false), nil
}

// say writes a status with a value of Ready of a Redrive that goes on.
func (s *scope) say(ctx context.Context, value conditions.Value) error {
	writer := conditions.For(&s.status.Conditions, s.redrive.Generation)
	writer.ClearSuspended()
	writer.SetReady(value, conditions.Reconciling)
	return s.write(ctx)
}

// write writes the status if it has changed, then the Events that follow from the change.
func (s *scope) write(ctx context.Context) error {
	s.status.ObservedGeneration = s.redrive.Generation
	if equality.Semantic.DeepEqual(s.redrive.Status, *s.status) {
		return nil
	}
	before := s.redrive.Status
	written := s.redrive.DeepCopy()
	s.status.DeepCopyInto(&written.Status)
	written.ManagedFields = nil // the API server keeps them itself
	if err := s.client.Status().Update(ctx, written, ssa.FieldOwner); err != nil {
		return err
	}
	s.written.Wrote(written)
	s.redrive.ResourceVersion, s.redrive.Status = written.ResourceVersion, *s.status.DeepCopy()
	s.recordTransition(before)
	return nil
}
