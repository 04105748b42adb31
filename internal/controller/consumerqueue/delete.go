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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/patience"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// terminationRetry is how soon it is tried again.
const terminationRetry = 3 * time.Second

// reconcileDelete deals with the topology of a resource that is being deleted, as its deletionPolicy says, and lets it go.
func (l *scope) reconcileDelete(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(l.cq, v1alpha1.TopologyFinalizer) {
		return ctrl.Result{}, nil
	}
	begun := conditions.Ready(l.status.Conditions).Reason == v1alpha1.ReasonTerminating
	if !l.deleted.Has(l.cq) {
		l.deletions.Cancel(client.ObjectKeyFromObject(l.cq)) // what came of earlier attempts says nothing about now
		l.deleted.At(l.cq)
	}
	owned := topology.Owned(l.status.Topology)
	kind, why := l.whyRetainAll(owned)
	switch {
	case why != "":
		return l.retainAll(ctx, kind, why, owned)
	case len(owned) == 0 && l.cq.Status.ObservedGeneration <= 0:
		return l.removeFinalizer(ctx, corev1.EventTypeWarning, "the status is empty: what this ConsumerQueue may have declared stays at the broker")
	case len(owned) == 0: // it never got as far
		return l.removeFinalizer(ctx, corev1.EventTypeNormal, "")
	}
	bc, err := l.connectionOf(ctx, l.cq)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case bc == nil:
		why := fmt.Sprintf("BrokerConnection %q is gone", l.cq.ConnectionName())
		if begun && l.status.VHost != "" { // an operator that was killed may have left some
			why += "; " + brokers.FencesMayStand(l.status.VHost)
		}
		return l.retainAll(ctx, corev1.EventTypeWarning, why, owned)
	case bc.IsSuspended():
		return l.retainAll(ctx, corev1.EventTypeWarning, fmt.Sprintf("BrokerConnection %q is suspended", bc.Name), owned)
	}
	return l.teardownThrough(ctx, bc, owned)
}

// teardownThrough takes the topology away through a BrokerConnection, as far as it may go.
func (l *scope) teardownThrough(
	ctx context.Context, bc *v1alpha1.BrokerConnection, owned []v1alpha1.TopologyEntry,
) (ctrl.Result, error) {
	connection, version, usable := l.usable(bc)
	if !usable || connection.Health().Err != nil {
		why := fmt.Sprintf("BrokerConnection %q is connecting", bc.Name)
		if ready := conditions.ReadyOf(bc); ready.Status == metav1.ConditionFalse {
			why = whyNotReady(bc.Name, ready)
		}
		return l.retryOrGiveUp(ctx, bc, retryLimit{l.unreached, patience.TerminationPatience}, why, owned)
	}
	done, ok := l.limiter.TryAcquire(connection.Health().Cluster.Endpoint, client.ObjectKeyFromObject(l.cq))
	if !ok {
		return ctrl.Result{}, brokers.ErrBusy
	}
	defer done()
	if wait := l.refreshes.Pending(client.ObjectKeyFromObject(l.cq), connection, "deletion", l.deleted.At(l.cq)); wait > 0 {
		return ctrl.Result{}, &brokers.RefreshPending{Wait: wait}
	}
	d := &teardown{connection: connection, version: version, vhost: connection.VHost(), owned: owned}
	d.resolveIntents(l.cq, d.observe(l.cq))
	if l.deletesDeclaredOnly() {
		d.retainAdopted("driftPolicy is Report, and Warren found it")
	}
	stays, trouble := l.teardown(ctx, d)
	switch {
	case errors.Is(trouble, errInProgress):
		l.setTerminating("looking whether the queues are empty")
		return ctrl.Result{RequeueAfter: trigger.Jittered(patience.TerminationPatience)}, nil // the attempt tells when it is over
	case errors.Is(trouble, brokererr.ErrPending):
		return l.retryOrGiveUp(ctx, bc, retryLimit{l.pending, patience.PendingPatience}, conditions.ErrorSummary(trouble), d.remaining(l.cq))
	case trouble != nil && !isFinal(trouble):
		return l.retryOrGiveUp(ctx, bc, retryLimit{l.refused, patience.TerminationPatience}, conditions.ErrorSummary(trouble), d.remaining(l.cq))
	case trouble != nil:
		return l.retainAll(ctx, corev1.EventTypeWarning, conditions.ErrorSummary(trouble), d.remaining(l.cq))
	}
	return l.removeFinalizer(ctx, corev1.EventTypeNormal, retainedNote(stays))
}

