package recreate

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology"
)

// ownNames matches the names of all objects that a recreation declares.
const ownNames = "^warren-(hold|backlog|back|probe)-"

// checkPermissions refuses a recreation whose user may not configure, write or read the names of its objects. It tries to remove exchanges
// with these names, and a binding from each name to itself. Before a recreation begins, none of them exists, so nothing is removed.
// RabbitMQ checks permissions first. A former leader may call checkPermissions while the new leader recreates the queue. RabbitMQ then
// retains the exchanges that have bindings.
func (r *Recreator) checkPermissions(ctx context.Context, rec Recreation) error {
	names := []string{rec.probe()}
	if !rec.WithoutHold {
		names = append(names, rec.Hold(), rec.Backlog(), rec.BacklogExchange(), rec.BackExchange())
	}
	bindings := make([]topology.Binding, len(names))
	for i, name := range names {
		bindings[i] = topology.Binding{Source: name, Destination: name}
	}
	err := r.changer.Remove(ctx, r.Cluster, change.Removal{Exchanges: names})
	if errors.Is(err, brokererr.ErrAccessRefused) {
		return r.lacks("configure")
	}
	if err == nil {
		err = r.changer.Remove(ctx, r.Cluster, change.Removal{Bindings: bindings})
	}
	if errors.Is(err, brokererr.ErrAccessRefused) {
		return r.lacks("write or read")
	}
	return withBrokerReason(err)
}

func (r *Recreator) lacks(permission string) error {
	return refuse(MissingPermission, "user %q lacks the %s permission for some names that match %s. To recreate a queue, the user needs "+
		"the configure, write and read permissions for all of them", r.Username, permission, ownNames)
}

// endWithoutRights returns nil if a recreation whose user lacks a permission can end: it has no hold, no backlog and no exchange that leads
// to the queue, usually because it could not declare them. The management API shows queues and bindings to users without permissions on
// them. Otherwise it returns the given refusal.
func (r *Recreator) endWithoutRights(ctx context.Context, rec Recreation, refusal error) error {
	for _, queue := range []string{rec.Hold(), rec.Backlog()} {
		info, err := r.api.QueueInfo(ctx, queue, management.WithoutStatistics)
		if err != nil {
			return withBrokerReason(err)
		}
		if info != nil {
			return refusal
		}
	}
	bindings, err := r.api.BindingsOf(ctx, rec.Queue.Name)
	if err != nil {
		return withBrokerReason(err)
	}
	if slices.ContainsFunc(bindings, rec.IsOwn) {
		return refusal
	}
	return r.bindIfUnbound(ctx, rec)
}
