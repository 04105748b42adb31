package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	consumercontract "github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// terminationRetry is how soon a failed deletion is retried.
const terminationRetry = 3 * time.Second

// deletion is the reconciliation of a ConsumerQueue that is being deleted. It decides when to remove the topology, for how long to retry
// the removal, and when to release the resource.
type deletion struct{ *scope }

func (s *scope) reconcileDelete(ctx context.Context) (reconciled, error) {
	return (&deletion{s}).run(ctx)
}

// run removes or retains the topology as deletionPolicy says, and releases the resource.
func (d *deletion) run(ctx context.Context) (reconciled, error) {
	if !controllerutil.ContainsFinalizer(d.cq, v1alpha1.TopologyFinalizer) {
		return reconciled{}, nil
	}
	begun := conditions.Ready(d.status.Conditions).Reason == v1alpha1.ReasonTerminating
	if !d.deleted.Has(d.cq) {
		d.deletions.Cancel(d.key()) // the results of earlier attempts are outdated
		d.deleted.At(d.cq)
	}
	bc, err := brokers.ConnectionOf(ctx, d.client, d.cq)
	if err != nil {
		return reconciled{}, err
	}
	isLost := len(d.status.Topology) == 0 && d.cq.Status.ObservedGeneration <= 0
	if isLost {
		d.assumeInventory(bc)
	}
	owned := topology.Owned(d.status.Topology)
	if result, waits, err := d.endRecreation(ctx, bc, owned); waits || err != nil {
		return result, err
	}
	t := d.teardownOf(bc, owned)
	kind, why := d.whyRetainAll(owned)
	switch {
	case why != "" && !d.awaitsTiers(bc, t, owned, begun):
		existing := owned
		if t != nil {
			existing = t.remaining()
		}
		return reconciled{}, d.retainAll(ctx, kind, why, existing)
	case len(owned) == 0 && isLost:
		return reconciled{}, d.removeFinalizer(ctx, corev1.EventTypeWarning,
			"the status is empty, so Warren does not know which objects it declared for this ConsumerQueue, and retains them")
	case len(owned) == 0: // it owns nothing yet
		return reconciled{}, d.removeFinalizer(ctx, corev1.EventTypeNormal, "")
	}
	switch {
	case bc == nil:
		note := retainedNote(retained(owned, fmt.Sprintf("BrokerConnection %q is gone", d.cq.ConnectionName())))
		if begun && d.status.Location.VHost != "" { // a manager that was killed may have left fences
			note += ". " + brokers.FencesMayStand(d.status.Location.VHost)
		}
		return reconciled{}, d.removeFinalizer(ctx, corev1.EventTypeWarning, strings.TrimPrefix(note, ". "))
	case bc.Spec.Suspend:
		return reconciled{}, d.retainAll(ctx, corev1.EventTypeWarning, fmt.Sprintf("BrokerConnection %q is suspended", bc.Name), owned)
	}
	return d.teardownThrough(ctx, bc, t, owned)
}

// awaitsTiers reports whether a running or interrupted deletion may have removed delay tiers of a ConsumerQueue with deletionPolicy Retain.
// Before Warren retains the main queue, it must declare these tiers again; see restoreTiers.
func (d *deletion) awaitsTiers(bc *v1alpha1.BrokerConnection, t *teardown, owned []v1alpha1.TopologyEntry, begun bool) bool {
	if d.cq.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain || d.cq.Spec.Suspend || bc == nil || bc.Spec.Suspend {
		return false
	}
	if t == nil { // a manager that has just started is connecting
		return begun && len(owned) > 0 && conditions.ReadyOf(bc).Status != metav1.ConditionFalse
	}
	return d.deletions.AreRunning(d.key()) || len(t.missingTiers().Queues) > 0
}

// teardownOf returns the teardown through a BrokerConnection, which may be nil; nil if the connection cannot be used.
func (d *deletion) teardownOf(bc *v1alpha1.BrokerConnection, owned []v1alpha1.TopologyEntry) *teardown {
	if bc == nil {
		return nil
	}
	connection, version, usable := d.pool.Usable(bc)
	if !usable || connection.Health().Err != nil {
		return nil
	}
	t := &teardown{scope: d.scope, connection: connection, version: version, holdings: holdings{owned: owned}}
	t.retainForeign(d.status.Topology)
	return t
}

