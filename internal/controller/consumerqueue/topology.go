package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	consumercontract "github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// vhostScope is the part of a reconciliation that involves the broker.
type vhostScope struct {
	*scope

	connection *brokers.Broker
	version    vhost.Version
	location   ownership.Location
	desired    topology.Topology
	peers      ownership.View
	// owned are the objects that this resource owned when the reconciliation began.
	owned []v1alpha1.TopologyEntry
	known topology.Inventory
	// comparedAt is when the vhost was compared with the spec, before the slot, the claim and the declarations.
	comparedAt time.Time
	// postponed are missing objects that are not declared again yet, because other clients have deleted them too often.
	postponed vhost.IDs
}

// reconcileTopology computes what the spec asks for, and reconciles the vhost.
func (s *scope) reconcileTopology(ctx context.Context, connection *brokers.Broker, version vhost.Version) (waiting, error) {
	desired, err := topology.Desired(s.cq, version)
	if s.status.Recreation.IsUnderWay() { // whatever the spec asks for now
		return s.reconcileRecreation(ctx, connection, version, desired)
	}
	if refusal, ok := errors.AsType[*topology.Refusal](err); ok {
		s.cancelPruning()
		s.setConditions(summaryOfRefusal(refusal.Reason, refusal.Message))
		return waiting{}, nil
	}
	if err != nil {
		return waiting{}, err
	}
	s.status.RejectMode = desired.RejectMode
	v, err := s.resolveVHost(ctx, connection, version, desired)
	if err != nil {
		return waiting{}, err
	}
	return v.reconcile(ctx)
}

// reconcileRecreation continues a recreation. While one is under way, nothing else of the topology is corrected or removed.
func (s *scope) reconcileRecreation(
	ctx context.Context, connection *brokers.Broker, version vhost.Version, desired topology.Topology,
) (waiting, error) {
	v, err := s.resolveVHost(ctx, connection, version, desired)
	if err != nil {
		return waiting{}, err
	}
	if !v.status.Recreation.IsUnderWay() { // the connection leads elsewhere now
		return s.reconcileTopology(ctx, connection, version)
	}
	over, err := v.continueRecreation(ctx)
	if err != nil || !over {
		return waiting{}, err
	}
	return s.reconcileTopology(ctx, connection, version)
}

// resolveVHost finds the location of the topology and its peers there. If the status has another location, it clears the inventory.
func (s *scope) resolveVHost(
	ctx context.Context, connection *brokers.Broker, version vhost.Version, desired topology.Topology,
) (*vhostScope, error) {
	observed, _ := connection.Observe(vhost.Selection{})
	here := ownership.Location{Cluster: vhost.ClusterOf(observed.Cluster), VHost: connection.VHost()}
	peers, err := s.view(ctx, s.cq, connection, here, version)
	if err != nil {
		return nil, err
	}
	s.switchLocation(here)
	return &vhostScope{
		scope: s, connection: connection, version: version, location: here,
		desired: desired,
		peers:   peers,
		owned:   topology.Owned(s.status.Topology), known: topology.InventoryOf(s.status.Topology),
	}, nil
}

// reconcile compares, decides, claims, applies, prunes and reports.
func (v *vhostScope) reconcile(ctx context.Context) (waiting, error) {
	conflict, err := v.peers.FindConflict(ctx, v.candidate(), peerReader{v.live, v.Reconciler})
	if err != nil {
		return waiting{}, err
	}
	if conflict != nil {
		v.markConflict(*conflict)
		return waiting{}, nil
	}
	if len(v.owned) == 0 { // the status may have been lost
		if found, waits, err := v.recoverRecreation(ctx); found {
			return waits, err
		}
	}
	v.comparedAt = time.Now()
	comparison := v.compare(ctx)
	decided := v.postpone(plan.Decide(comparison, v.known, v.cq.Spec.DriftPolicy))
	if decided.Count() > 0 {
		if err := v.reportDrift(ctx, comparison, decided); err != nil {
			return waiting{}, err
		}
	}
	if v.awaitsRefreshBeforeRemoval(comparison, decided) {
		return forRefresh, nil
	}
	if !decided.Writes() {
		return v.carryOut(ctx, comparison, decided)
	}
	if v.refusals.IsWaiting(v.key(), v.connection, v.refusedWrites(decided)) {
		return forRefresh, nil
	}
	done, ok := v.limiter.TryAcquire(v.location.Cluster.Endpoint, v.key())
	if !ok {
		v.orphaned.Forget(v.key()) // the slot may become free much later, and a removal then needs a newer refresh
		return forSlot, nil
	}
	defer done()
	return v.carryOut(ctx, comparison, decided)
}

