package consumerqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	consumercontract "github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// Warren asks consumers to pause in two steps. pauseConsumers records the pause in the status. syncPause, which ends each
// reconciliation, makes the ConfigMap match the status. So after a crash in between, the next manager knows from the status which
// pause the ConfigMap may have.

// contractConfigMap returns the ConfigMap of the contract as "namespace/name"; empty if it is not written.
func (v *vhostScope) contractConfigMap() string {
	spec, written := v.cq.Spec.Contract, v.status.Contract
	if spec == nil || written == nil || spec.ConfigMap != written.ConfigMap {
		return ""
	}
	return v.cq.Namespace + "/" + written.ConfigMap
}

// pauseConsumers decides whether to ask the consumers that a recreation waits for to pause. verdict is why the recreation does not begin
// now.
func (v *vhostScope) pauseConsumers(next plan.Recreation, moment plan.Moment, inspected phaseResult, verdict plan.Verdict) plan.Verdict {
	waits := verdict.Reason == v1alpha1.ReasonWaitingForConsumers
	isObstructed := !waits && verdict.Reason != v1alpha1.ReasonRecreationPending
	ends, isPaused := plan.PauseEnds(&moment.Status)
	switch {
	case isPaused && (isObstructed || !moment.Now.Before(ends)):
		why := "its consumers paused, but the recreation could not begin: "
		if waits {
			why = "its consumers did not all stop: "
		}
		v.giveUpPause(moment, why+verdict.Message)
		return verdict
	case isPaused && waits:
		verdict.Message += fmt.Sprintf("; Warren asks them to pause, and waits until %s", ends.UTC().Format(time.RFC3339))
		return verdict
	case isPaused, !waits, v.contractConfigMap() == "", !plan.MovesMessages(moment.Settings, next.Queue.Role):
		return verdict
	}
	counts := plan.ConsumerCounts{All: inspected.seen.Queue.Consumers, Listed: inspected.listed, Following: inspected.following}
	pause, why := next.PauseConsumers(moment, counts, v.contractConfigMap())
	key := v.key()
	switch {
	case !pause:
		verdict.Message += "; " + why
	case !v.recreations.reserve(key, v.place(), false):
		verdict.Message += fmt.Sprintf("; Warren asks them to pause when another recreation ends, because %d queues of this vhost are "+
			"being recreated, which is the maximum", maxRecreations)
	default:
		paused := plan.Paused(moment.Status, moment.Now)
		v.status.Recreation = &paused
		v.addEvent(corev1.EventTypeNormal, eventConsumersPaused, "Recreate", fmt.Sprintf(
			"Warren asks the consumers of queue %q to pause until %s at the latest. ConfigMap %q contains the request",
			paused.Queue, paused.Pause.Until.UTC().Format(time.RFC3339), v.status.Contract.ConfigMap))
		verdict.Again = slotAgain // to write the ConfigMap
	}
	return verdict
}

// giveUpPause ends a recreation that could not begin although Warren asked its consumers to pause. It has not written to the broker.
func (v *vhostScope) giveUpPause(moment plan.Moment, why string) {
	status := moment.Status
	status.BackOutReason = v1alpha1.BackOutPauseEnded
	status.BackOutMessage = conditions.TruncateEncoded(why, maxValue)
	finished := plan.Finished(status, metav1.NewTime(moment.Now).Rfc3339Copy())
	v.status.Recreation = &finished
	v.recreations.release(v.key())
	metrics.Recreations.Inc(string(v1alpha1.RecreationBackedOut))
	v.addBackedOutEvent(status.Queue, status.BackOutMessage)
}

func (v *vhostScope) addBackedOutEvent(queue, why string) {
	v.addEvent(corev1.EventTypeWarning, eventRecreationBackedOut, "Recreate",
		fmt.Sprintf("the recreation of queue %q was backed out: %s", queue, why))
}