// whyRetainAll says why the topology is left as it is, by what the resource itself says; empty if it is not.
func (l *scope) whyRetainAll(owned []v1alpha1.TopologyEntry) (kind, why string) {
	switch {
	case l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain:
		return corev1.EventTypeNormal, "deletionPolicy is Retain"
	case l.cq.IsSuspended():
		return corev1.EventTypeWarning, "spec.suspend is set, so the broker is not touched"
	case l.isDeclaredByOthers(owned):
		return corev1.EventTypeNormal, "driftPolicy is Report, and Warren found this topology"
	}
	return "", ""
}

// setTerminating is the verdict on a resource that is being deleted.
func (l *scope) setTerminating(message string) {
	l.setConditions(summary{ready: conditions.False(v1alpha1.ReasonTerminating, message), progress: conditions.Reconciling})
}

// retryLimit is for how long deletions may fail for reasons of one kind, and what counts that.
type retryLimit struct {
	failures *patience.Failures
	longest  time.Duration
}

// retryOrGiveUp has the deletion tried again, as long as patience lasts.
func (l *scope) retryOrGiveUp(
	ctx context.Context, bc *v1alpha1.BrokerConnection, limit retryLimit, why string, owned []v1alpha1.TopologyEntry,
) (ctrl.Result, error) {
	longest := limit.longest
	if interval, err := bc.Spec.ResyncInterval.Parse(); err == nil {
		longest = max(longest, patience.PatientIntervals*interval)
	}
	left := longest - limit.failures.Add(l.cq, time.Now())
	if left <= 0 {
		return l.retainAll(ctx, corev1.EventTypeWarning, fmt.Sprintf("given up after %v: %s", longest, why), owned)
	}
	before := conditions.Ready(l.status.Conditions).Message
	l.setTerminating("waiting to delete the topology: " + why)
	if conditions.Ready(l.status.Conditions).Message != before {
		log.FromContext(ctx).Info("The topology cannot be deleted yet", "reason", why)
	}
	return ctrl.Result{RequeueAfter: min(left, trigger.Jittered(terminationRetry))}, nil
}

// retainAll lets the resource go with its whole topology left at the broker.
func (l *scope) retainAll(ctx context.Context, kind, why string, owned []v1alpha1.TopologyEntry) (ctrl.Result, error) {
	stays := make([]plan.Retained, 0, len(owned))
	for _, entry := range owned {
		stays = append(stays, plan.Retained{Entry: entry, Reason: why})
	}
	return l.removeFinalizer(ctx, kind, retainedNote(stays))
}

// removeFinalizer says what stays at the broker, if anything does, and takes the finalizer off. The log says it too: in a namespace
// that is being deleted no Event can be made.
func (l *scope) removeFinalizer(ctx context.Context, kind, note string) (ctrl.Result, error) {
	before := l.cq.DeepCopy()
	controllerutil.RemoveFinalizer(l.cq, v1alpha1.TopologyFinalizer)
	err := l.patchMetadata(ctx, before)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer: %w", asStaleCache(err))
	}
	if note != "" && err == nil { // otherwise it went before, and that was said
		log.FromContext(ctx).Info("Deleted; a part of the topology stays at the broker", "stays", note)
		l.addEvent(kind, eventRetained, "Delete", note)
	}
	l.forget(client.ObjectKeyFromObject(l.cq))
	l.status = l.cq.Status.DeepCopy() // the resource is gone: there is nothing to write to
	return ctrl.Result{}, nil
}

