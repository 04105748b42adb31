package controller

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
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// terminationRetry is how soon it is tried again.
const terminationRetry = 3 * time.Second

// terminate deals with the topology of a resource that is being deleted, as its deletionPolicy says, and lets it go.
func (l *look) terminate(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(l.cq, v1alpha1.TopologyFinalizer) {
		return ctrl.Result{}, nil
	}
	begun := readyIn(l.status.Conditions).Reason == v1alpha1.ReasonTerminating
	if !l.deleted.has(l.cq) {
		l.removals.forget(client.ObjectKeyFromObject(l.cq)) // what came of earlier attempts says nothing about now
		l.deleted.first(l.cq)
	}
	owned := topology.Owned(l.status.Topology)
	kind, why := l.reasonToLeave(owned)
	switch {
	case why != "":
		return l.leave(ctx, kind, why, owned)
	case len(owned) == 0 && l.cq.Status.ObservedGeneration <= 0:
		return l.letGo(ctx, corev1.EventTypeWarning, "the status is empty: what this ConsumerQueue may have declared stays at the broker")
	case len(owned) == 0: // it never got as far
		return l.letGo(ctx, corev1.EventTypeNormal, "")
	}
	bc, err := l.connectionOf(ctx, l.cq)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case bc == nil:
		why := fmt.Sprintf("BrokerConnection %q is gone", l.cq.ConnectionName())
		if begun && l.status.VHost != "" { // an operator that was killed may have left some
			why += "; " + fencesMayStand(l.status.VHost)
		}
		return l.leave(ctx, corev1.EventTypeWarning, why, owned)
	case bc.IsSuspended():
		return l.leave(ctx, corev1.EventTypeWarning, fmt.Sprintf("BrokerConnection %q is suspended", bc.Name), owned)
	}
	return l.terminateThrough(ctx, bc, owned)
}

// terminateThrough takes the topology away through a BrokerConnection, as far as it may go.
func (l *look) terminateThrough(
	ctx context.Context, bc *v1alpha1.BrokerConnection, owned []v1alpha1.TopologyEntry,
) (ctrl.Result, error) {
	connection, version, usable := l.usable(bc)
	if !usable || connection.Health().Err != nil {
		why := fmt.Sprintf("BrokerConnection %q is connecting", bc.Name)
		if ready := readyOf(bc); ready.Status == metav1.ConditionFalse {
			why = whyNotReady(bc.Name, ready)
		}
		return l.await(ctx, bc, patience{l.unreached, terminationPatience}, why, owned)
	}
	done, ok := l.turns.take(connectionKey(l.cq), client.ObjectKeyFromObject(l.cq))
	if !ok {
		return ctrl.Result{}, errNoTurn
	}
	defer done()
	if wait := l.freshness.look(client.ObjectKeyFromObject(l.cq), connection, "deletion", l.deleted.first(l.cq)); wait > 0 {
		return ctrl.Result{}, &notLooked{wait}
	}
	d := &dismantling{connection: connection, version: version, vhost: connection.VHost(), owned: owned}
	d.settleIntents(l.cq, d.observe(l.cq))
	if l.deletesDeclaredOnly() {
		d.spareFound("driftPolicy is Report, and Warren found it")
	}
	stays, trouble := l.dismantle(ctx, d)
	switch {
	case errors.Is(trouble, errInProgress):
		l.terminating("looking whether the queues are empty")
		return ctrl.Result{RequeueAfter: jittered(terminationPatience)}, nil // the attempt tells when it is over
	case errors.Is(trouble, rabbit.ErrPending):
		return l.await(ctx, bc, patience{l.pending, pendingPatience}, said(trouble), d.remaining(l.cq))
	case trouble != nil && !final(trouble):
		return l.await(ctx, bc, patience{l.refused, terminationPatience}, said(trouble), d.remaining(l.cq))
	case trouble != nil:
		return l.leave(ctx, corev1.EventTypeWarning, said(trouble), d.remaining(l.cq))
	}
	return l.letGo(ctx, corev1.EventTypeNormal, retained(stays))
}

