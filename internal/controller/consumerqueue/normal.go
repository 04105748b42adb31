package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// scope is one reconciliation of one ConsumerQueue. It changes its status, which is written at the end, and gathers the
// events that follow from what changed.
type scope struct {
	*Reconciler

	cq     *v1alpha1.ConsumerQueue
	status *v1alpha1.ConsumerQueueStatus
	events []occurrence
	// statusWritten: this look has written the status, so that no other can have done anything since it began.
	statusWritten bool
}

func (l *scope) reconcileNormal(ctx context.Context) (ctrl.Result, error) {
	l.status.QueueName, l.status.ConnectionName = l.cq.QueueName(), l.cq.ConnectionName()
	writer := conditions.For(&l.status.Conditions, l.cq.Generation)
	if l.cq.IsSuspended() {
		l.cancelPruning()
		l.setObservedGeneration()
		writer.SetSuspended("spec.suspend is set: the broker is neither read nor written for this resource")
		return ctrl.Result{}, nil
	}
	bc, err := l.connectionOf(ctx, l.cq)
	if err != nil {
		return ctrl.Result{}, err
	}
	if bc == nil {
		writer.ClearSuspended()
		l.setConditions(summaryOfWaiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf(
			"BrokerConnection %q not found in namespace %q: create it, or name another in spec.connectionRef",
			l.cq.ConnectionName(), l.cq.Namespace)))
		return ctrl.Result{}, nil // its creation is watched
	}
	if !ownership.Recorded(*l.status).Cluster.Known() { // otherwise it is part of what the topology is known of; see switchLocation
		l.status.VHost = bc.Spec.VHost
	}
	if bc.IsSuspended() {
		l.cancelPruning()
		l.setObservedGeneration()
		writer.SetSuspended(fmt.Sprintf("BrokerConnection %q is suspended", bc.Name))
		return ctrl.Result{}, nil
	}
	writer.ClearSuspended()
	return l.reconcileThrough(ctx, bc)
}

// reconcileThrough goes on where there is a BrokerConnection. While that is being made, or fails for less time than a
// restart of the broker takes, nothing is written: only a new generation is told at once that it has to wait.
func (l *scope) reconcileThrough(ctx context.Context, bc *v1alpha1.BrokerConnection) (ctrl.Result, error) {
	connection, version, usable := l.usable(bc)
	ready := conditions.ReadyOf(bc)
	current := ready.ObservedGeneration == bc.Generation
	if current && ready.Status == metav1.ConditionFalse {
		l.setConditions(summaryOfWaiting(connectionReason(ready), whyNotReady(bc.Name, ready)))
		return ctrl.Result{}, nil // its change is watched
	}
	if !usable || connection.Health().Err != nil {
		if l.cq.Generation != l.status.ObservedGeneration {
			l.setConditions(summaryOfWaiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf("BrokerConnection %q is connecting", bc.Name)))
		}
		return ctrl.Result{}, nil // its connection will tell
	}
	if !bc.DeletionTimestamp.IsZero() && len(l.status.Topology) == 0 {
		l.setConditions(summaryOfWaiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf(
			"BrokerConnection %q is being deleted: nothing new is declared through it", bc.Name)))
		return ctrl.Result{}, nil // that it is gone is watched, and that it is there again
	}
	if !bc.IsProtected() {
		return ctrl.Result{}, nil // it is about to be, and its change is watched
	}
	interval, err := bc.Spec.ResyncInterval.Parse()
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("resyncInterval of BrokerConnection %q: %w", bc.Name, err)
	}
	if wait := l.refreshPending(connection); wait > 0 {
		return ctrl.Result{}, &brokers.RefreshPending{Wait: wait}
	}
	if err := l.reconcileTopology(ctx, connection, version, connection.VHost()); err != nil {
		return ctrl.Result{}, err
	}
	if l.needsNoRequeue() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: trigger.Jittered(interval)}, nil
}