// carryOut claims new objects, applies and prunes, and reports the outcome.
func (v *vhostScope) carryOut(ctx context.Context, comparison plan.Comparison, decided plan.Plan) (waiting, error) {
	conflict, err := v.claim(ctx, comparison, decided)
	if err != nil {
		return waiting{}, err
	}
	if conflict != nil {
		v.markConflict(*conflict)
		return waiting{}, nil
	}
	v.location.Record(&v.status.Location)
	if decided.Writes() && !v.claimWritten {
		if err := v.verifyNotStale(ctx); err != nil {
			return waiting{}, err // another reconciliation may just have declared it
		}
	}
	before, drift := comparison.Changes, comparison.Drift(v.known, v.cq.Spec.DriftPolicy)
	comparison, applied := v.apply(ctx, comparison, decided)
	if v.awaitsRefreshOfRefusal(ctx, comparison, applied) {
		return forRefresh, nil
	}
	applied = unanswered(applied)
	v.countDetected(drift)
	v.countCorrected(drift, comparison)
	decided.Failed = failedObjects(applied)
	again := slices.DeleteFunc(decided.Drifted(), func(id vhost.ID) bool { return decided.Failed[id] })
	v.redeclared.record(v.key(), again)
	if errors.Is(applied, errOldComparison) {
		v.orphaned.Forget(v.key())
		return forRefresh, nil
	}
	if applied != nil {
		v.orphaned.Forget(v.key()) // a retry may come much later, after a newer refresh
	}
	v.prune(&comparison)
	return waiting{}, v.reportOutcome(ctx, comparison, decided, before, applied)
}

// postpone removes the objects from a plan that other clients have deleted too often.
func (v *vhostScope) postpone(decided plan.Plan) plan.Plan {
	v.postponed, v.postponedFor = v.redeclared.postponed(v.key(), decided.Drifted())
	if len(v.postponed) == 0 {
		return decided
	}
	return decided.Postpone(v.postponed)
}

// withPostponed returns a summary with the postponed objects as the reason why the topology is not in sync.
func (v *vhostScope) withPostponed(outcome summary) summary {
	if len(v.postponed) == 0 || outcome.ready.Reason != v1alpha1.ReasonCorrecting {
		return outcome
	}
	message := postponedMessage(v.postponed)
	if conditions.Ready(v.status.Conditions).Reason != v1alpha1.ReasonRepeatedlyDeleted {
		v.addEvent(corev1.EventTypeWarning, eventRepeatedlyDeleted, "Correct", message)
	}
	outcome.ready = conditions.False(v1alpha1.ReasonRepeatedlyDeleted, message)
	return outcome
}

// postponedMessage lists the exchanges and queues that other clients delete. It lists bindings only if there are none, because the deletion
// of a queue deletes its bindings.
func postponedMessage(objects vhost.IDs) string {
	var names, bindings []string
	for id := range objects {
		if id.Kind == vhost.KindBinding {
			bindings = append(bindings, id.String())
		} else {
			names = append(names, id.String())
		}
	}
	if len(names) == 0 {
		names = bindings
	}
	slices.Sort(names)
	return fmt.Sprintf("other clients deleted %s %d times within %s, so Warren declares each of them only once per %s. Find the cause, "+
		"such as a policy that sets expires, or another program", conditions.FirstN(names), maxRedeclared,
		consumercontract.Duration(redeclaredWithin), consumercontract.Duration(redeclareAgain))
}

// reportKnownDrift reports drift that the snapshot shows while the connection fails. It reports nothing if resolveVHost cannot determine
// where the connections of other namespaces lead. For that, resolveVHost may ask the management API, and waits for up to a second.
func (s *scope) reportKnownDrift(ctx context.Context, connection *brokers.Broker, version vhost.Version) error {
	desired, refused := topology.Desired(s.cq, version)
	if refused != nil || !s.isReady() || !isRecordedAt(s.status, connection) {
		return nil //nolint:nilerr // a resource with a refused spec is not Ready
	}
	v, unplaced := s.resolveVHost(ctx, connection, version, desired)
	if unplaced != nil {
		return nil //nolint:nilerr // the connection reports its own errors
	}
	comparison := v.compare(ctx)
	return v.reportDrift(ctx, comparison, plan.Decide(comparison, v.known, v.cq.Spec.DriftPolicy))
}

// reportDrift writes into the status of a Ready resource that objects are missing, before they are declared again. The declaration
// may have to wait, take long, or fail.
func (v *vhostScope) reportDrift(ctx context.Context, comparison plan.Comparison, decided plan.Plan) error {
	if !v.isReady() || !decided.Drift {
		return nil
	}
	v.countDetected(comparison.Drift(v.known, v.cq.Spec.DriftPolicy))
	outcome := summarize(comparison, v.known, v.cq.Spec.DriftPolicy, nil)
	v.recordTransitions(decided, comparison.Changes, outcome, nil)
	v.setTopology(plan.MergeInventory(comparison, v.known, plan.Plan{}), comparison, decided)
	v.setConditions(outcome)
	if err := v.writeClaim(ctx); err != nil {
		return err
	}
	v.recordEvents()
	return nil
}

