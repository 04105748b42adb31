package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
)

// look is one reconciliation of one ConsumerQueue. It changes its status, which is written at the end, and gathers the
// events that follow from what changed.
type look struct {
	*ConsumerQueueReconciler

	cq     *v1alpha1.ConsumerQueue
	status *v1alpha1.ConsumerQueueStatus
	events []occurrence
}

func (l *look) run(ctx context.Context) (ctrl.Result, error) {
	l.status.QueueName, l.status.ConnectionName = l.cq.QueueName(), l.cq.ConnectionName()
	conditions := conditionWriter{&l.status.Conditions, l.cq.Generation}
	if l.cq.Spec.Suspend != nil && *l.cq.Spec.Suspend {
		l.observed()
		conditions.suspended("spec.suspend is set: the broker is neither read nor written for this resource")
		return ctrl.Result{}, nil
	}
	bc, err := l.connectionOf(ctx, l.cq)
	if err != nil {
		return ctrl.Result{}, err
	}
	if bc == nil {
		conditions.resumed()
		l.conclude(waiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf(
			"BrokerConnection %q not found in namespace %q: create it, or name another in spec.connectionRef",
			l.cq.ConnectionName(), l.cq.Namespace)))
		return ctrl.Result{}, nil // its creation is watched
	}
	l.status.VHost = bc.Spec.VHost
	if bc.Spec.Suspend != nil && *bc.Spec.Suspend {
		l.observed()
		conditions.suspended(fmt.Sprintf("BrokerConnection %q is suspended", bc.Name))
		return ctrl.Result{}, nil
	}
	conditions.resumed()
	return l.throughConnection(ctx, bc)
}

// throughConnection goes on where there is a BrokerConnection. While that is being made, or fails for less time than a
// restart of the broker takes, nothing is written: only a new generation is told at once that it has to wait.
func (l *look) throughConnection(ctx context.Context, bc *v1alpha1.BrokerConnection) (ctrl.Result, error) {
	connection, version, usable := l.usable(bc)
	ready := readyOf(bc)
	current := ready.ObservedGeneration == bc.Generation
	if current && ready.Status == metav1.ConditionFalse {
		l.conclude(waiting(connectionReason(ready), fmt.Sprintf("BrokerConnection %q is not ready: %s", bc.Name, ready.Message)))
		return ctrl.Result{}, nil // its change is watched
	}
	if !usable || connection.Health().Err != nil {
		if l.cq.Generation != l.status.ObservedGeneration {
			l.conclude(waiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf("BrokerConnection %q is connecting", bc.Name)))
		}
		return ctrl.Result{}, nil // its connection will tell
	}
	interval, err := bc.Spec.ResyncInterval.Parse()
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("resyncInterval of BrokerConnection %q: %w", bc.Name, err)
	}
	if err := l.refreshIfStale(ctx, connection); err != nil {
		return ctrl.Result{}, err
	}
	if err := l.compareAndCorrect(ctx, connection, version); err != nil {
		return ctrl.Result{}, err
	}
	if l.settled() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: jittered(interval)}, nil
}

// connectionReason tells a broker that does not answer from a connection that lacks something on this side.
func connectionReason(ready metav1.Condition) string {
	if ready.Reason == v1alpha1.ReasonBrokerUnreachable {
		return v1alpha1.ReasonBrokerUnreachable
	}
	return v1alpha1.ReasonConnectionNotReady
}

// refreshIfStale looks at the broker at once when the requested-at annotation has a new value, and when what is known of
// the broker is older than a resource that is looked at for the first time: its objects may have been made just before
// it, and are then adopted, not declared. A creation time is in whole seconds.
func (l *look) refreshIfStale(ctx context.Context, connection *rabbit.Connection) error {
	asked := requestedAt(l.cq)
	isNew := len(l.status.Topology) == 0 && connection.Health().SyncedAt.Before(l.cq.CreationTimestamp.Add(time.Second))
	if asked == l.status.LastHandledReconcileAt && !isNew {
		return nil
	}
	if err := connection.Refresh(ctx); err != nil {
		return fmt.Errorf("look at vhost %q: %w", l.status.VHost, err)
	}
	l.status.LastHandledReconcileAt = asked
	return nil
}