// whyNotReady says why a BrokerConnection cannot be used. How exactly a broker cannot be reached changes from one attempt to
// the next; that stands in the status of the BrokerConnection only, or each attempt would be a write to every ConsumerQueue.
func whyNotReady(name string, ready metav1.Condition) string {
	if ready.Reason == v1alpha1.ReasonBrokerUnreachable {
		return fmt.Sprintf("BrokerConnection %q cannot reach its broker: its status says why", name)
	}
	return fmt.Sprintf("BrokerConnection %q is not ready: %s", name, ready.Message)
}

// connectionReason tells a broker that does not answer from a connection that lacks something on this side.
func connectionReason(ready metav1.Condition) string {
	if ready.Reason == v1alpha1.ReasonBrokerUnreachable {
		return v1alpha1.ReasonBrokerUnreachable
	}
	return v1alpha1.ReasonConnectionNotReady
}

// refreshPending is zero if the broker was looked at since it had to be, and otherwise how soon to ask again: when the
// requested-at annotation has a new value, and when what is known of the broker is older than a resource that is looked at
// for the first time: its objects may have been made just before it, and are then adopted, not declared. A creation time is
// in whole seconds.
func (l *scope) refreshPending(connection brokers.Broker) time.Duration {
	asked := trigger.RequestedAt(l.cq)
	isNew := len(l.status.Topology) == 0 && connection.Health().SyncedAt.Before(l.cq.CreationTimestamp.Add(time.Second))
	resource := client.ObjectKeyFromObject(l.cq)
	if asked == l.status.LastHandledReconcileAt && !isNew {
		l.refreshes.Forget(resource) // a look for others may have answered
		return 0
	}
	if wait := l.refreshes.Pending(resource, connection, "requested-at "+asked, time.Time{}); wait > 0 {
		return wait
	}
	l.status.LastHandledReconcileAt = asked
	return 0
}

// vhostScope is what a look has to do with at the broker.
type vhostScope struct {
	connection brokers.Broker
	version    vhost.Version
	location   ownership.Location
	desired    topology.Topology
	older      []topology.Topology
	peers      ownership.View
	// owned are the objects that were this resource's own when the look began.
	owned []v1alpha1.TopologyEntry
	known topology.Inventory
}

// reconcileTopology is the way of the data: desired, observed, diff, decision, apply, status.
func (l *scope) reconcileTopology(ctx context.Context, connection brokers.Broker, version vhost.Version, vhostName string) error {
	desired, err := topology.Desired(l.cq, version)
	if refusal, ok := errors.AsType[*topology.Refusal](err); ok {
		l.cancelPruning()
		l.setConditions(summaryOfRefusal(refusal.Reason, refusal.Message))
		return nil
	}
	if err != nil {
		return err
	}
	s := l.resolveLocation(ctx, connection, version, desired, vhostName)
	conflict, err := s.peers.FindConflict(ctx, l.candidate(s), l.live)
	if err != nil {
		return err
	}
	if conflict != nil {
		l.markConflict(*conflict)
		return nil
	}
	comparison := s.compare(l.cq)
	decided := plan.Decide(comparison, s.known, l.cq.Spec.DriftPolicy)
	if wait := l.refreshBeforeRemoval(s, comparison, decided); wait > 0 {
		return &brokers.RefreshPending{Wait: wait}
	}
	writes := decided.Count() > 0 || decided.Removes()
	if writes {
		done, ok := l.limiter.TryAcquire(s.location.Cluster.Endpoint, client.ObjectKeyFromObject(l.cq))
		if !ok {
			return brokers.ErrBusy
		}
		defer done()
	}
	conflict, err = l.claim(ctx, s, comparison, decided)
	if err != nil {
		return err
	}
	if conflict != nil {
		l.markConflict(*conflict)
		return nil
	}
	if writes && !l.statusWritten {
		if err := l.verifyNotStale(ctx); err != nil {
			return err // another look may have done it, and told, a moment ago
		}
	}
	before := comparison.Changes
	comparison, applied := l.apply(ctx, s, comparison, decided)
	if applied != nil {
		l.orphaned.forget(client.ObjectKeyFromObject(l.cq)) // a retry may come much later
	}
	l.prune(s, &comparison)
	comparison.Advisories = append(comparison.Advisories, s.sharedVHost()...)
	decided.Failed = failedObjects(applied)
	entries := plan.MergeInventory(comparison, s.known, decided)
	outcome := summarize(comparison, s.known, l.cq.Spec.DriftPolicy, applied)
	l.recordTransitions(decided, before, outcome, applied)
	if err := l.setTopology(entries, comparison, decided); err != nil {
		return err
	}
	l.setConditions(outcome)
	return retryable(applied)
}

