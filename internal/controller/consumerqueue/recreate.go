package consumerqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// progressInterval is how often the status shows how many messages are left.
	progressInterval = 5 * time.Second
	// inspectionAge is how long the counts of a queue's consumers and messages count as current.
	inspectionAge = 5 * time.Second
	// checkInterval is the time between two checks of a queue that is in use. In between, only its consumers and messages are counted.
	checkInterval = 5 * time.Minute
	// slotAgain is how soon a queue tries again for a slot.
	slotAgain = time.Second
	// refusedAgain is how soon a refused recreation is checked again; busyAgain, if the queue is in use.
	refusedAgain = time.Minute
	busyAgain    = 10 * time.Second
)

func recreates(cq *v1alpha1.ConsumerQueue) bool {
	return topology.RecreationOf(cq).Recreates(cq.Spec.DriftPolicy)
}

// planRecreation chooses the queue to recreate next, and decides whether its recreation begins now. It returns the summary with that
// decision, and the status of the recreation if it begins.
func (v *vhostScope) planRecreation(comparison plan.Comparison, outcome summary) (summary, *v1alpha1.RecreationStatus) {
	if !recreates(v.cq) || !comparison.RequiresRecreation() {
		v.dropPlanned()
		return outcome, nil
	}
	blocksReady := outcome.ready.Reason == v1alpha1.ReasonRecreationRequired
	if !blocksReady && !comparison.Upgraded { // another problem comes first, and may soon be solved
		v.interruptPlanned()
		return outcome, nil
	}
	observed, _ := v.connection.Observe(topology.SelectionWith(v.cq, v.owned))
	next, found := plan.NextRecreation(comparison, v.known, observed, v.diffInput())
	if !found {
		v.dropPlanned()
		return outcome, nil
	}
	moment := plan.Moment{
		Settings: topology.RecreationOf(v.cq), Generation: v.cq.Generation, PlanHash: v.status.PlanHash, Now: time.Now(),
		Approved: v.cq.Annotations[v1alpha1.ApproveRecreationAnnotation], Aborted: v.cq.Annotations[v1alpha1.AbortRecreationAnnotation],
		Status: plan.Planned(v.status.Recreation, next.Queue, v.newRecreationID),
	}
	moment.ResetAttempts()
	verdict := next.Permit(moment)
	if comparison.Upgraded && isAboutApproval(verdict) { // an upgrade alone starts nothing
		v.dropPlanned()
		return outcome, nil
	}
	if !verdict.Begins || !plan.MovesMessages(moment.Settings, next.Queue.Role) {
		moment.Status.EndPause()
	}
	v.status.Recreation = &moment.Status
	var begun *v1alpha1.RecreationStatus
	if verdict.Begins {
		verdict, begun = v.decideRecreation(next, moment)
	}
	if _, isPaused := plan.PauseEnds(v.status.Recreation); begun == nil && !isPaused {
		v.recreations.rest(v.key()) // an earlier reconciliation could not write that the recreation begins
	}
	v.requeueWithin(verdict.Again)
	return v.summaryOfVerdict(comparison, outcome, verdict), begun
}

func isAboutApproval(verdict plan.Verdict) bool {
	return slices.Contains([]string{v1alpha1.ReasonApprovalNeeded, v1alpha1.ReasonApprovalStale}, verdict.Reason)
}

// dropPlanned removes a recreation that is no longer needed from the status. It keeps the result of the last one.
func (v *vhostScope) dropPlanned() {
	v.recreations.release(v.key())
	former := v.status.Recreation
	if former == nil || former.LastResult == nil && former.Pause == nil {
		v.status.Recreation = nil
		return
	}
	v.status.Recreation = &v1alpha1.RecreationStatus{LastResult: former.LastResult, Pause: former.Pause}
	v.status.Recreation.EndPause()
}

func (v *vhostScope) newRecreationID() string { return recreate.NewID(v.key().String()) }