// reasonToLeave says why the topology is left as it is, by what the resource itself says; empty if it is not.
func (l *look) reasonToLeave(owned []v1alpha1.TopologyEntry) (kind, why string) {
	switch {
	case l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain:
		return corev1.EventTypeNormal, "deletionPolicy is Retain"
	case l.cq.IsSuspended():
		return corev1.EventTypeWarning, "spec.suspend is set, so the broker is not touched"
	case l.onlyWatched(owned):
		return corev1.EventTypeNormal, "driftPolicy is Report, and Warren found this topology"
	}
	return "", ""
}

// terminating is the verdict on a resource that is being deleted.
func (l *look) terminating(message string) {
	l.conclude(verdict{ready: no(v1alpha1.ReasonTerminating, message), progress: reconciling})
}

// patience is for how long deletions may fail for reasons of one kind, and what counts that.
type patience struct {
	failures *trials
	limit    time.Duration
}

// await has the deletion tried again, as long as patience lasts.
func (l *look) await(
	ctx context.Context, bc *v1alpha1.BrokerConnection, patient patience, why string, owned []v1alpha1.TopologyEntry,
) (ctrl.Result, error) {
	limit := patient.limit
	if interval, err := bc.Spec.ResyncInterval.Parse(); err == nil {
		limit = max(limit, patientIntervals*interval)
	}
	left := limit - patient.failures.failed(l.cq, time.Now())
	if left <= 0 {
		return l.leave(ctx, corev1.EventTypeWarning, fmt.Sprintf("given up after %v: %s", limit, why), owned)
	}
	before := readyIn(l.status.Conditions).Message
	l.terminating("waiting to delete the topology: " + why)
	if readyIn(l.status.Conditions).Message != before {
		log.FromContext(ctx).Info("The topology cannot be deleted yet", "reason", why)
	}
	return ctrl.Result{RequeueAfter: min(left, jittered(terminationRetry))}, nil
}

// leave lets the resource go with its whole topology left at the broker.
func (l *look) leave(ctx context.Context, kind, why string, owned []v1alpha1.TopologyEntry) (ctrl.Result, error) {
	stays := make([]plan.Retained, 0, len(owned))
	for _, entry := range owned {
		stays = append(stays, plan.Retained{Entry: entry, Reason: why})
	}
	return l.letGo(ctx, kind, retained(stays))
}

// letGo says what stays at the broker, if anything does, and takes the finalizer off. The log says it too: in a namespace
// that is being deleted no Event can be made.
func (l *look) letGo(ctx context.Context, kind, note string) (ctrl.Result, error) {
	before := l.cq.DeepCopy()
	controllerutil.RemoveFinalizer(l.cq, v1alpha1.TopologyFinalizer)
	err := l.patchMetadata(ctx, before)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer: %w", orOldStatus(err))
	}
	if note != "" && err == nil { // otherwise it went before, and that was said
		log.FromContext(ctx).Info("Deleted; a part of the topology stays at the broker", "stays", note)
		l.event(kind, eventRetained, "Delete", note)
	}
	l.forget(client.ObjectKeyFromObject(l.cq))
	l.status = l.cq.Status.DeepCopy() // the resource is gone: there is nothing to write to
	return ctrl.Result{}, nil
}

