package recreate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// divertRounds is the maximum number of times that Divert reads and moves the bindings. Other clients may bind the queue again each
	// time.
	divertRounds = 5
	// registering is the maximum time that RabbitMQ takes to write the name of a new quorum queue to disk: about twice the auto_save of 500
	// ms of its library Ra. If a single node is killed earlier, the queue comes back without its messages, and on RabbitMQ 3.10 and 4.0
	// without a leader.
	registering = 1500 * time.Millisecond
	// lateDelete is longer than RabbitMQ takes to delete a queue without a leader: 5 s (4.0.5).
	lateDelete = 10 * time.Second
)

// Divert declares the hold and the backlog, and moves the bindings of the queue to the hold. First it tries the new arguments on a queue
// with another name, so that the broker cannot refuse them during the swap. Before it unbinds the queue, it calls record with all bindings
// found so far, and again if it finds more. An error of record ends the call, and is returned as it is.
func (r *Recreator) Divert(
	ctx context.Context, rec Recreation, record func(context.Context, []vhost.Binding) error,
) error {
	if err := r.tryArguments(ctx, rec); err != nil {
		return err
	}
	if err := r.Crash.Pass(StepProbed); err != nil {
		return err
	}
	if rec.WithoutHold {
		bindings, err := r.bindingsOf(ctx, rec, rec.Queue.Name)
		return errors.Join(err, checkBindings(rec, bindings))
	}
	if err := r.declareHoldAndBacklog(ctx, rec); err != nil {
		return err
	}
	if err := r.Crash.Pass(StepHoldDeclared); err != nil {
		return err
	}
	if err := retry.Sleep(ctx, r.Errors, registering); err != nil {
		return err
	}
	if err := r.bindRecorded(ctx, rec, rec.Hold()); err != nil { // since an earlier call, another client may have deleted the hold
		return err
	}
	_, err := r.divertAll(ctx, rec, record)
	return err
}

// divertAll moves bindings to the hold until the queue has none, and reports whether it had any. If record is nil, it records no bindings,
// because the hold has them.
func (r *Recreator) divertAll(
	ctx context.Context, rec Recreation, record func(context.Context, []vhost.Binding) error,
) (found bool, err error) {
	var bindings []vhost.Binding
	for range divertRounds {
		bindings, err = r.bindingsOf(ctx, rec, rec.Queue.Name)
		if err != nil || len(bindings) == 0 {
			return found, err
		}
		found = true
		all := union(rec.Bindings, bindings)
		if err := checkBindings(rec, all); err != nil {
			return found, err
		}
		if len(all) > len(rec.Bindings) && record != nil {
			if err := record(ctx, all); err != nil {
				return found, err
			}
		}
		rec.Bindings = all
		if err := r.divertBindings(ctx, rec, bindings); err != nil {
			return found, err
		}
	}
	return found, whyNotUnbound(rec, bindings)
}

// whyNotUnbound returns why bindings could not be removed. RabbitMQ distinguishes bindings by the types of their arguments (3.10, 4.0,
// 4.3), but the management API does not show the types. change.Changer tries the types that most clients use.
func whyNotUnbound(rec Recreation, bindings []vhost.Binding) error {
	for _, binding := range bindings {
		for key, value := range binding.Arguments {
			if _, isInteger := value.(int64); isInteger {
				return refuse(BindingsComeBack, "queue %q: Warren cannot remove its binding to exchange %q, perhaps because "+
					"argument %q is an integer of an unusual type; unbind the queue by hand", rec.Queue.Name, binding.Source, key)
			}
		}
	}
	return refuse(BindingsComeBack, "queue %q: another client binds the queue again each time Warren moves its bindings to queue "+
		"%q; stop that client", rec.Queue.Name, rec.Hold())
}

// divertBindings binds the hold before it unbinds the queue.
func (r *Recreator) divertBindings(ctx context.Context, rec Recreation, bindings []vhost.Binding) error {
	if err := r.Crash.Pass(StepRecorded); err != nil {
		return err
	}
	if err := r.bind(ctx, rec.Hold(), bindings); err != nil {
		return err
	}
	if err := r.Crash.Pass(StepHoldBound); err != nil {
		return err
	}
	if err := r.unbind(ctx, rec.Queue.Name, bindings); err != nil {
		return err
	}
	return r.Crash.Pass(StepUnbound)
}

// tryArguments declares a queue with the new arguments and deletes it. It leaves out at-least-once dead-lettering. If the queue is gone
// when its dead-letter worker starts, RabbitMQ restarts the worker until all such workers of the node are down (4.0.5, 4.3.6).
func (r *Recreator) tryArguments(ctx context.Context, rec Recreation) error {
	probe := topology.Queue{Name: rec.probe(), Arguments: maps.Clone(rec.Queue.Arguments)}
	delete(probe.Arguments, vhost.ArgDeadLetterStrategy)
	err := r.changer.Declare(ctx, r.Cluster, topology.Topology{Queues: []topology.Queue{probe}})
	switch {
	case brokererr.IsAny(err, brokererr.ErrInvalidArgument, brokererr.ErrPreconditionFailed, brokererr.ErrTooLarge):
		return withReason(ArgumentsRefused, err)
	case err != nil:
		return withBrokerReason(err)
	}
	return withBrokerReason(r.changer.Remove(ctx, r.Cluster, change.Removal{Queues: []string{probe.Name}}))
}