// decideRecreation decides by the consumers and messages of the queue whether a permitted recreation begins. A task counts them at the
// broker. The counts must be younger than inspectionAge.
func (v *vhostScope) decideRecreation(next plan.Recreation, moment plan.Moment) (plan.Verdict, *v1alpha1.RecreationStatus) {
	key := v.key()
	task := v.recreations.get(key, moment.Status)
	inspected, known := task.lastResult()
	isNew := task.exists() && !task.isRunning() && moment.Now.Sub(task.ended) < inspectionAge
	if !isNew && !task.isRunning() {
		// An inspection takes about eight requests to RabbitMQ, so a queue waits for its slot without one.
		if known && verdictOfInspection(next, moment, inspected).Begins && !v.recreations.hasSlot(key, v.place()) {
			return waitsForSlot(next), nil
		}
		work, err := v.workOf(moment.Status)
		if err != nil {
			return plan.Verdict{Reason: v1alpha1.ReasonRecreationBlocked, Message: err.Error()}, nil
		}
		work.former, work.isInUse = inspected, func(queue recreate.QueueSeen) bool { return !decideBy(queue, next, moment).Begins }
		if _, isPaused := plan.PauseEnds(&moment.Status); !isPaused && plan.MovesMessages(moment.Settings, next.Queue.Role) {
			work.configMap = v.contractConfigMap()
		}
		v.recreations.begin(key, moment.Status, work.run)
	}
	if !known {
		return plan.Verdict{Reason: v1alpha1.ReasonRecreationPending, Message: fmt.Sprintf(
			"the consumers and messages of queue %q are being counted", next.Queue.Name)}, nil
	}
	verdict := verdictOfInspection(next, moment, inspected)
	switch {
	case !verdict.Begins:
		return v.pauseConsumers(next, moment, inspected, verdict), nil
	case inspected.err == nil && inspected.seen.IsNew:
		v.connection.RequestCatchUp()
		fallthrough
	case !isNew, inspected.onlyCounted:
		return plan.Verdict{Reason: v1alpha1.ReasonRecreationPending, Again: slotAgain, Message: fmt.Sprintf(
			"queue %q is about to be recreated", next.Queue.Name)}, nil
	case !v.recreations.reserve(key, v.place(), false):
		return waitsForSlot(next), nil
	}
	return verdict, begunStatus(next, moment, inspected.seen)
}

func waitsForSlot(next plan.Recreation) plan.Verdict {
	return plan.Verdict{Reason: v1alpha1.ReasonRecreationPending, Again: slotAgain, Message: fmt.Sprintf(
		"Warren recreates queue %q when another recreation ends: %d queues of this vhost are being recreated, which is the maximum",
		next.Queue.Name, maxRecreations)}
}

// verdictOfInspection decides by the answer of the broker.
func verdictOfInspection(next plan.Recreation, moment plan.Moment, inspected phaseResult) plan.Verdict {
	if inspected.err == nil {
		return decideBy(inspected.seen.Queue, next, moment)
	}
	verdict := plan.Verdict{Reason: v1alpha1.ReasonRecreationBlocked, Message: conditions.ErrorSummary(inspected.err), Again: refusedAgain}
	switch recreate.ReasonOf(inspected.err) {
	case "", recreate.QueueBusy, recreate.QueueUnavailable, recreate.ConsumersCameBack, recreate.MessagesPending:
		verdict.Reason, verdict.Again = v1alpha1.ReasonRecreationPending, busyAgain
	}
	return verdict
}

func begunStatus(next plan.Recreation, moment plan.Moment, seen recreate.Seen) *v1alpha1.RecreationStatus {
	begun := moment.Status
	begun.Phase, begun.Remaining = v1alpha1.RecreationDiverting, int64(seen.Queue.Ready)
	if next.Queue.Role != v1alpha1.RoleDelayTier || len(seen.Queue.Bindings) > 0 {
		of := recreate.Recreation{ID: begun.ID, Queue: next.Queue}
		begun.Hold, begun.Backlog = of.Hold(), of.Backlog()
	}
	if moment.IsApproved() { // an annotation of a former plan remains
		begun.ApprovedPlanHash, begun.ApprovedGeneration = moment.Approved, moment.Generation
	}
	return &begun
}

// place is the vhost of the resource, for the limit of concurrent recreations.
func (v *vhostScope) place() recreationPlace {
	if address := v.connection.Health().Place.Address; address != "" {
		return recreationPlace{endpoint: address, vhost: v.location.VHost}
	}
	return recreationPlace{namespace: v.cq.Namespace, endpoint: v.location.Cluster.Endpoint, vhost: v.location.VHost}
}

// requeueWithin requeues the resource after this time, unless it is requeued earlier. Zero does nothing.
func (s *scope) requeueWithin(wait time.Duration) {
	s.recheckIn = earliest(s.recheckIn, wait)
}