// retained says what stays and why, reasons in the order in which they come.
func retained(stays []plan.Retained) string {
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
		parts[i] = fmt.Sprintf("%s: %s", reason, listed(objects[reason]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "left at the broker: " + strings.Join(parts, ". ")
}

// errInProgress: the deletion goes on by itself, and tells when it is over.
var errInProgress = errors.New("in progress")

// final says whether a failure will not go away by waiting. What could not be proved now may be later: the broker may have
// been slow, or somebody may have changed a policy meanwhile. Dead letters that wait may have left their queue.
func final(err error) bool {
	if errors.Is(err, rabbit.ErrPending) {
		return false
	}
	for _, lasting := range []error{rabbit.ErrNotEmpty, rabbit.ErrAccessRefused, rabbit.ErrOtherCluster, errNeeded} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// errNeeded: somebody else's queue sends its dead letters here.
var errNeeded = errors.New("still needed")

// dismantling is what taking a topology away has to do with.
type dismantling struct {
	connection Broker
	version    vhost.Version
	vhost      string
	// owned are the objects that may be taken away.
	owned []v1alpha1.TopologyEntry
	// spared are the objects that stay whatever happens.
	spared []plan.Retained
	// unconfirmed are queues of which nobody knows whether Warren or somebody else declared them.
	unconfirmed map[string]bool
}

// dismantle takes away what may go: delay tiers and the main queue together, then dead-letter queues, then exchanges. It
// returns what stays; an error means that nothing more can be done now, or at all.
func (l *look) dismantle(ctx context.Context, d *dismantling) ([]plan.Retained, error) {
	observed := d.observe(l.cq)
	here := place{vhost.ClusterOf(observed.Cluster), d.vhost}
	if recorded := recordedPlace(*l.status); recorded.cluster.Known() && !here.continues(recorded) {
		return nil, fmt.Errorf("%w: the topology is in %v at %s, and BrokerConnection %q leads to %v at %s",
			rabbit.ErrOtherCluster, recorded, recorded.cluster.Endpoint, l.cq.ConnectionName(), here, here.cluster.Endpoint)
	}
	if l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && d.mainIsForeign(l.cq, observed) {
		d.spareFound(fmt.Sprintf("Warren found it, and the main queue %q is somebody else's", l.cq.QueueName()))
	}
	if err := l.declaredAgain(observed); err != nil {
		return nil, err
	}
	near, err := l.neighboursOf(ctx, l.cq, here, d.version)
	if err != nil {
		return nil, err
	}
	l.onlyFor(l.withUnderWay(plan.TeardownOf(d.owned, observed, near.living().sharer, nil), observed))
	step := l.withUnderWay(plan.TeardownOf(d.owned, observed, l.releases.staying(near).sharer, nil), observed)
	if err := l.deleteWork(ctx, d, observed, step); err != nil {
		return nil, err
	}
	if near, err = l.neighboursOf(ctx, l.cq, here, d.version); err != nil {
		return nil, err
	}
	shared := l.releases.settle(l.cq, d.owned, near)
	kept, err := l.deleteDeadLetter(ctx, d, observed.Cluster, plan.TeardownOf(d.owned, d.observe(l.cq), shared, nil))
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
	return append(last.Retained, d.sparedAt(observed)...), nil
}

func (d *dismantling) observe(cq *v1alpha1.ConsumerQueue) vhost.Observed {
	names := topology.SelectionWith(cq, d.all())
	names.IncludeDeadLetterSources = true
	observed, _ := d.connection.Observe(names)
	return observed
}

// remaining is what is still there of what this resource owned; at another cluster nothing is known of that.
func (d *dismantling) remaining(cq *v1alpha1.ConsumerQueue) []v1alpha1.TopologyEntry {
	observed := d.observe(cq)
	if here := (place{vhost.ClusterOf(observed.Cluster), d.vhost}); !here.continues(recordedPlace(cq.Status)) {
		return d.all()
	}
	return slices.DeleteFunc(d.all(), func(entry v1alpha1.TopologyEntry) bool { return !observed.Has(topology.IDOf(entry)) })
}

// deleteWork deletes delay tiers and main queue. Unless their messages are to go with them, they must be provably empty,
// and nobody else may send messages here.
func (l *look) deleteWork(ctx context.Context, d *dismantling, observed vhost.Observed, step plan.Teardown) error {
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
	return l.deleteEmpty(d, observed.Cluster, step.WorkQueues, l.releases.unsettledSharer)
}

// deleteDeadLetter deletes dead-letter queues, one by one, and returns why others are kept.
func (l *look) deleteDeadLetter(
	ctx context.Context, d *dismantling, cluster string, step plan.Teardown,
) (kept map[string]string, err error) {
	if l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		return nil, l.deleteWithMessages(ctx, d, cluster, step.DeadLetterQueues)
	}
	kept = map[string]string{}
	for _, queue := range step.DeadLetterQueues {
		err := l.deleteEmpty(d, cluster, []string{queue}, l.releases.settle)
		switch {
		case err == nil:
		case final(err):
			kept[queue] = said(err)
		default:
			return nil, err
		}
	}
	return kept, nil
}

// withUnderWay adds to the work the queues that an attempt, which goes on, has deleted of it.
func (l *look) withUnderWay(step plan.Teardown, observed vhost.Observed) plan.Teardown {
	if l.cq.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete { // which deletes one queue after the other
		step.WorkQueues = l.removals.underWay(client.ObjectKeyFromObject(l.cq), step.WorkQueues, func(queue string) bool {
			_, exists := observed.Queues[queue]
			return exists
		})
	}
	return step
}

// onlyFor ends attempts that began before the resource was to be deleted, or for a step that is over.
func (l *look) onlyFor(step plan.Teardown) {
	groups := slices.Collect(slices.Chunk(step.DeadLetterQueues, 1))
	if l.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete { // see deleteWithMessages
		groups = slices.AppendSeq(groups, slices.Chunk(step.WorkQueues, 1))
	}
	l.removals.only(client.ObjectKeyFromObject(l.cq), append(groups, step.WorkQueues)...)
}

// sharing finds out who else has the objects of a ConsumerQueue that is being deleted.
type sharing func(cq *v1alpha1.ConsumerQueue, owned []v1alpha1.TopologyEntry, near neighbours) func(v1alpha1.TopologyEntry) string

func (l *look) deleteEmpty(d *dismantling, cluster string, queues []string, shared sharing) error {
	g := group{queues, l.stillUnneeded(d, cluster, queues, shared)}
	known, err := l.removals.attempt(client.ObjectKeyFromObject(l.cq), d.connection, cluster, g, terminationRetry)
	if !known {
		return errInProgress
	}
	return err
}

// stillUnneeded makes a question that is asked right before queues are fenced off: may they still go? Somebody may have
// begun to dead-letter there, or another ConsumerQueue to want them.
func (l *look) stillUnneeded(d *dismantling, cluster string, queues []string, shared sharing) func(context.Context) error {
	r, cq, now := l.ConsumerQueueReconciler, l.cq.DeepCopy(), *d
	return func(ctx context.Context) error {
		if err := refreshed(ctx, now.connection); err != nil {
			return err
		}
		near, err := r.neighboursOf(ctx, cq, place{vhost.ClusterOf(cluster), now.vhost}, now.version)
		if err != nil {
			return err
		}
		observed := now.observe(cq)
		return mayGo(plan.TeardownOf(now.owned, observed, shared(cq, now.owned, near), nil), observed, queues)
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
func (l *look) declaredAgain(observed vhost.Observed) error {
	queue, since := l.removals.back(client.ObjectKeyFromObject(l.cq), func(queue string) bool {
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
func (l *look) deleteWithMessages(ctx context.Context, d *dismantling, cluster string, queues []string) error {
	for _, queue := range queues {
		var err error
		if d.unconfirmed[queue] {
			err = l.deleteEmpty(d, cluster, []string{queue}, l.releases.unsettledSharer)
		} else {
			err = d.connection.Remove(ctx, cluster, rabbit.Removal{Queues: []string{queue}})
		}
		if d.unconfirmed[queue] && err != nil && final(err) {
			d.spare(queue, said(err))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
