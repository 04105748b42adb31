package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// awaitsRefreshOfRefusal reports whether the reconciliation ends here, because the broker refused a write: others may have changed an
// object a moment ago, or because it did not answer in time. The next reconciliation begins after a refresh, which shows that the broker
// answers. If the write fails then too, that is reported. Where the connection was lost, a refresh follows the next one anyway.
func (v *vhostScope) awaitsRefreshOfRefusal(ctx context.Context, failed error) bool {
	resource := client.ObjectKeyFromObject(v.cq)
	if failed == nil || ctx.Err() != nil || isLost(failed) {
		v.refusals.Forget(resource)
		return false
	}
	return v.refusals.Pending(resource, v.connection, brokers.Question{
		About: fmt.Sprintf("refused writes of generation %d", v.cq.Generation), Known: onlyNotFound(failed),
	})
}

func isLost(failed error) bool {
	lost := errors.Is(failed, brokererr.ErrUnreachable) || errors.Is(failed, brokererr.ErrClosed)
	return lost && !errors.Is(failed, brokererr.ErrTimeout)
}

// onlyNotFound reports whether all failures are about something that does not exist, which events show, too.
func onlyNotFound(failed error) bool {
	return !slices.ContainsFunc(failuresIn(failed), func(one *brokererr.ObjectError) bool {
		return !errors.Is(one, brokererr.ErrNotFound)
	})
}