// endRecreation completes or backs out a recreation before the topology is deleted, even if its status was lost. It returns true while the
// recreation runs or cannot continue. If the recreation takes too long, the hold queue is retained, and the Event names the queue.
func (d *deletion) endRecreation(
	ctx context.Context, bc *v1alpha1.BrokerConnection, owned []v1alpha1.TopologyEntry,
) (result reconciled, waits bool, err error) {
	if bc == nil || bc.Spec.Suspend {
		return reconciled{}, false, nil
	}
	limit := retryLimit{&d.unfinished, retrybudget.Pending}
	why := fmt.Sprintf("BrokerConnection %q is connecting", bc.Name)
	connection, version, usable := d.pool.Usable(bc)
	isReached := usable && connection.Health().Err == nil
	isUnderWay := d.status.Recreation.IsUnderWay()
	if !isUnderWay && (!isReached || !d.mayHaveLostRecreation(connection)) {
		return reconciled{}, false, nil
	}
	if isReached {
		isRunning, busy, err := d.stepRecreation(ctx, connection, version)
		switch {
		case statuswriter.IsStale(err):
			return reconciled{}, false, err
		case err != nil:
			why = conditions.ErrorSummary(err)
		case busy != (waiting{}):
			return reconciled{waits: busy}, true, nil
		case !isRunning:
			d.unfinished.Forget(d.key())
			return reconciled{}, false, nil
		default:
			why = plan.DescribeWork(*d.status.Recreation)
		}
	}
	result, err = d.retryOrGiveUp(ctx, bc, limit, "a recreation must end first; "+why, owned)
	return result, true, err
}

// stepRecreation continues the recreation in the status, or recovers a recreation that the status lacks. It returns false if there is none.
// It may have to wait for a slot.
func (d *deletion) stepRecreation(
	ctx context.Context, connection *brokers.Broker, version vhost.Version,
) (isRunning bool, waits waiting, err error) {
	isUnderWay := d.status.Recreation.IsUnderWay()
	desired, _ := topology.Desired(d.cq, version) // nothing was declared by a spec that cannot be read
	v, err := d.resolveVHost(ctx, connection, version, desired)
	if err != nil {
		return false, waiting{}, err
	}
	if isUnderWay {
		if !d.status.Recreation.IsUnderWay() { // the connection leads elsewhere now
			return false, waiting{}, nil
		}
		isOver, err := v.continueRecreation(ctx)
		return !isOver, waiting{}, err
	}
	own := v.candidate()
	own.Owned = nil // the inventory is assumed
	if conflict, err := v.peers.FindConflict(ctx, own, peerReader{v.live, v.Reconciler}); err != nil || conflict != nil {
		return false, waiting{}, err
	}
	return v.recoverRecreation(ctx)
}

// mayHaveLostRecreation reports whether the status may lack a recreation. Such a status has objects, and the state of each is unknown,
// because assumeInventory filled it. A ConsumerQueue without objects owns nothing.
func (d *deletion) mayHaveLostRecreation(connection *brokers.Broker) bool {
	recorded := ownership.Recorded(d.cq.Status.Location)
	here := ownership.Location{Cluster: connection.Health().Cluster, VHost: connection.VHost()}
	isKnown := func(entry v1alpha1.TopologyEntry) bool { return entry.State != v1alpha1.StateUnknown }
	return (!recorded.Cluster.Known() || here.IsIn(recorded)) &&
		len(d.status.Topology) > 0 && !slices.ContainsFunc(d.status.Topology, isKnown)
}