// syncPause makes the ConfigMap of the contract ask for the pause that the status records, or for none. It returns when to call it
// again because the pause ends; zero if there is none.
func (s *scope) syncPause(ctx context.Context) (again time.Duration, err error) {
	recreation, now := s.status.Recreation, time.Now()
	if recreation == nil || recreation.Pause == nil {
		return 0, nil
	}
	ends, isPaused := plan.PauseEnds(recreation)
	stops := !s.isSwapping() && (!s.cq.DeletionTimestamp.IsZero() || s.cq.Spec.Suspend || !recreates(s.cq))
	if isPaused && !stops && now.Before(ends) {
		if stored := s.cq.Status.Recreation; stored == nil || plan.PauseID(stored) != plan.PauseID(recreation) || stored.Pause == nil {
			return slotAgain, nil // the status is written first
		}
		err := s.writePause(ctx, &consumercontract.Pause{ID: plan.PauseID(recreation), Until: recreation.Pause.Until.UTC()})
		if needsUserAction(err) {
			log.FromContext(ctx).Info("The contract cannot ask the consumers to pause", "reason", conditions.ErrorSummary(err))
			s.reportUnwrittenPause(err)
			err = nil
		}
		return ends.Sub(now), err
	}
	if err := s.writePause(ctx, nil); err != nil && now.Before(recreation.Pause.Until.Time) {
		return 0, err // after that time the consumers ignore the pause
	}
	recreation.Pause = nil
	if !recreation.IsUnderWay() {
		s.recreations.release(s.key())
	}
	if equality.Semantic.DeepEqual(*recreation, v1alpha1.RecreationStatus{}) {
		s.status.Recreation = nil
	}
	return 0, nil
}

// unwrittenPause precedes the reason why the consumers are not asked to pause, in the message of RecreationRequired.
const unwrittenPause = "; Warren cannot "

// reportUnwrittenPause adds to the condition why the consumers are not asked to pause. The reason replaces that of an earlier
// reconciliation.
func (s *scope) reportUnwrittenPause(err error) {
	required := meta.FindStatusCondition(s.status.Conditions, v1alpha1.ConditionRecreationRequired)
	if required == nil {
		return
	}
	message, _, _ := strings.Cut(required.Message, unwrittenPause)
	message += unwrittenPause + conditions.ErrorSummary(err)
	conditions.For(&s.status.Conditions, s.cq.Generation).Set(required.Type, conditions.True(required.Reason, message))
}

// writePause writes a pause into the contract's ConfigMap, or removes it if pause is nil. It changes nothing else in the ConfigMap, because
// the topology may not match the spec while a queue is recreated. It ignores a ConfigMap that is gone or not managed by Warren.
func (s *scope) writePause(ctx context.Context, pause *consumercontract.Pause) error {
	if s.status.Contract == nil {
		return nil
	}
	name := s.status.Contract.ConfigMap
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found := &corev1.ConfigMap{}
		if err := s.live.Get(ctx, client.ObjectKey{Namespace: s.cq.Namespace, Name: name}, found); err != nil {
			return client.IgnoreNotFound(err)
		}
		kept, err := consumercontract.Parse([]byte(found.Data[documentKey]))
		_, labelled := found.Labels[v1alpha1.ContractLabel]
		if err != nil || !labelled || !metav1.IsControlledBy(found, s.cq) {
			return nil //nolint:nilerr // syncContract replaces a document that cannot be read
		}
		kept.Paused = pause
		document, err := documentOf(kept)
		if err != nil || document == found.Data[documentKey] {
			return err
		}
		wanted := found.DeepCopy()
		wanted.Data[documentKey] = document
		patch := client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})
		return client.IgnoreNotFound(s.client.Patch(ctx, wanted, patch, statuswriter.FieldOwner))
	})
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("write the pause into ConfigMap %q of spec.contract: %w", name, err)
	}
	return err
}

// interruptPlanned ends the pause of a recreation that cannot begin now. The status retains the counts of its attempts and pauses.
func (v *vhostScope) interruptPlanned() {
	v.recreations.release(v.key())
	if v.status.Recreation != nil {
		v.status.Recreation.EndPause()
	}
}