// summaryOfVerdict returns the summary while a queue waits to be recreated. The old queue works, so Ready remains True unless a user must
// act or another change must wait.
func (v *vhostScope) summaryOfVerdict(comparison plan.Comparison, outcome summary, verdict plan.Verdict) summary {
	message := recreationMessage(comparison.Changes, nil) + "; " + verdict.Message
	required := conditions.True(verdict.Reason, message)
	outcome.recreation = &required
	waits := slices.ContainsFunc(comparison.ChangesBeyondUpgrade(v.known), func(change v1alpha1.Change) bool {
		return change.Effect != v1alpha1.EffectRecreate
	})
	switch {
	case verdict.Begins: // beginWork sets the conditions
	case isAboutApproval(verdict):
		outcome.ready, outcome.progress = conditions.False(v1alpha1.ReasonApprovalNeeded, message), conditions.Stalled
	case verdict.Reason == v1alpha1.ReasonRecreationBlocked, verdict.Reason == v1alpha1.ReasonRecreationAborted:
		outcome.ready, outcome.progress = conditions.False(verdict.Reason, message), conditions.Stalled
		if verdict.Reason == v1alpha1.ReasonRecreationBlocked && conditions.Ready(v.status.Conditions).Reason != verdict.Reason {
			v.addEvent(corev1.EventTypeWarning, eventRecreationBlocked, "Recreate", verdict.Message)
		}
	case waits:
		outcome.ready, outcome.progress = conditions.Unknown(v1alpha1.ReasonRecreationPending, message), conditions.Reconciling
	default:
		outcome.ready, outcome.progress = conditions.True(v1alpha1.ReasonRecreationPending, message), conditions.ProgressNone
	}
	return outcome
}

// continueRecreation continues a recreation that has begun to write to the broker. It returns true when the recreation is over.
func (v *vhostScope) continueRecreation(ctx context.Context) (over bool, err error) {
	key := v.key()
	v.recreations.reserve(key, v.place(), true)
	status := *v.status.Recreation
	task := v.recreations.get(key, status)
	switch {
	case task.isRunning():
		if reason, _ := backOutReason(v.cq, v.desired, v.connection, status); reason != "" && status.Phase == v1alpha1.RecreationEmptying {
			v.recreations.stop(key)
		}
		status.Moved, status.Remaining = task.movedBefore+int64(task.progress.Moved), int64(task.progress.Remaining)
		v.showRecreation(status, task.detail())
		v.requeueWithin(progressInterval)
		return false, nil
	case task.hasResult():
		return v.advance(ctx, status, task)
	}
	if wait := task.retryIn(time.Now()); wait > 0 {
		v.showRecreation(status, task.detail())
		v.requeueWithin(wait)
		return false, nil
	}
	return false, v.beginWork(ctx, v.backedOut(status), task.detail())
}

// backedOut returns the status of a recreation, changed to back out if the user wants that.
func (v *vhostScope) backedOut(status v1alpha1.RecreationStatus) v1alpha1.RecreationStatus {
	if reason, message := backOutReason(v.cq, v.desired, v.connection, status); reason != "" {
		return plan.BackOut(status, reason, message)
	}
	return status
}

// backOutReason returns why the user wants a recreation to back out; empty if the user does not.
func backOutReason(
	cq *v1alpha1.ConsumerQueue, desired topology.Topology, connection *brokers.Broker, status v1alpha1.RecreationStatus,
) (reason, message string) {
	switch {
	case !cq.DeletionTimestamp.IsZero():
		return v1alpha1.BackOutDeleted, "the ConsumerQueue is being deleted"
	case cq.Annotations[v1alpha1.AbortRecreationAnnotation] == status.ID:
		return v1alpha1.BackOutAborted, "the annotation " + v1alpha1.AbortRecreationAnnotation + " has the id of this recreation"
	case !recreates(cq):
		return v1alpha1.BackOutAborted, "recreatePolicy is Manual, or driftPolicy is Report"
	}
	if message := whyEditedBack(desired, connection, status); message != "" {
		return v1alpha1.BackOutAborted, message
	}
	return "", ""
}

// whyEditedBack returns why the spec no longer asks for the new queue; empty if it does.
func whyEditedBack(desired topology.Topology, connection *brokers.Broker, status v1alpha1.RecreationStatus) string {
	at := slices.IndexFunc(desired.Queues, func(queue topology.Queue) bool { return queue.Name == status.Queue })
	switch {
	case len(desired.Queues) == 0: // the spec cannot be read
		return ""
	case at < 0:
		return fmt.Sprintf("queue %q is no longer in the spec", status.Queue)
	}
	observed, _ := connection.Observe(vhost.Selection{Queues: []string{status.Queue}})
	found, exists := observed.Queues[status.Queue]
	if exists && found.Arguments.Equal(desired.Queues[at].Arguments) && desired.Queues[at].Arguments.JSON() != status.NewArguments {
		return fmt.Sprintf("the spec asks for the old arguments of queue %q again", status.Queue)
	}
	return ""
}

