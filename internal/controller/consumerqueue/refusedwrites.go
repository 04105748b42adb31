package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// awaitsRefreshOfRefusal reports whether the reconciliation ends because the broker refused a write. Another client may have just changed
// the object, or the broker did not answer in time. The next reconciliation begins after a successful refresh. If the write fails again,
// the status reports that. A lost connection leads to a refresh anyway.
func (v *vhostScope) awaitsRefreshOfRefusal(ctx context.Context, failed error) bool {
	resource := v.key()
	if failed == nil || ctx.Err() != nil || isLost(failed) {
		v.refusals.Forget(resource)
		return false
	}
	return v.refusals.Pending(resource, v.connection, brokers.Question{
		About: fmt.Sprintf("refused writes of generation %d", v.cq.Generation), CatchUp: onlyNotFound(failed),
	})
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