// retainedNote says what stays and why, reasons in the order in which they come.
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
		parts[i] = fmt.Sprintf("%s: %s", reason, formatObjects(objects[reason]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "left at the broker: " + strings.Join(parts, ". ")
}

// errInProgress: the deletion goes on by itself, and tells when it is over.
var errInProgress = errors.New("in progress")

// isFinal says whether a failure will not go away by waiting. What could not be proved now may be later: the broker may have
// been slow, or somebody may have changed a policy meanwhile. Dead letters that wait may have left their queue.
func isFinal(err error) bool {
	if errors.Is(err, brokererr.ErrPending) {
		return false
	}
	for _, lasting := range []error{brokererr.ErrNotEmpty, brokererr.ErrAccessRefused, brokererr.ErrOtherCluster, errNeeded} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// errNeeded: somebody else's queue sends its dead letters here.
var errNeeded = errors.New("still needed")

// teardown is what taking a topology away has to do with.
type teardown struct {
	connection brokers.Broker
	version    vhost.Version
	vhost      string
	// owned are the objects that may be taken away.
	owned []v1alpha1.TopologyEntry
	// retained are the objects that stay whatever happens.
	retained []plan.Retained
	// unconfirmed are queues of which nobody knows whether Warren or somebody else declared them.
	unconfirmed map[string]bool
}

// teardown takes away what may go: delay tiers and the main queue together, then dead-letter queues, then exchanges. It
// returns what stays; an error means that nothing more can be done now, or at all.
func (l *scope) teardown(ctx context.Context, d *teardown) ([]plan.Retained, error) {
	observed := d.observe(l.cq)
	here := ownership.Location{Cluster: vhost.ClusterOf(observed.Cluster), VHost: d.vhost}
	if recorded := ownership.Recorded(*l.status); recorded.Cluster.Known() && !here.IsIn(recorded) {
		return nil, fmt.Errorf("%w: the topology is in %v at %s, and BrokerConnection %q leads to %v at %s",
			brokererr.ErrOtherCluster, recorded, recorded.Cluster.Endpoint, l.cq.ConnectionName(), here, here.Cluster.Endpoint)
	}
	if l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && d.mainIsForeign(l.cq, observed) {
		d.retainAdopted(fmt.Sprintf("Warren found it, and the main queue %q is somebody else's", l.cq.QueueName()))
	}
	if err := l.declaredAgain(observed); err != nil {
		return nil, err
	}
	view := l.view(ctx, l.cq, here, d.version)
	l.cancelOtherDeletions(l.withRunning(plan.TeardownOf(d.owned, observed, view.Active().SharedWith, nil), observed))
	step := l.withRunning(plan.TeardownOf(d.owned, observed, l.handover.Undecided(view).SharedWith, nil), observed)
	if err := l.deleteWorkQueues(ctx, d, observed, step); err != nil {
		return nil, err
	}
	shared := l.handover.Resolve(l.cq, d.owned, view)
	kept, err := l.deleteDeadLetterQueues(ctx, d, observed.Cluster, plan.TeardownOf(d.owned, d.observe(l.cq), shared, nil))
	if err != nil {
		return nil, err
	}
	step = plan.TeardownOf(d.owned, d.observe(l.cq), shared, kept)
	err = d.connection.Remove(ctx, observed.Cluster, rabbit.Removal{Bindings: step.Bindings, Exchanges: step.Exchanges})
	if err != nil && !onlyInUse(err) {
		return nil, err
	}
	observed = d.observe(l.cq)
	last := plan.TeardownOf(d.owned, observed, shared, kept)
	for _, exchange := range last.Exchanges { // which the broker did not delete
		entry := v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: exchange}
		last.Retained = append(last.Retained, plan.Retained{Entry: entry, Reason: boundUnseen.Message})
	}
	return append(last.Retained, d.retainedAt(observed)...), nil
}

func (d *teardown) observe(cq *v1alpha1.ConsumerQueue) vhost.Observed {
	names := topology.SelectionWith(cq, d.inventory())
	names.IncludeDeadLetterSources = true
	observed, _ := d.connection.Observe(names)
	return observed
}

// remaining is what is still there of what this resource owned; at another cluster nothing is known of that.
func (d *teardown) remaining(cq *v1alpha1.ConsumerQueue) []v1alpha1.TopologyEntry {
	observed := d.observe(cq)
	if here := (ownership.Location{Cluster: vhost.ClusterOf(observed.Cluster), VHost: d.vhost}); !here.IsIn(ownership.Recorded(cq.Status)) {
		return d.inventory()
	}
	return slices.DeleteFunc(d.inventory(), func(entry v1alpha1.TopologyEntry) bool { return !observed.Has(topology.IDOf(entry)) })
}

// deleteWorkQueues deletes delay tiers and main queue. Unless their messages are to go with them, they must be provably empty,
// and nobody else may send messages here.
func (l *scope) deleteWorkQueues(ctx context.Context, d *teardown, observed vhost.Observed, step plan.Teardown) error {
	if l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		return l.deleteWithMessages(ctx, d, observed.Cluster, step.WorkQueues)
	}
	main := l.cq.QueueName()
	_, exists := observed.Queues[main]
	switch {
	case exists && !slices.Contains(step.WorkQueues, main):
		return fmt.Errorf("%w: the main queue %q was not declared by Warren or is shared, and stays; so does what it needs", errNeeded, main)
	case step.FeedingQueue != "":
		return fmt.Errorf("%w: queue %q dead-letters to this topology", errNeeded, step.FeedingQueue)
	case len(step.WorkQueues) == 0:
		return nil
	}
	return l.deleteEmpty(d, observed.Cluster, step.WorkQueues, l.undecided)
}