// resolveLocation finds out where the topology is and who else is there. If that is another place than the one that the status
// speaks of, what the status remembers says nothing about this place.
func (l *scope) resolveLocation(
	ctx context.Context, connection brokers.Broker, version vhost.Version, desired topology.Topology, vhostName string,
) *vhostScope {
	observed, _ := connection.Observe(vhost.Selection{})
	here := ownership.Location{Cluster: vhost.ClusterOf(observed.Cluster), VHost: vhostName}
	l.switchLocation(here)
	s := &vhostScope{
		connection: connection, version: version, location: here,
		desired: desired, older: topology.DesiredOnOlderVersions(l.cq, version),
		owned: topology.Owned(l.status.Topology), known: topology.InventoryOf(l.status.Topology),
	}
	s.peers = l.view(ctx, l.cq, s.location, version)
	return s
}

// switchLocation forgets what was remembered of another cluster or vhost: nothing here may be cleaned up on the strength of it.
func (l *scope) switchLocation(here ownership.Location) {
	before := ownership.Recorded(l.cq.Status)
	if !before.Cluster.Known() || here.IsIn(before) {
		here.Record(l.status)
		return
	}
	if stays := formatObjects(topology.Owned(l.status.Topology)); stays != "" {
		now := here.String()
		if now == before.String() {
			now = fmt.Sprintf("another cluster of that name, at %s,", here.Cluster.Endpoint)
			if here.Cluster.MayBe(before.Cluster) {
				now = "what may be " + now
			}
		}
		l.addEvent(corev1.EventTypeWarning, eventRetained, "Move", fmt.Sprintf(
			"BrokerConnection %q leads to %s now; what is in %s stays there: %s", l.cq.ConnectionName(), now, before, stays))
	}
	l.status.Topology, l.status.TopologyOmitted = nil, 0
	here.Record(l.status)
}

// compare looks around only where something has left the spec: that takes a walk through the whole vhost.
func (s *vhostScope) compare(cq *v1alpha1.ConsumerQueue) plan.Comparison {
	names := topology.SelectionWith(cq, s.owned)
	names.IncludeDeadLetterSources = slices.ContainsFunc(s.owned, func(entry v1alpha1.TopologyEntry) bool { return !s.desired.Wants(topology.IDOf(entry)) })
	observed, _ := s.connection.Observe(names)
	return plan.Diff(s.desired, observed, s.context())
}

func (s *vhostScope) context() plan.Input {
	return plan.Input{
		Older: s.older, Wanted: s.peers.Wants, Owned: s.owned, Shared: s.peers.AnyNeeds, Hold: s.hold(),
		ClearPolicy: func(name string) string { return brokers.ClearPolicy(s.location.VHost, brokers.Quoted(name)) },
	}
}