// declareHoldAndBacklog declares the hold, the backlog, and the exchange that leads to the backlog. It keeps an existing hold or
// backlog that may be in use, because another version of Warren may have declared it with other arguments.
func (r *Recreator) declareHoldAndBacklog(ctx context.Context, rec Recreation) error {
	missing, unused, err := r.missingAndUnused(ctx, rec)
	if err != nil {
		return err
	}
	if len(unused) > 0 {
		if err := r.removeUnused(ctx, unused); err != nil {
			return err
		}
		missing = append(missing, unused...)
	}
	plain := vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum}
	if r.isAtLeast(vhost.RabbitMQ40) { // earlier versions have no limit by default
		plain[vhost.ArgDeliveryLimit] = int64(-1)
	}
	var queues []topology.Queue
	for _, queue := range missing {
		arguments := plain
		if queue == rec.Hold() {
			policies, err := r.api.Policies(ctx)
			if err != nil {
				return withBrokerReason(err)
			}
			arguments = deadLetteringLike(rec.Queue, policies, plain)
		}
		queues = append(queues, topology.Queue{Name: queue, Arguments: arguments})
	}
	return withBrokerReason(r.changer.Declare(ctx, r.Cluster, topology.Topology{
		Exchanges: []topology.Exchange{fanout(rec.BacklogExchange())},
		Queues:    queues,
		Bindings:  []topology.Binding{{Source: rec.BacklogExchange(), Destination: rec.Backlog()}},
	}))
}

// missingAndUnused returns which of backlog and hold do not exist, and which exist although an earlier call has not used them: Divert
// records the bindings before it uses the hold. Without recorded bindings, neither queue has a message of Warren or of an exchange.
func (r *Recreator) missingAndUnused(ctx context.Context, rec Recreation) (missing, unused []string, err error) {
	for _, queue := range []string{rec.Backlog(), rec.Hold()} {
		now, err := r.count(ctx, queue)
		switch {
		case err != nil:
			return nil, nil, err
		case !now.Exists:
			missing = append(missing, queue)
		case len(rec.Bindings) == 0 && now.Ready == 0 && now.Consumers == 0:
			unused = append(unused, queue)
		}
	}
	return missing, unused, nil
}

// removeUnused removes the hold and the backlog of an earlier call, because they may have no leader; see registering. If the earlier
// process was killed, its own delete may still be running, and must not find the queues that are declared next.
func (r *Recreator) removeUnused(ctx context.Context, queues []string) error {
	if err := r.changer.Remove(ctx, r.Cluster, change.Removal{Queues: queues}); err != nil {
		return withBrokerReason(err)
	}
	return retry.Sleep(ctx, r.Errors, lateDelete)
}

// deadLetteringLike adds the dead-lettering of a queue, by its arguments or by a policy, to the arguments of another one. A message that
// expires in the hold must become a dead letter as in the queue. RabbitMQ takes each setting from the arguments, or else from the policy.
func deadLetteringLike(queue topology.Queue, policies []vhost.Policy, arguments vhost.Arguments) vhost.Arguments {
	policy := vhost.Arguments{}
	_, known := queue.Arguments[vhost.ArgDeadLetterExchange]
	for _, definition := range safedelete.PossibleDefinitions(queue.Name, policies) {
		if _, given := definition[vhost.KeyDeadLetterExchange]; given || known { // RabbitMQ refuses the other keys without an exchange
			policy = definition
			break
		}
	}
	all := maps.Clone(arguments)
	for _, of := range []struct{ argument, key string }{
		{vhost.ArgDeadLetterExchange, vhost.KeyDeadLetterExchange},
		{vhost.ArgDeadLetterRoutingKey, vhost.KeyDeadLetterRoutingKey},
		{vhost.ArgDeadLetterStrategy, vhost.KeyDeadLetterStrategy},
		{vhost.ArgOverflow, vhost.KeyOverflow},
	} {
		value, given := queue.Arguments[of.argument]
		if !given {
			value, given = policy[of.key]
		}
		if given {
			all[of.argument] = value
		}
	}
	if all[vhost.ArgDeadLetterStrategy] != vhost.StrategyAtLeastOnce || all[vhost.ArgOverflow] != vhost.OverflowRejectPublish {
		// Both keys belong together. Without one of them, RabbitMQ dead-letters at most once, and the hold needs no overflow.
		delete(all, vhost.ArgDeadLetterStrategy)
		delete(all, vhost.ArgOverflow)
	}
	return all
}

func fanout(name string) topology.Exchange {
	return topology.Exchange{Name: name, Type: v1alpha1.ExchangeFanout, Declare: true}
}

// bind declares the given bindings with another queue as their destination.
func (r *Recreator) bind(ctx context.Context, queue string, like []vhost.Binding) error {
	return withBrokerReason(r.changer.Declare(ctx, r.Cluster, topology.Topology{Bindings: boundTo(queue, like)}))
}

func (r *Recreator) unbind(ctx context.Context, queue string, like []vhost.Binding) error {
	return withBrokerReason(r.changer.Remove(ctx, r.Cluster, change.Removal{Bindings: boundTo(queue, like)}))
}

// boundTo returns the given bindings with another queue as their destination.
func boundTo(queue string, like []vhost.Binding) []topology.Binding {
	bindings := make([]topology.Binding, len(like))
	for i, binding := range like {
		bindings[i] = topology.Binding{
			Source: binding.Source, Destination: queue, RoutingKey: binding.RoutingKey, Arguments: binding.Arguments,
		}
	}
	return bindings
}

// union returns the known bindings, and the found bindings that are not among them.
func union(known, found []vhost.Binding) []vhost.Binding {
	all := slices.Clone(known)
	for _, binding := range found {
		if !slices.ContainsFunc(all, func(other vhost.Binding) bool { return isSame(binding, other) }) {
			all = append(all, binding)
		}
	}
	return all
}

// isSame compares two bindings without their destinations.
func isSame(a, b vhost.Binding) bool {
	b.Destination = a.Destination
	return a.Is(b.ID())
}
