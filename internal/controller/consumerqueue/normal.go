package consumerqueue

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
)

func (s *scope) reconcileNormal(ctx context.Context) (reconciled, error) {
	s.status.QueueName, s.status.ConnectionName = s.cq.QueueName(), s.cq.ConnectionName()
	if s.cq.Spec.Suspend && !s.isSwapping() {
		s.suspend("spec.suspend is true: Warren neither reads nor changes the objects of this resource" + s.whatContinues())
		return reconciled{}, nil
	}
	bc, err := brokers.ConnectionOf(ctx, s.client, s.cq)
	if err != nil {
		return reconciled{}, err
	}
	writer := conditions.For(&s.status.Conditions, s.cq.Generation)
	if bc == nil {
		writer.ClearSuspended()
		s.setConditions(summaryOfWaiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf(
			"BrokerConnection %q not found in namespace %q: create it, or name another in spec.connectionRef",
			s.cq.ConnectionName(), s.cq.Namespace)))
		return reconciled{}, nil // a watch enqueues this resource when the BrokerConnection is created
	}
	if !ownership.Recorded(s.status.Location).Cluster.Known() { // otherwise it belongs to the inventory; see switchLocation
		s.status.Location.VHost = bc.Spec.VHost
	}
	if bc.Spec.Suspend {
		s.suspend(fmt.Sprintf("BrokerConnection %q is suspended", bc.Name))
		return reconciled{}, nil
	}
	writer.ClearSuspended()
	result, err := s.reconcileThrough(ctx, bc)
	s.updateMessages(bc)
	return result, err
}

// suspend stops all work at the broker, except the running phase of a recreation.
func (s *scope) suspend(message string) {
	s.cancelPruning()
	s.recreations.rest(s.key())
	s.setObservedGeneration()
	conditions.For(&s.status.Conditions, s.cq.Generation).SetSuspended(message)
}

// reconcileThrough continues with a BrokerConnection. While the BrokerConnection connects, or has failed for less time than a restart of
// the broker takes, reconcileThrough keeps the status. It only writes that a new generation must wait, and drift that the snapshot shows.
func (s *scope) reconcileThrough(ctx context.Context, bc *v1alpha1.BrokerConnection) (reconciled, error) {
	connection, version, usable := s.pool.Usable(bc)
	ready := conditions.ReadyOf(bc)
	current := ready.ObservedGeneration == bc.Generation
	if current && ready.Status == metav1.ConditionFalse {
		s.setConditions(summaryOfWaiting(conditions.ConnectionReason(ready), conditions.WhyNotReady(bc.Name, ready)))
		return reconciled{}, nil // a watch enqueues this resource when the BrokerConnection changes
	}
	if !usable || connection.Health().Err != nil {
		if s.cq.Generation != s.status.ObservedGeneration {
			s.setConditions(summaryOfWaiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf("BrokerConnection %q is connecting", bc.Name)))
		} else if usable {
			return reconciled{}, s.reportKnownDrift(ctx, connection, version)
		}
		return reconciled{}, nil // its connection will send a notice
	}
	if !bc.DeletionTimestamp.IsZero() && len(s.status.Topology) == 0 {
		s.setConditions(summaryOfWaiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf(
			"BrokerConnection %q is being deleted: nothing new is declared through it", bc.Name)))
		return reconciled{}, nil // a watch enqueues this resource when the BrokerConnection is gone, and when it is created again
	}
	if !bc.IsProtected() {
		return reconciled{}, nil // the update that adds its finalizer enqueues this resource again
	}
	interval, err := bc.Spec.ResyncInterval.Parse()
	if err != nil {
		return reconciled{}, fmt.Errorf("resyncInterval of BrokerConnection %q: %w", bc.Name, err)
	}
	if s.refreshPending(connection) {
		return reconciled{waits: forRefresh}, nil
	}
	waits, err := s.reconcileTopology(ctx, connection, version)
	if err != nil || waits != (waiting{}) {
		return reconciled{waits: waits}, err
	}
	return s.requeue(interval), nil
}

// requeue requeues a compared resource for the earliest of these: its recreation, postponed objects, its contract, and the resync interval.
// A topology in sync needs no resync, because a refresh enqueues the resource if anything has changed.
func (s *scope) requeue(resync time.Duration) reconciled {
	if s.needsNoRequeue() {
		resync = 0
	}
	wait := earliest(resync, s.recheckIn, s.postponedFor, s.contractRequeue())
	switch {
	case wait == 0:
		return reconciled{}
	case s.recheckIn > 0:
		return requeueAfter(trigger.Jittered(wait), trigger.Noticed)
	}
	return requeueAfter(trigger.Jittered(wait), trigger.Resync)
}

// earliest returns the shortest wait that is not zero; zero if all are.
func earliest(waits ...time.Duration) (shortest time.Duration) {
	for _, wait := range waits {
		if wait > 0 && (shortest == 0 || wait < shortest) {
			shortest = wait
		}
	}
	return shortest
}

// isSwapping reports whether a fence of a recreation may stand. Until the fence is gone, spec.suspend has no effect.
func (s *scope) isSwapping() bool {
	return s.status.Recreation != nil && s.status.Recreation.Phase == v1alpha1.RecreationSwapping
}

// whatContinues completes the message of Suspended with the phase of a recreation that continues to its end; empty if there is none.
func (s *scope) whatContinues() string {
	recreation := s.status.Recreation
	if !recreation.IsUnderWay() || !s.recreations.get(s.key(), *recreation).isRunning() {
		return ""
	}
	return fmt.Sprintf(", once the phase %s of its recreation has ended", recreation.Phase)
}

// refreshPending reports whether the resource must wait for a refresh. A new value of the annotation requested-at requires a refresh. A new
// resource requires one if the snapshot is older, because Warren must adopt objects that were declared just before the resource was
// created.
func (s *scope) refreshPending(connection *brokers.Broker) bool {
	asked := trigger.RequestedAt(s.cq)
	isRequested := asked != s.status.LastHandledReconcileAt
	created := s.cq.CreationTimestamp.Add(time.Second) // a creation time is in whole seconds
	if !isRequested && (len(s.status.Topology) > 0 || !connection.Health().CurrentAt.Before(created)) {
		s.refreshes.Forget(s.key()) // a refresh that another resource requested may have been enough
		return false
	}
	if s.refreshes.Pending(s.key(), connection, brokers.Question{About: "requested-at " + asked, CatchUp: !isRequested}) {
		return true
	}
	s.status.LastHandledReconcileAt = asked
	return false
}