// deleteDeadLetterQueues deletes dead-letter queues, one by one, and returns why others are kept.
func (l *scope) deleteDeadLetterQueues(
	ctx context.Context, d *teardown, cluster string, step plan.Teardown,
) (kept map[string]string, err error) {
	if l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		return nil, l.deleteWithMessages(ctx, d, cluster, step.DeadLetterQueues)
	}
	kept = map[string]string{}
	for _, queue := range step.DeadLetterQueues {
		err := l.deleteEmpty(d, cluster, []string{queue}, l.handover.Resolve)
		switch {
		case err == nil:
		case isFinal(err):
			kept[queue] = conditions.ErrorSummary(err)
		default:
			return nil, err
		}
	}
	return kept, nil
}

// withRunning adds to the work the queues that an attempt, which goes on, has deleted of it.
func (l *scope) withRunning(step plan.Teardown, observed vhost.Observed) plan.Teardown {
	if l.cq.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete { // which deletes one queue after the other
		step.WorkQueues = l.deletions.Running(client.ObjectKeyFromObject(l.cq), step.WorkQueues, func(queue string) bool {
			_, exists := observed.Queues[queue]
			return exists
		})
	}
	return step
}

// cancelOtherDeletions ends attempts that began before the resource was to be deleted, or for a step that is over.
func (l *scope) cancelOtherDeletions(step plan.Teardown) {
	groups := slices.Collect(slices.Chunk(step.DeadLetterQueues, 1))
	if l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete { // see deleteWithMessages
		groups = slices.AppendSeq(groups, slices.Chunk(step.WorkQueues, 1))
	}
	l.deletions.CancelExcept(client.ObjectKeyFromObject(l.cq), append(groups, step.WorkQueues)...)
}

// sharing finds out who else has the objects of a ConsumerQueue that is being deleted.
type sharing func(cq *v1alpha1.ConsumerQueue, owned []v1alpha1.TopologyEntry, view ownership.View) func(v1alpha1.TopologyEntry) string

