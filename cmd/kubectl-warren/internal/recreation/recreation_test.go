package recreation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/recreation"
)

func TestApprovalAndAbort(t *testing.T) {
	t.Parallel()
	underWay := &v1alpha1.RecreationStatus{ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationEmptying}
	swapped := &v1alpha1.RecreationStatus{ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationGivingBack, DeleteSent: true}
	backsOut := &v1alpha1.RecreationStatus{
		ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationGivingBack, BackOutReason: v1alpha1.BackOutNotProven,
	}
	recovered := &v1alpha1.RecreationStatus{ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationGivingBack}
	waits := &v1alpha1.RecreationStatus{ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationWaiting}
	approvedAndBlocked := func(cq *v1alpha1.ConsumerQueue) {
		cq.Annotations = map[string]string{v1alpha1.ApproveRecreationAnnotation: "sha256:6f1c"}
		cq.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionRecreationRequired, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRecreationBlocked,
			Message: "3 attempts failed",
		}}
	}
	abort := func(cq *v1alpha1.ConsumerQueue) (string, error) { return recreation.Abort(cq, "") }
	const tooLate = "ConsumerQueue shop/orders: the queue has been replaced, so recreation k3v9q2m7xa can no longer be aborted. " +
		"To change the queue again, edit the spec"
	approve := func(cq *v1alpha1.ConsumerQueue) (string, error) { return recreation.Approve(cq, "") }
	for name, test := range map[string]struct {
		change func(cq *v1alpha1.ConsumerQueue)
		say    func(cq *v1alpha1.ConsumerQueue) (string, error)
		want   string // what is said, or the error
	}{
		"approve": {say: approve, want: "ConsumerQueue shop/orders: recreation approved, plan sha256:6f1c."},
		"approve with the driftPolicy Report": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Spec.DriftPolicy = v1alpha1.DriftPolicyReport },
			say:    approve, want: "ConsumerQueue shop/orders: Warren recreates no queue with spec.driftPolicy Report. Set Correct",
		},
		"approve another plan": {
			say:  func(cq *v1alpha1.ConsumerQueue) (string, error) { return recreation.Approve(cq, "sha256:old") },
			want: "ConsumerQueue shop/orders: the plan has changed since you saw it. Run kubectl warren plan orders",
		},
		"approve with Manual": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Spec.RecreatePolicy = v1alpha1.RecreatePolicyManual },
			say:    approve, want: "ConsumerQueue shop/orders: Warren recreates no queue with spec.recreatePolicy Manual. Set WhenEmpty or Migrate",
		},
		"approve nothing": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.PlanHash = "" },
			say:    approve, want: "ConsumerQueue shop/orders: no queue has to be recreated",
		},
		"approve a spec that Warren has not seen": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Generation++ },
			say:    approve, want: "ConsumerQueue shop/orders: Warren has not seen the newest spec yet. Try again in a few seconds",
		},
		"approve what is under way": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.Recreation = underWay },
			say:    approve, want: "ConsumerQueue shop/orders: the recreation is under way. See kubectl warren status orders",
		},
		"approve what is approved and blocked": {
			change: approvedAndBlocked, say: approve,
			want: "ConsumerQueue shop/orders: the plan is already approved, but Warren does not begin the recreation: 3 attempts failed",
		},
		"approve what was blocked and is aborted": {
			change: func(cq *v1alpha1.ConsumerQueue) {
				approvedAndBlocked(cq)
				cq.Status.Conditions[0].Reason = v1alpha1.ReasonRecreationAborted
			},
			say: approve, want: "ConsumerQueue shop/orders: recreation approved, plan sha256:6f1c.",
		},
		"abort nothing": {say: abort, want: "ConsumerQueue shop/orders: no recreation is planned or under way"},
		"abort what waits": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.Recreation = waits },
			say:    abort, want: "ConsumerQueue shop/orders: Warren does not begin recreation k3v9q2m7xa, and retains the old queue.",
		},
		"abort": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.Recreation = underWay },
			say:    abort, want: "ConsumerQueue shop/orders: Warren aborts recreation k3v9q2m7xa, and gives the queue its messages and bindings back.",
		},
		"abort an earlier recreation": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.Recreation = underWay },
			say:    func(cq *v1alpha1.ConsumerQueue) (string, error) { return recreation.Abort(cq, "earlier") },
			want:   "ConsumerQueue shop/orders: recreation earlier is over, and recreation k3v9q2m7xa is planned or under way. Check that plan first",
		},
		"abort too late": {change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.Recreation = swapped }, say: abort, want: tooLate},
		"abort too late, after the status was lost": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.Recreation = recovered }, say: abort, want: tooLate,
		},
		"abort what is backed out": {
			change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.Recreation = backsOut },
			say:    abort, want: "ConsumerQueue shop/orders: recreation k3v9q2m7xa is being backed out, and the old queue gets its messages " +
				"and bindings back",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", Generation: 2}}
			cq.Spec.RecreatePolicy = v1alpha1.RecreatePolicyMigrate
			cq.Status.ObservedGeneration, cq.Status.PlanHash = 2, "sha256:6f1c"
			if test.change != nil {
				test.change(cq)
			}
			said, err := test.say(cq)
			if err != nil {
				said = err.Error()
			}
			if said != test.want {
				t.Errorf("%q, want %q", said, test.want)
			}
		})
	}
}