// reportOutcome sets the status and Events. It returns an error if the reconciliation must be retried.
func (v *vhostScope) reportOutcome(
	ctx context.Context, comparison plan.Comparison, decided plan.Plan, before []v1alpha1.Change, applied error,
) error {
	impossible, err := v.redriveImpossible(ctx)
	if err != nil {
		return err
	}
	comparison.Advisories = slices.Concat(comparison.Advisories,
		v.sharedVHost(), v.sharedDeadLetterQueue(), v.sharedWithoutConsent(), v.deadLetterQueueConsumed(), impossible,
		topology.Advisories(v.cq, v.version))
	entries := plan.MergeInventory(comparison, v.known, decided)
	outcome := summarize(comparison, v.known, v.cq.Spec.DriftPolicy, applied)
	v.setTopology(entries, comparison, decided)
	outcome, begun := v.planRecreation(comparison, outcome)
	v.recordTransitions(decided, before, outcome, applied)
	if begun != nil {
		return v.beginRecreation(ctx, *begun)
	}
	if applied == nil {
		outcome = v.withPostponed(outcome)
	}
	outcome = v.withWaitingContract(outcome)
	unwritten := v.syncContract(ctx, outcome)
	outcome = outcome.withContract(unwritten)
	if needsUserAction(unwritten) && conditions.Ready(v.status.Conditions).Message != outcome.ready.Message {
		log.FromContext(ctx).Info("The contract cannot be written", "reason", outcome.ready.Message)
	}
	v.setConditions(outcome)
	return errors.Join(retryable(applied), retryableWrite(unwritten))
}

// compare compares the vhost with the spec. It searches the whole vhost for queues that dead-letter to the topology only if an
// object has left the spec.
func (v *vhostScope) compare(ctx context.Context) plan.Comparison {
	names := topology.SelectionWith(v.cq, v.owned)
	leaving := slices.ContainsFunc(v.owned, func(entry v1alpha1.TopologyEntry) bool {
		return !v.desired.Wants(topology.IDOf(entry))
	})
	names.IncludeDeadLetterSources = leaving
	observed, _ := v.connection.Observe(names)
	input := v.diffInput()
	if leaving {
		input.ContractPending = v.contractPending(ctx)
	}
	return plan.Diff(v.desired, observed, input)
}

func (v *vhostScope) diffInput() plan.Input {
	return plan.Input{
		Older:    func() []topology.Topology { return topology.DesiredOnOlderVersions(v.cq, v.version) },
		Unwanted: v.peers.Unwanted, UnwantedFrom: v.peers.UnwantedFrom, Owned: v.owned, Shared: v.peers.AnyNeeds,
		OtherInstance: v.otherInstance(),
		Version:       v.version, WarrenRecreates: recreates(v.cq),
	}
}

// removeWithin is how long after the comparison bindings and exchanges may be removed. The claim and the declarations may take longer, and
// other clients may begin to use the objects.
const removeWithin = time.Second

// errOldComparison: everything was declared, and the removal needs a newer refresh.
var errOldComparison = errors.New("the comparison is too old to remove objects")

// apply declares the objects of the plan, then removes orphans that are not blocked, and compares again.
func (v *vhostScope) apply(
	ctx context.Context, comparison plan.Comparison, decided plan.Plan,
) (after plan.Comparison, applied error) {
	if decided.Count() > 0 {
		applied = declareAll(ctx, v.connection, decided)
		comparison = v.compare(ctx)
	}
	removal := removalOf(plan.Decide(comparison, v.known, v.cq.Spec.DriftPolicy))
	if applied != nil || !removesAny(removal) {
		return comparison, applied
	}
	if time.Since(v.comparedAt) > removeWithin {
		return comparison, errOldComparison
	}
	applied = v.connection.Remove(ctx, v.location.Cluster.Key(), removal)
	if onlyInUse(applied) {
		comparison = v.compare(ctx)
		comparison.Block(removal.Exchanges, blockedByHiddenBinding)
		return comparison, nil
	}
	if errors.Is(applied, brokererr.ErrShared) { // detected by this removal
		return v.compare(ctx), nil
	}
	return v.compare(ctx), applied
}

// declareAll carries out a plan. It declares source bindings only if everything else was declared, because they bring messages.
func declareAll(ctx context.Context, connection *brokers.Broker, decided plan.Plan) error {
	first, last := decided.Declarations()
	if err := connection.Apply(ctx, first); err != nil {
		return err
	}
	return connection.Apply(ctx, last)
}