// apply declares what was decided, then takes away what may go, and compares again.
func (l *scope) apply(
	ctx context.Context, s *vhostScope, comparison plan.Comparison, decided plan.Plan,
) (after plan.Comparison, applied error) {
	if decided.Count() > 0 {
		if applied = declareAll(ctx, s.connection, decided); applied != nil {
			// Somebody else may have been there first: look again before anything is said.
			applied = errors.Join(applied, s.connection.Refresh(ctx))
		}
		comparison = s.compare(l.cq)
	}
	removal := removalOf(plan.Decide(comparison, s.known, l.cq.Spec.DriftPolicy))
	if applied != nil || !removesAny(removal) {
		return comparison, applied
	}
	applied = s.connection.Remove(ctx, s.location.Cluster.Key(), removal)
	if onlyInUse(applied) {
		comparison = s.compare(l.cq)
		comparison.Keep(removal.Exchanges, boundUnseen)
		return comparison, nil
	}
	if errors.Is(applied, brokererr.ErrShared) { // which was found out just now
		return s.compare(l.cq), nil
	}
	if applied != nil {
		applied = errors.Join(applied, s.connection.Refresh(ctx))
	}
	return s.compare(l.cq), applied
}

// declareAll carries out a plan. Messages must not come in before all else is there: if something cannot be declared, the
// source bindings are left out.
func declareAll(ctx context.Context, connection brokers.Broker, decided plan.Plan) error {
	first, last := decided.Declarations()
	if err := connection.Apply(ctx, first); err != nil {
		return err
	}
	return connection.Apply(ctx, last)
}

// retryable keeps the errors that may go away by themselves; what a person has to mend is looked at again at the next
// interval.
func retryable(applied error) error {
	for _, lasting := range []error{
		brokererr.ErrAccessRefused, brokererr.ErrPreconditionFailed, brokererr.ErrInvalidArgument, brokererr.ErrTooLarge, brokererr.ErrResourceLocked,
	} {
		if errors.Is(applied, lasting) {
			return nil
		}
	}
	if applied == nil {
		return nil
	}
	return shortError{applied}
}

// shortError is an error with a text that is short enough for a log, whatever number of errors it joins.
type shortError struct{ error }

func (e shortError) Error() string { return conditions.ErrorSummary(e.error) }

func (e shortError) Unwrap() error { return e.error }

// setConditions writes a verdict into the conditions.
func (l *scope) setConditions(v summary) {
	writer := conditions.For(&l.status.Conditions, l.cq.Generation)
	wasReady := l.isReady()
	writer.SetReady(v.ready, v.progress)
	for condition, value := range map[string]*conditions.Value{
		v1alpha1.ConditionDrifted:            v.drifted,
		v1alpha1.ConditionRecreationRequired: v.recreation,
	} {
		if value == nil {
			writer.Keep(condition)
		} else {
			writer.Set(condition, *value)
		}
	}
	if v.inSync() && !wasReady {
		l.setLastSynced()
	}
	if v.drifted != nil && v.drifted.Status == metav1.ConditionUnknown {
		l.setStatesUnknown()
	}
	l.status.ObservedGeneration = l.cq.Generation
}

// setStatesUnknown says of every object that it is not known how it compares, and drops what followed from the comparison;
// which objects there are stays known.
func (l *scope) setStatesUnknown() {
	l.status.Changes, l.status.ChangesOmitted, l.status.PlanHash, l.status.Advisories = nil, 0, "", nil
	for i := range l.status.Topology {
		l.status.Topology[i].State = v1alpha1.StateUnknown
	}
}

func (l *scope) setLastSynced() {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	l.status.LastSyncedTime = &now
}

// setObservedGeneration says that this generation has been seen, where nothing is compared.
func (l *scope) setObservedGeneration() {
	l.status.ObservedGeneration = l.cq.Generation
}

func (l *scope) condition(name string) metav1.ConditionStatus {
	for _, condition := range l.status.Conditions {
		if condition.Type == name {
			return condition.Status
		}
	}
	return metav1.ConditionUnknown
}

func (l *scope) isReady() bool { return l.condition(v1alpha1.ConditionReady) == metav1.ConditionTrue }

// needsNoRequeue says that nothing is to be looked at again before the broker or the spec changes.
func (l *scope) needsNoRequeue() bool {
	for _, entry := range l.status.Topology {
		if entry.State == v1alpha1.StateForeign || entry.State == v1alpha1.StateOrphaned {
			return false // another ConsumerQueue may come to want it; or it may be safe to delete now
		}
	}
	return l.isReady()
}