// assumeInventory fills the inventory of a lost status with the objects of the spec, as if they were about to be declared. The
// deletion then continues as after a crash: it deletes only objects that match the spec, and only queues without messages.
func (d *deletion) assumeInventory(bc *v1alpha1.BrokerConnection) {
	version := vhost.RabbitMQ43
	if bc != nil {
		if connection, known, usable := d.pool.Usable(bc); usable {
			version = known
			ownership.Location{Cluster: connection.Health().Cluster, VHost: connection.VHost()}.Record(&d.status.Location)
		}
	}
	desired, err := topology.Desired(d.cq, version)
	if err != nil { // nothing was declared by this spec
		return
	}
	missing := plan.Diff(desired, vhost.Observed{}, plan.Input{})
	entries := plan.MergeInventory(missing, nil, plan.Decide(missing, nil, v1alpha1.DriftPolicyCorrect))
	for i := range entries {
		entries[i].State = v1alpha1.StateUnknown
	}
	d.status.Topology, d.status.TopologyOmitted = truncated(entries)
}

// teardownThrough removes the topology through a BrokerConnection, and retains the objects that it must not or cannot delete. The teardown
// is nil if the connection cannot be used.
func (d *deletion) teardownThrough(
	ctx context.Context, bc *v1alpha1.BrokerConnection, t *teardown, owned []v1alpha1.TopologyEntry,
) (reconciled, error) {
	if t == nil {
		why := fmt.Sprintf("BrokerConnection %q is connecting", bc.Name)
		if ready := conditions.ReadyOf(bc); ready.Status == metav1.ConditionFalse {
			why = conditions.WhyNotReady(bc.Name, ready)
		}
		return d.retryOrGiveUp(ctx, bc, retryLimit{&d.unreached, retrybudget.Termination}, why, owned)
	}
	connection := t.connection
	d.unreached.Forget(d.key())
	done, ok := d.limiter.TryAcquire(connection.Health().Cluster.Endpoint, d.key())
	if !ok {
		d.refreshes.Forget(d.key()) // the slot may become free much later, and the deletion then needs a newer refresh
		return reconciled{waits: forSlot}, nil
	}
	defer done()
	question := brokers.Question{About: "deletion", NotBefore: d.deleted.At(d.cq)}
	if d.refreshes.Pending(d.key(), connection, question) {
		return reconciled{waits: forRefresh}, nil
	}
	t.resolveIntents(d.cq, t.version, t.observe())
	if d.deletesDeclaredOnly() {
		t.retainAdopted("driftPolicy is Report, and another client declared it")
	}
	stays, trouble := t.run(ctx)
	switch {
	case errors.Is(trouble, statuswriter.ErrStaleCache):
		return reconciled{}, trouble
	case errors.Is(trouble, errRetain):
		return reconciled{}, d.retainAll(ctx, corev1.EventTypeNormal, policyRetains, t.remaining())
	case errors.Is(trouble, errInProgress):
		d.setTerminating("checking whether the queues are empty")
		return requeueAfter(trigger.Jittered(retrybudget.Termination), trigger.Noticed), nil // the end of the attempt enqueues it earlier
	case errors.Is(trouble, brokererr.ErrPending):
		return d.retryOrGiveUp(ctx, bc, retryLimit{&d.pending, retrybudget.Pending}, conditions.ErrorSummary(trouble), t.remaining())
	case trouble != nil && !isFinal(trouble):
		if mayBeDelayed(trouble, connection.LastDeletion(), time.Now()) {
			d.refused.Forget(d.key())
		}
		return d.retryOrGiveUp(ctx, bc, retryLimit{&d.refused, retrybudget.Termination}, conditions.ErrorSummary(trouble), t.remaining())
	case trouble != nil:
		return reconciled{}, d.retainAll(ctx, corev1.EventTypeWarning, conditions.ErrorSummary(trouble), t.remaining())
	}
	return reconciled{}, d.removeFinalizer(ctx, corev1.EventTypeNormal, retainedNote(stays))
}

// mayBeDelayed reports whether the broker may refuse a deletion only because it is busy with other deletions.
func mayBeDelayed(trouble error, lastDeletion, now time.Time) bool {
	return now.Sub(lastDeletion) < retrybudget.Termination && !errors.Is(trouble, brokererr.ErrUnprovable)
}

// whyRetainAll returns why Warren retains the whole topology of the resource; empty if it does not.
func (d *deletion) whyRetainAll(owned []v1alpha1.TopologyEntry) (kind, why string) {
	switch {
	case d.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain:
		return corev1.EventTypeNormal, policyRetains
	case d.cq.Spec.Suspend:
		return corev1.EventTypeWarning, "spec.suspend is true, so Warren changes nothing at the broker"
	case d.isDeclaredByOthers(owned):
		return corev1.EventTypeNormal, "driftPolicy is Report, and other clients declared this topology"
	}
	return "", ""
}

