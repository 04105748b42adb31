package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// awaitsRefreshOfRefusal reports whether the reconciliation ends because the broker refused a write. Another client may have just changed
// the object, or the broker did not answer in time. The next reconciliation begins after a successful refresh. If the write fails again,
// the status reports that. A lost connection leads to a refresh anyway.
func (v *vhostScope) awaitsRefreshOfRefusal(ctx context.Context, after plan.Comparison, failed error) bool {
	resource := v.key()
	if failed == nil || ctx.Err() != nil || isLost(failed) {
		v.refusals.Forget(resource)
		return false
	}
	remaining := v.postpone(plan.Decide(after, v.known, v.cq.Spec.DriftPolicy))
	return v.refusals.Pending(resource, v.connection, brokers.Question{
		About: v.refusedWrites(remaining), CatchUp: onlyNotFound(failed),
	})
}

// refusedWrites identifies the writes of a plan. If an event changes the plan, its new writes need not wait.
func (v *vhostScope) refusedWrites(remaining plan.Plan) string {
	return fmt.Sprintf("refused writes of generation %d: %s", v.cq.Generation, remaining.Summary())
}

func isLost(failed error) bool {
	lost := errors.Is(failed, brokererr.ErrUnreachable) || errors.Is(failed, brokererr.ErrClosed)
	return lost && !errors.Is(failed, brokererr.ErrTimeout)
}

// onlyNotFound reports whether all failures are about missing objects, which events show, too.
func onlyNotFound(failed error) bool {
	return !slices.ContainsFunc(failuresIn(failed), func(one *brokererr.ObjectError) bool {
		return !errors.Is(one, brokererr.ErrNotFound)
	})
}