func TestWhatWarrenDoesAfterAnApproval(t *testing.T) {
	t.Parallel()
	waits := v1alpha1.RecreationStatus{ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationWaiting}
	paused, ended := waits, waits
	paused.Pause = &v1alpha1.ConsumerPause{Until: metav1.NewTime(time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC))}
	ended.Pause = &v1alpha1.ConsumerPause{Ended: true}
	for name, test := range map[string]struct {
		reason string // of RecreationRequired; empty if it is False
		status v1alpha1.RecreationStatus
		want   string
	}{
		"Warren has not seen the approval":                   {reason: v1alpha1.ReasonApprovalNeeded, status: waits},
		"Warren has not seen the approval of a changed plan": {reason: v1alpha1.ReasonApprovalStale, status: waits},
		"Warren has not seen that an abort was cancelled":    {reason: v1alpha1.ReasonRecreationAborted, status: waits},
		"Warren has not seen it after an upgrade":            {reason: v1alpha1.ReasonBrokerUpgraded, status: waits},
		"Warren counts consumers and messages":               {reason: v1alpha1.ReasonRecreationPending, status: waits},
		"the consumers pause": {
			reason: v1alpha1.ReasonWaitingForConsumers, status: paused,
			want: `The consumers of queue "orders" pause by themselves, until 2026-11-26T08:00:00Z at the latest. ` +
				"The recreation begins when they have stopped.",
		},
		"the consumers do not pause": {
			reason: v1alpha1.ReasonWaitingForConsumers, status: waits,
			want: "The recreation waits: (the reason). To stop consumers: kubectl -n shop scale deployment/NAME --replicas=0",
		},
		"a pause was in vain": {
			reason: v1alpha1.ReasonWaitingForConsumers, status: ended,
			want: "The recreation waits: (the reason). To stop consumers: kubectl -n shop scale deployment/NAME --replicas=0",
		},
		"it is blocked": {reason: v1alpha1.ReasonRecreationBlocked, status: waits, want: "The recreation waits: (the reason)"},
		"it has begun": {
			reason: v1alpha1.ReasonRecreating, status: v1alpha1.RecreationStatus{Queue: "orders", Phase: v1alpha1.RecreationGivingBack},
			want: `GivingBack, Warren moves the messages and bindings back to queue "orders"; 0 messages left, 0 published to the queue by its name. ` +
				"Consumers must wait",
		},
		"it has completed": {
			status: v1alpha1.RecreationStatus{LastResult: &v1alpha1.RecreationResult{
				Queue: "orders", Result: v1alpha1.RecreationCompleted, Time: metav1.NewTime(time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)),
			}},
			want: `queue "orders": Completed at 2026-11-26T08:00:00Z`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
			cq.Status.Recreation = &test.status
			required := metav1.Condition{Type: v1alpha1.ConditionRecreationRequired, Status: metav1.ConditionFalse}
			if test.reason != "" {
				required.Status, required.Reason, required.Message = metav1.ConditionTrue, test.reason, "(the reason)"
			}
			cq.Status.Conditions = []metav1.Condition{required}
			if got := recreation.AfterApproval(cq); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestRecreationLine(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC))
	for want, now := range map[string]*v1alpha1.RecreationStatus{
		"": nil,
		`Waiting, queue "orders", recreation k3v9q2m7xa`: {ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationWaiting},
		`Emptying, Warren moves the messages of queue "orders" to queue "backlog"; 400 messages left, 0 published to the queue by its name. Consumers must wait`: {
			Queue: "orders", Phase: v1alpha1.RecreationEmptying, Hold: "hold", Backlog: "backlog", Remaining: 400,
		},
		`GivingBack, Warren moves the messages and bindings back to queue "orders"; 9 messages left, 2 published to the queue by its name. Consumers may start`: {
			Queue: "orders", Phase: v1alpha1.RecreationGivingBack, Remaining: 9, PastBindings: 2, ConsumersMayStart: true,
		},
		`queue "orders": Completed at 2026-11-26T08:00:00Z`: {
			LastResult: &v1alpha1.RecreationResult{Queue: "orders", Result: v1alpha1.RecreationCompleted, Time: at},
		},
	} {
		if got := recreation.Line(now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
