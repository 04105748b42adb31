// Package recreation describes, approves and aborts the recreation of a queue, for the commands and the pages. It does no I/O.
package recreation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// Approve annotates a ConsumerQueue with the approval of its plan, and removes the annotation of an abort. If hash is not empty, it
// approves only the plan with this hash. It returns a sentence for the user, or an error with the reason why it approves nothing.
func Approve(cq *v1alpha1.ConsumerQueue, hash string) (string, error) {
	named := nameOf(cq)
	switch {
	case cq.Spec.RecreatePolicy == "" || cq.Spec.RecreatePolicy == v1alpha1.RecreatePolicyManual:
		return "", fmt.Errorf("%s: Warren recreates no queue with spec.recreatePolicy Manual. Set WhenEmpty or Migrate", named)
	case cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport:
		return "", fmt.Errorf("%s: Warren recreates no queue with spec.driftPolicy Report. Set Correct", named)
	case cq.Status.Recreation.IsUnderWay():
		return "", fmt.Errorf("%s: the recreation is under way. See kubectl warren status %s", named, cq.Name)
	case cq.Status.ObservedGeneration != cq.Generation:
		return "", fmt.Errorf("%s: Warren has not seen the newest spec yet. Try again in a few seconds", named)
	case cq.Status.PlanHash == "":
		return "", fmt.Errorf("%s: no queue has to be recreated", named)
	case hash != "" && hash != cq.Status.PlanHash:
		return "", fmt.Errorf("%s: the plan has changed since you saw it. Run kubectl warren plan %s", named, cq.Name)
	}
	required := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionRecreationRequired)
	isBlocked := required != nil && required.Reason == v1alpha1.ReasonRecreationBlocked
	if isBlocked && cq.Annotations[v1alpha1.ApproveRecreationAnnotation] == cq.Status.PlanHash {
		return "", fmt.Errorf("%s: the plan is already approved, but Warren does not begin the recreation: %s", named, required.Message)
	}
	metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.ApproveRecreationAnnotation, cq.Status.PlanHash)
	delete(cq.Annotations, v1alpha1.AbortRecreationAnnotation)
	return fmt.Sprintf("%s: recreation approved, plan %s.", named, cq.Status.PlanHash), nil
}

// AfterApproval describes what Warren does with an approved recreation, and what the user must do. It returns an empty text if the
// status does not show that yet.
func AfterApproval(cq *v1alpha1.ConsumerQueue) string {
	now, required := cq.Status.Recreation, meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionRecreationRequired)
	switch {
	case required == nil:
		return ""
	case now.IsUnderWay(), now != nil && required.Status == metav1.ConditionFalse:
		return Line(now)
	case now != nil && now.Pause != nil && !now.Pause.Ended:
		return fmt.Sprintf("The consumers of queue %q pause by themselves, until %s at the latest. "+
			"The recreation begins when they have stopped.", now.Queue, now.Pause.Until.UTC().Format(time.RFC3339))
	}
	switch required.Reason {
	case v1alpha1.ReasonApprovalNeeded, v1alpha1.ReasonApprovalStale, v1alpha1.ReasonRecreationAborted, v1alpha1.ReasonRecreationPending,
		v1alpha1.ReasonBrokerUpgraded:
		return ""
	case v1alpha1.ReasonWaitingForConsumers:
		return fmt.Sprintf("The recreation waits: %s. To stop consumers: kubectl -n %s scale deployment/NAME --replicas=0",
			required.Message, cq.Namespace)
	}
	return fmt.Sprintf("The recreation waits: %s", required.Message)
}

// Abort annotates a ConsumerQueue with the abort of its recreation. If id is not empty, it aborts only the recreation with this ID.
// It returns a sentence for the user, or an error with the reason why it aborts nothing.
func Abort(cq *v1alpha1.ConsumerQueue, id string) (string, error) {
	named, now := nameOf(cq), cq.Status.Recreation
	switch {
	case now == nil || now.ID == "":
		return "", fmt.Errorf("%s: no recreation is planned or under way", named)
	case id != "" && id != now.ID:
		return "", fmt.Errorf("%s: recreation %s is over, and recreation %s is planned or under way. Check that plan first",
			named, id, now.ID)
	case now.BackOutReason != "":
		return "", fmt.Errorf("%s: recreation %s is being backed out, and the old queue gets its messages and bindings back", named, now.ID)
	case !now.MayBeAborted():
		return "", fmt.Errorf("%s: the queue has been replaced, so recreation %s can no longer be aborted. To change the queue again, "+
			"edit the spec", named, now.ID)
	}
	metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.AbortRecreationAnnotation, now.ID)
	if !now.IsUnderWay() {
		return fmt.Sprintf("%s: Warren does not begin recreation %s, and retains the old queue.", named, now.ID), nil
	}
	return fmt.Sprintf("%s: Warren aborts recreation %s, and gives the queue its messages and bindings back.", named, now.ID), nil
}

// NeedsApproval reports whether a recreation waits for an approval.
func NeedsApproval(cq *v1alpha1.ConsumerQueue) bool {
	required := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionRecreationRequired)
	return required != nil && (required.Reason == v1alpha1.ReasonApprovalNeeded || required.Reason == v1alpha1.ReasonApprovalStale)
}

// Line describes a recreation in one line; empty if there is none.
func Line(now *v1alpha1.RecreationStatus) string {
	switch {
	case now == nil || now.Phase == "" && now.LastResult == nil:
		return ""
	case now.Phase == "":
		return fmt.Sprintf("queue %q: %s at %s", now.LastResult.Queue, now.LastResult.Result,
			now.LastResult.Time.UTC().Format("2006-01-02T15:04:05Z"))
	case now.Phase == v1alpha1.RecreationWaiting:
		return fmt.Sprintf("Waiting, queue %q, recreation %s", now.Queue, now.ID)
	}
	consumers := "Consumers must wait"
	if now.ConsumersMayStart {
		consumers = "Consumers may start"
	}
	return fmt.Sprintf("%s, %s; %d messages left, %d published to the queue by its name. %s", now.Phase,
		plan.DescribeWork(*now), now.Remaining, now.PastBindings, consumers)
}

func nameOf(cq *v1alpha1.ConsumerQueue) string {
	return fmt.Sprintf("ConsumerQueue %s/%s", cq.Namespace, cq.Name)
}