// advance decides how a recreation continues when the work of its phase has ended.
func (v *vhostScope) advance(ctx context.Context, status v1alpha1.RecreationStatus, task recreationTask) (over bool, err error) {
	key, now := v.key(), metav1.Now().Rfc3339Copy()
	result := task.result
	if status.Phase == v1alpha1.RecreationSwapping {
		status.DeleteSent = result.swapped.DeleteSent
	}
	next, over := plan.NextStep(status, v.endOfPhase(status, result, now))
	next.Moved = task.movedBefore + int64(result.moved()) // the status may already have the progress
	next.PastBindings = task.pastBefore + int64(result.past())
	next.Remaining = int64(result.progress.Remaining)
	if next.Phase == v1alpha1.RecreationSwapping && next.EmptiedTime == nil {
		next.EmptiedTime = &now
	}
	if over {
		return true, v.finishRecreation(ctx, next, now)
	}
	next = v.backedOut(next)
	if status.Phase == v1alpha1.RecreationSwapping && next.Phase == v1alpha1.RecreationGivingBack && next.BackOutReason == "" {
		how := "was deleted while it was empty"
		if !status.DeleteSent {
			how = "no longer existed"
		}
		v.addEvent(corev1.EventTypeNormal, eventQueueSwapped, "Recreate", fmt.Sprintf(
			"queue %q %s, and was declared with %s", next.Queue, how, next.NewArguments))
	}
	failed := result.err != nil && next.Phase == status.Phase
	if failed {
		log.FromContext(ctx).Info("A recreation cannot continue yet", "queue", status.Queue, "phase", status.Phase,
			"reason", conditions.ErrorSummary(result.err))
	}
	if failed || v.cq.Spec.Suspend && next.Phase != v1alpha1.RecreationSwapping {
		v.showRecreation(next, task.detail())
		if err := v.writeClaim(ctx); err != nil {
			return false, err
		}
		v.recreations.take(key)
		v.requeueWithin(max(task.retryIn(time.Now()), firstWorkRetry))
		return false, nil
	}
	return false, v.beginWork(ctx, next, "")
}

// beginWork writes the status of a recreation, and then begins the work of its phase. detail is a text for users; see showRecreation.
func (v *vhostScope) beginWork(ctx context.Context, status v1alpha1.RecreationStatus, detail string) error {
	status.Runs++
	v.showRecreation(status, detail)
	if err := v.writeClaim(ctx); err != nil {
		return err
	}
	v.recordEvents()
	work, err := v.workOf(status)
	if err != nil {
		return err
	}
	v.recreations.begin(v.key(), status, work.run)
	v.requeueWithin(progressInterval)
	return nil
}

// showRecreation writes a recreation under way into the status and its conditions.
func (v *vhostScope) showRecreation(status v1alpha1.RecreationStatus, detail string) {
	status.ConsumersMayStart = status.Phase == v1alpha1.RecreationGivingBack
	v.status.Recreation = &status
	message := plan.DescribeWork(status)
	if detail != "" {
		message += ": " + detail
	}
	recreating := conditions.True(v1alpha1.ReasonRecreating, message)
	v.setConditions(summary{
		ready:    conditions.Unknown(v1alpha1.ReasonRecreating, message),
		progress: conditions.Reconciling, recreation: &recreating,
	})
}

// finishRecreation writes how a recreation ended.
func (v *vhostScope) finishRecreation(ctx context.Context, status v1alpha1.RecreationStatus, now metav1.Time) error {
	finished := plan.Finished(status, now)
	v.status.Recreation = &finished
	if err := v.writeClaim(ctx); err != nil {
		return err
	}
	v.recreations.release(v.key())
	result := finished.LastResult
	metrics.Recreations.Inc(string(result.Result))
	log.FromContext(ctx).Info("The recreation has ended", "queue", result.Queue, "result", result.Result, "reason", result.Reason,
		"messages", status.Moved)
	if result.Result == v1alpha1.RecreationBackedOut {
		v.addBackedOutEvent(result.Queue, result.Message)
	} else {
		how := " without moving a message"
		if status.Moved > 0 {
			how = fmt.Sprintf("; Warren moved messages %d times, counting both directions", status.Moved)
		}
		v.addEvent(corev1.EventTypeNormal, eventRecreationFinished, "Recreate", fmt.Sprintf("queue %q was recreated%s", result.Queue, how))
	}
	v.recordEvents()
	return nil
}

// beginRecreation writes the first phase of a recreation, and begins it.
func (v *vhostScope) beginRecreation(ctx context.Context, status v1alpha1.RecreationStatus) error {
	v.addEvent(corev1.EventTypeNormal, eventRecreationStarted, "Recreate", fmt.Sprintf(
		"recreation %s of queue %q has begun; ready messages: %d", status.ID, status.Queue, status.Remaining))
	return v.beginWork(ctx, status, "")
}
