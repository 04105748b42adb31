package consumerqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// errOvertaken ends a reconciliation that would have bound what somebody deleted meanwhile. The next one finds it missing.
var errOvertaken = errors.New("somebody else deleted what was to be bound")

// findOut has the snapshot show what somebody else did before something failed. It returns errOvertaken if that is why.
func (v *vhostScope) findOut(ctx context.Context, failed error) error {
	if !onlyNotFound(failed) {
		return v.connection.Refresh(ctx)
	}
	if err := v.connection.CatchUp(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(failuresIn(failed), v.hasBothEnds) {
		return nil
	}
	return errOvertaken
}

// onlyNotFound says whether all that failed named something that does not exist.
func onlyNotFound(failed error) bool {
	return !slices.ContainsFunc(failuresIn(failed), func(one *brokererr.ObjectError) bool {
		return !errors.Is(one, brokererr.ErrNotFound)
	})
}

// hasBothEnds says whether the snapshot has what could not be bound. Nothing but a binding has ends.
func (v *vhostScope) hasBothEnds(failure *brokererr.ObjectError) bool {
	id := failure.ID
	if id.Kind != vhost.KindBinding {
		return true
	}
	observed, _ := v.connection.Observe(vhost.Selection{Queues: []string{id.Destination}, Exchanges: []string{id.Source}})
	return len(observed.Queues) == 1 && len(observed.Exchanges) == 1
}