// compareAndCorrect is the way of the data: desired, observed, diff, decision, apply, status.
func (l *look) compareAndCorrect(ctx context.Context, connection *rabbit.Connection, version topology.Version) error {
	desired, err := topology.Desired(l.cq, version)
	if refusal, ok := errors.AsType[*topology.Refusal](err); ok {
		l.conclude(refused(refusal.Reason, refusal.Message))
		return nil
	}
	if err != nil {
		return err
	}
	names := topology.NamesOf(l.cq)
	background := topology.Context{Older: topology.Older(l.cq, version), Wanted: l.wantedByOthers(ctx, l.cq, version)}
	compare := func() topology.Comparison {
		observed, _ := connection.Observe(names)
		return topology.Diff(desired, observed, background)
	}
	known := historyOf(l.status.Topology)
	comparison := compare()
	decided := decide(desired, comparison, known, l.cq.Spec.DriftPolicy)
	before := comparison.Changes
	var applied error
	if decided.count() > 0 {
		if err := l.checkCurrent(ctx); err != nil {
			return err // what is missing may have been declared, and told, a moment ago
		}
		if applied = connection.Apply(ctx, decided.declare); applied != nil {
			// Somebody else may have been there first: look again before anything is said.
			applied = errors.Join(applied, connection.Refresh(ctx))
		}
		comparison = compare()
	}
	entries := remember(comparison.Entries, desired.Shapes(), known, decided)
	outcome := judge(comparison, known, desired.Shapes(), l.cq.Spec.DriftPolicy, applied)
	l.tell(decided, before, outcome, applied)
	if err := l.describe(entries, comparison, decided); err != nil {
		return err
	}
	l.conclude(outcome)
	return retryable(applied)
}

// retryable keeps the errors that may go away by themselves; what a person has to mend is looked at again at the next
// interval.
func retryable(applied error) error {
	for _, lasting := range []error{rabbit.ErrAccessRefused, rabbit.ErrPreconditionFailed, rabbit.ErrResourceLocked} {
		if errors.Is(applied, lasting) {
			return nil
		}
	}
	return applied
}

// maxAdvisoryMessage is how long the message of an advisory may be: one that names queues can have any length.
const maxAdvisoryMessage = 4096

// describe writes what was found of the topology into the status, cut to size.
func (l *look) describe(entries []v1alpha1.TopologyEntry, comparison topology.Comparison, done plan) error {
	hash, err := topology.PlanHash(comparison.Changes)
	if err != nil {
		return err
	}
	l.status.PlanHash = hash
	l.status.Topology, l.status.TopologyOmitted = cut(entries, v1alpha1.MaxTopologyEntries)
	l.status.Changes, l.status.ChangesOmitted = cut(comparison.Changes, v1alpha1.MaxChangeEntries)
	l.status.Advisories, _ = cut(comparison.Advisories, v1alpha1.MaxChangeEntries)
	for i := range l.status.Advisories {
		l.status.Advisories[i].Message = shortened(l.status.Advisories[i].Message, maxAdvisoryMessage)
	}
	if done.count() > 0 && len(comparison.Changes) == 0 {
		l.synced()
	}
	return nil
}

// cut shortens a list and counts what it leaves out.
func cut[T any](list []T, most int) (kept []T, omitted int32) {
	if len(list) <= most {
		return list, 0
	}
	return list[:most], int32(len(list) - most)
}

// conclude writes a verdict into the conditions.
func (l *look) conclude(v verdict) {
	conditions := conditionWriter{&l.status.Conditions, l.cq.Generation}
	wasReady := l.isReady()
	conditions.ready(v.ready, v.progress)
	for condition, value := range map[string]*truth{
		v1alpha1.ConditionDrifted:            v.drifted,
		v1alpha1.ConditionRecreationRequired: v.recreation,
	} {
		if value == nil {
			conditions.keep(condition)
		} else {
			conditions.set(condition, *value)
		}
	}
	if v.inSync() && !wasReady {
		l.synced()
	}
	if v.drifted != nil && v.drifted.status == metav1.ConditionUnknown {
		l.forgetStates()
	}
	l.status.ObservedGeneration = l.cq.Generation
}

// forgetStates says of every object that it is not known how it compares, and drops what followed from the comparison;
// which objects there are stays known.
func (l *look) forgetStates() {
	l.status.Changes, l.status.ChangesOmitted, l.status.PlanHash, l.status.Advisories = nil, 0, "", nil
	for i := range l.status.Topology {
		l.status.Topology[i].State = v1alpha1.StateUnknown
	}
}

func (l *look) synced() {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	l.status.LastSyncedTime = &now
}

// observed says that this generation has been seen, where nothing is compared.
func (l *look) observed() {
	l.status.ObservedGeneration = l.cq.Generation
}

func (l *look) condition(name string) metav1.ConditionStatus {
	for _, condition := range l.status.Conditions {
		if condition.Type == name {
			return condition.Status
		}
	}
	return metav1.ConditionUnknown
}

func (l *look) isReady() bool { return l.condition(v1alpha1.ConditionReady) == metav1.ConditionTrue }

// settled says that nothing is to be looked at again before the broker or the spec changes.
func (l *look) settled() bool {
	for _, entry := range l.status.Topology {
		if entry.State == v1alpha1.StateForeign {
			return false // another ConsumerQueue may come to want it
		}
	}
	return l.isReady()
}