// setTerminating writes the conditions of a resource that is being deleted.
func (d *deletion) setTerminating(message string) {
	d.setConditions(summary{ready: conditions.False(v1alpha1.ReasonTerminating, message), progress: conditions.Reconciling})
}

// retryLimit is the retry budget for one cause of failed deletions.
type retryLimit struct {
	failures *retrybudget.Failures
	longest  time.Duration
}

// retryOrGiveUp retries the deletion until its retry budget is used up. Then it releases the resource.
func (d *deletion) retryOrGiveUp(
	ctx context.Context, bc *v1alpha1.BrokerConnection, limit retryLimit, why string, owned []v1alpha1.TopologyEntry,
) (reconciled, error) {
	longest := limit.longest
	if interval, err := bc.Spec.ResyncInterval.Parse(); err == nil {
		longest = max(longest, retrybudget.FailingIntervals*interval)
	}
	left := longest - limit.failures.Add(d.cq, time.Now())
	if left <= 0 {
		whole := fmt.Sprintf("not deleted within %s: %s", consumercontract.Duration(longest), why)
		return reconciled{}, d.retainAll(ctx, corev1.EventTypeWarning, whole, owned)
	}
	before := conditions.Ready(d.status.Conditions).Message
	d.setTerminating("waiting to delete the topology: " + why)
	if conditions.Ready(d.status.Conditions).Message != before {
		log.FromContext(ctx).Info("The topology cannot be deleted yet", "reason", why)
	}
	return requeueAfter(min(left, trigger.Jittered(terminationRetry)), trigger.Noticed), nil
}

// retainAll releases the resource and retains its whole topology at the broker.
func (d *deletion) retainAll(ctx context.Context, kind, why string, owned []v1alpha1.TopologyEntry) error {
	return d.removeFinalizer(ctx, kind, retainedNote(retained(owned, why)))
}

func retained(owned []v1alpha1.TopologyEntry, why string) []plan.Retained {
	stays := make([]plan.Retained, 0, len(owned))
	for _, entry := range owned {
		stays = append(stays, plan.Retained{Entry: entry, Reason: why})
	}
	return stays
}

// deletesDeclaredOnly reports whether a deletion retains adopted objects: with driftPolicy Report, unless deletionPolicy is Delete.
func (d *deletion) deletesDeclaredOnly() bool {
	return d.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport && d.cq.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete
}

// isDeclaredByOthers reports whether other clients declare this topology: driftPolicy is Report, and Warren found the main queue,
// or declared none of the objects.
func (d *deletion) isDeclaredByOthers(owned []v1alpha1.TopologyEntry) bool {
	if !d.deletesDeclaredOnly() || len(owned) == 0 {
		return false
	}
	declared, _ := topology.SplitByOrigin(owned)
	return len(declared) == 0 || slices.ContainsFunc(d.status.Topology, func(entry v1alpha1.TopologyEntry) bool {
		return isMain(entry) && entry.Origin == v1alpha1.OriginAdopted
	})
}

// retainedNote lists the retained objects by reason, with reasons in the order of their first object.
func retainedNote(stays []plan.Retained) string {
	var reasons []string
	objects := map[string][]v1alpha1.TopologyEntry{}
	for _, stay := range stays {
		if stay.Entry.Kind == v1alpha1.KindBinding || (stay.Entry.Kind == v1alpha1.KindExchange && stay.Entry.Role == v1alpha1.RoleSource) {
			continue
		}
		if objects[stay.Reason] == nil {
			reasons = append(reasons, stay.Reason)
		}
		objects[stay.Reason] = append(objects[stay.Reason], stay.Entry)
	}
	parts := make([]string, len(reasons))
	for i, reason := range reasons {
		parts[i] = fmt.Sprintf("%s: %s", formatObjects(objects[reason]), reason)
	}
	if len(parts) == 0 {
		return ""
	}
	return "retained " + strings.Join(parts, ". ")
}