// undecided is sharing with those that can still be left something.
func (l *scope) undecided(
	_ *v1alpha1.ConsumerQueue, _ []v1alpha1.TopologyEntry, view ownership.View,
) func(v1alpha1.TopologyEntry) string {
	return l.handover.Undecided(view).SharedWith
}

func (l *scope) deleteEmpty(d *teardown, cluster string, queues []string, shared sharing) error {
	g := brokers.Group{Queues: queues, StillWanted: l.stillUnneeded(d, cluster, queues, shared)}
	known, err := l.deletions.Ensure(client.ObjectKeyFromObject(l.cq), d.connection, cluster, g, terminationRetry)
	if !known {
		return errInProgress
	}
	return err
}

// stillUnneeded makes a question that is asked right before queues are fenced off: may they still go? Somebody may have
// begun to dead-letter there, or another ConsumerQueue to want them.
func (l *scope) stillUnneeded(d *teardown, cluster string, queues []string, shared sharing) func(context.Context) error {
	r, cq, now := l.Reconciler, l.cq.DeepCopy(), *d
	return func(ctx context.Context) error {
		if err := refreshed(ctx, now.connection); err != nil {
			return err
		}
		view := r.view(ctx, cq, ownership.Location{Cluster: vhost.ClusterOf(cluster), VHost: now.vhost}, now.version)
		observed := now.observe(cq)
		return mayGo(plan.TeardownOf(now.owned, observed, shared(cq, now.owned, view), nil), observed, queues)
	}
}

// mayGo says why one of these queues must not be deleted.
func mayGo(step plan.Teardown, observed vhost.Observed, queues []string) error {
	for _, queue := range queues {
		_, exists := observed.Queues[queue]
		work := slices.Contains(step.WorkQueues, queue)
		switch {
		case work && step.FeedingQueue != "":
			return fmt.Errorf("%w: queue %q dead-letters to this topology", errNeeded, step.FeedingQueue)
		case exists && !work && !slices.Contains(step.DeadLetterQueues, queue):
			return fmt.Errorf("%w: queue %q: %s", errNeeded, queue, stayOf(step, queue))
		}
	}
	return nil
}

func stayOf(step plan.Teardown, queue string) string {
	for _, stay := range step.Retained {
		if stay.Entry.Kind == v1alpha1.KindQueue && stay.Entry.Name == queue {
			return stay.Reason
		}
	}
	return "somebody else has it"
}

// reappearing is for how long a queue may still be listed after it was deleted, by another node of the broker.
const reappearing = 5 * time.Second

// declaredAgain says that a queue which was shown to be empty and deleted is there again: it is somebody else's, and to
// delete it once more could go on for ever.
func (l *scope) declaredAgain(observed vhost.Observed) error {
	queue, since := l.deletions.Reappeared(client.ObjectKeyFromObject(l.cq), func(queue string) bool {
		_, exists := observed.Queues[queue]
		return exists
	})
	switch {
	case queue == "":
		return nil
	case since < reappearing:
		return fmt.Errorf("queue %q was deleted and is listed again", queue)
	}
	return fmt.Errorf("%w: queue %q was deleted, and somebody else declared it again", errNeeded, queue)
}

// deleteWithMessages deletes queues one after the other; those of which nobody knows whose they are only if they are empty.
func (l *scope) deleteWithMessages(ctx context.Context, d *teardown, cluster string, queues []string) error {
	for _, queue := range queues {
		var err error
		if d.unconfirmed[queue] {
			err = l.deleteEmpty(d, cluster, []string{queue}, l.undecided)
		} else {
			err = d.connection.Remove(ctx, cluster, rabbit.Removal{Queues: []string{queue}})
		}
		if d.unconfirmed[queue] && err != nil && isFinal(err) {
			d.retain(queue, conditions.ErrorSummary(err))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
