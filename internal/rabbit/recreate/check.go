package recreate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// Check returns an Error with a Reason if the state of the broker does not allow a recreation. It declares
// nothing. To find out permissions, it tries to remove objects that do not exist before a recreation; see checkPermissions.
func (r *Recreator) Check(ctx context.Context, rec Recreation) error {
	name := rec.Queue.Name
	switch {
	case !r.observer.MayWritePolicies():
		return refuse(MissingPermission, "user %q lacks the tag policymaker, which Warren needs to show that a queue is empty", r.Username)
	case r.observer.IsTaken(name):
		return refuse(QueueBusy, "a deletion, a Redrive, a Purge or a browse works on queue %q, or a Redrive moves messages to it", name)
	}
	if err := r.observer.CheckUnshared(ctx); err != nil {
		return withBrokerReason(err)
	}
	info, err := r.api.QueueInfo(ctx, name, management.WithoutStatistics)
	if err != nil {
		return withBrokerReason(err)
	}
	policies, err := r.api.Policies(ctx)
	if err != nil {
		return withBrokerReason(err)
	}
	if err := r.checkQueue(rec, info, policies); err != nil {
		return err
	}
	if err := checkKeeps(rec, info, policies); err != nil {
		return err
	}
	if err := r.checkNodes(ctx, name); err != nil {
		return err
	}
	bindings, err := r.bindingsOf(ctx, rec, name)
	if err != nil {
		return err
	}
	if err := checkBindings(rec, bindings); err != nil {
		return err
	}
	if err := r.checkPolicies(rec, policies); err != nil {
		return err
	}
	if isFenced(name, policies) { // by a recreation whose status was lost, and whose delete may be running
		if err := r.CheckNoDelete(ctx, rec); err != nil {
			return err
		}
	}
	if err := r.checkDeadLetters(ctx, rec, info, policies); err != nil {
		return err
	}
	return r.checkPermissions(ctx, rec)
}

// checkQueue refuses queues that cannot be recreated. A nil info means that the queue does not exist: the recreation declares it.
func (r *Recreator) checkQueue(rec Recreation, info *management.QueueInfo, policies []vhost.Policy) error {
	name := rec.Queue.Name
	switch {
	case info == nil:
		return nil
	case info.Type != vhost.TypeQuorum: // RabbitMQ has no other quorum queues than durable ones (3.10, 4.0, 4.3)
		return refuse(UnsupportedQueue, "only durable quorum queues are recreated; delete queue %q by hand", name)
	case info.Leader == "", info.State != "running" && info.State != "live": // live on 3.10
		return refuse(QueueUnavailable, "queue %q has no leader or no majority of its members", name)
	}
	limit, given := vhost.Normalize(info.Arguments)[vhost.ArgDeliveryLimit].(int64)
	if given && limit < 0 && !r.isAtLeast(vhost.RabbitMQ40) {
		return refuse(UnsupportedQueue, "queue %q has x-delivery-limit: -1, so RabbitMQ before 4.0 drops each message that is "+
			"returned to it; delete the queue by hand", name)
	}
	if err := safedelete.CheckEligible(r.Errors, name, *info, policies); err != nil {
		return withReason(UnsupportedQueue, fmt.Errorf("%w; delete the queue by hand when it is empty", err))
	}
	return nil
}

// checkKeeps refuses a recreation if the old or the new queue could drop messages that are moved back to it.
func checkKeeps(rec Recreation, info *management.QueueInfo, policies []vhost.Policy) error {
	if rec.WithoutHold {
		return nil
	}
	_, err := maxDepth(rec.Queue.Name, rec.Queue.Arguments, policies)
	if err == nil && info != nil {
		_, err = maxDepth(rec.Queue.Name, info.Arguments, policies)
	}
	return err
}

// checkNodes refuses a recreation while the broker has an alarm or too little disk for the copies of all messages. It checks nothing if the
// user may not list nodes. In that case, a recreation under an alarm is backed out later, because the broker accepts no sentinel.
func (r *Recreator) checkNodes(ctx context.Context, queue string) error {
	nodes, err := r.api.Nodes(ctx, management.AlarmColumns)
	if errors.Is(err, brokererr.ErrAccessRefused) {
		return nil
	}
	if err != nil {
		return withBrokerReason(err)
	}
	info, err := r.api.QueueInfo(ctx, queue, management.WithStatistics)
	if err != nil || info == nil {
		return withBrokerReason(err)
	}
	return checkRoom(queue, info.Bytes, nodes)
}

// copies is how many copies of a message may be on disk at the same time: in the queue, in the backlog, and in the queue again.
const copies = 3

func checkRoom(queue string, bytes int64, nodes []management.Node) error {
	for _, node := range nodes {
		free, known := vhost.Normal(node.FreeDisk).(int64)
		switch {
		case node.MemoryAlarm:
			return refuse(QueueUnavailable, "node %q has a memory alarm, so RabbitMQ accepts no messages", node.Name)
		case node.DiskAlarm:
			return refuse(QueueUnavailable, "node %q has a disk alarm, so RabbitMQ accepts no messages", node.Name)
		case known && free/copies < bytes:
			return refuse(QueueUnavailable, "node %q has too little free disk: while the messages of queue %q are moved, they can take %d "+
				"times the disk that they take now", node.Name, queue, copies)
		}
	}
	return nil
}

func (r *Recreator) isAtLeast(version vhost.Version) bool {
	now, err := vhost.ParseVersion(r.observer.Version())
	return err == nil && now.AtLeast(version)
}

func checkBindings(rec Recreation, bindings []vhost.Binding) error {
	size := 0
	for _, binding := range bindings {
		size += len(binding.Arguments.JSON())
	}
	switch {
	case rec.WithoutHold && len(bindings) > 0:
		return refuse(BoundQueue, "queue %q is bound to exchange %q; unbind it, because a delay tier is recreated without a hold queue",
			rec.Queue.Name, bindings[0].Source)
	case len(bindings) > MaxBindings:
		return refuse(TooManyBindings, "queue %q has %d bindings; at most %d can be moved", rec.Queue.Name, len(bindings), MaxBindings)
	case size > MaxBindingBytes:
		return refuse(TooManyBindings, "the bindings of queue %q have %d bytes of arguments; at most %d can be moved",
			rec.Queue.Name, size, MaxBindingBytes)
	}
	return nil
}

// dropping are the keys of policies that can make a queue drop messages.
var dropping = []string{vhost.KeyMessageTTL, vhost.KeyExpires, vhost.KeyMaxLength, vhost.KeyMaxLengthBytes, vhost.KeyDeliveryLimit}

// checkPolicies refuses policies with which the hold or the backlog could drop messages, and fences of other instances that match
// the queue.
func (r *Recreator) checkPolicies(rec Recreation, policies []vhost.Policy) error {
	for _, policy := range policies {
		name, isFence := fence.ParseName(policy.Name)
		if isFence && !policy.Operator {
			over := slices.Contains(fence.QueuesOf(policy.Pattern.String()), rec.Queue.Name)
			if over && name.Owner != r.Owner {
				return refuse(SharedVHost, "queue %q: policy %q of another instance exists", rec.Queue.Name, policy.Name)
			}
			continue
		}
		if rec.WithoutHold {
			continue
		}
		hold, backlog := r.checkPolicy(policy, rec.Hold(), vhost.PrefixHold), r.checkPolicy(policy, rec.Backlog(), vhost.PrefixBacklog)
		if err := cmp.Or(hold, backlog); err != nil {
			return err
		}
	}
	return nil
}

// isFenced reports whether a recreation's fence matches a queue.
func isFenced(queue string, policies []vhost.Policy) bool {
	return slices.ContainsFunc(policies, func(policy vhost.Policy) bool {
		name, isFence := fence.ParseName(policy.Name)
		return isFence && name.Recreation && !policy.Operator && slices.Contains(fence.QueuesOf(policy.Pattern.String()), queue)
	})
}

// checkPolicy refuses a policy with which a queue could drop messages. A delivery limit overrides x-delivery-limit: -1, and each cut
// connection of the mover counts as a delivery. Before 4.0, -1 does not mean "no limit".
func (r *Recreator) checkPolicy(policy vhost.Policy, queue, prefix string) error {
	if policy.Match(queue, vhost.TypeQuorum) == vhost.MatchNo {
		return nil
	}
	for _, key := range dropping {
		value, given := vhost.Normalize(policy.Definition)[key]
		limit, _ := value.(int64)
		isUnlimited := key == vhost.KeyDeliveryLimit && limit < 0 && r.isAtLeast(vhost.RabbitMQ40)
		if given && !isUnlimited {
			return refuse(InterferingPolicy, "policy %q sets %s, so queue %q could drop messages: exclude the prefix %q from "+
				"its pattern", policy.Name, key, queue, prefix)
		}
	}
	return nil
}

// checkDeadLetters refuses a recreation that may lose dead letters. The fence refuses dead letters, and a queue that dead-letters
// at most once drops a refused one. A recreation that moves no messages waits until the other queue is not in use. Its phase Emptying
// checks messages that arrive later; see checkMovable.
func (r *Recreator) checkDeadLetters(ctx context.Context, rec Recreation, info *management.QueueInfo, policies []vhost.Policy) error {
	name := rec.Queue.Name
	source, err := r.findLossySource(ctx, name, policies)
	switch {
	case err != nil:
		return err
	case source != "" && !rec.Moves:
		return refuse(MessagesPending, "queue %q cannot be recreated until queue %q has no messages and no consumers, because that queue "+
			"dead-letters to it at most once", name, source)
	case source != "":
		return refuseSource(LossyDeadLetters, name, source)
	case info == nil || !rec.Moves:
		return nil
	}
	now, err := r.countReliably(ctx, name)
	if err != nil || now.Ready == 0 {
		return err
	}
	return checkMoved(name, vhost.Normalize(info.Arguments), policies)
}

// checkSources is the part of checkDeadLetters about other queues, which may be in use again since Check.
func (r *Recreator) checkSources(ctx context.Context, queue string) error {
	policies, err := r.api.Policies(ctx)
	if err != nil {
		return withBrokerReason(err)
	}
	source, err := r.findLossySource(ctx, queue, policies)
	if err == nil && source != "" {
		err = refuseSource(DeadLetterSourceInUse, queue, source)
	}
	return err
}

func refuseSource(reason Reason, queue, source string) error {
	return refuse(reason, "queue %q dead-letters at most once to queue %q and has messages or consumers, so its dead letters could be lost",
		source, queue)
}

// findLossySource returns another queue that is in use, and that may dead-letter to the queue by its name and at most once; empty if there
// is none.
func (r *Recreator) findLossySource(ctx context.Context, queue string, policies []vhost.Policy) (string, error) {
	observed, _ := r.observer.Observe(vhost.Selection{Queues: []string{queue}, IncludeDeadLetterSources: true})
	for _, source := range observed.DeadLetterRoutes {
		_, isOurs := idOf(source.Queue, queue)
		if isOurs || source.Queue == queue || !source.StraightTo(queue) || r.isAtLeastOnce(source.Queue, policies) {
			continue
		}
		now, err := r.countReliably(ctx, source.Queue)
		if err != nil || now.Ready > 0 || now.Consumers > 0 {
			return source.Queue, err
		}
	}
	return "", nil
}

// fewDeliveries is the maximum number of deliveries of a message during a recreation. Each cut connection counts as a delivery. In each of
// three attempts, a message that RabbitMQ cannot deliver cuts up to three connections, and the end of a move returns a message once; see
// mover.Config.EndAtUnreadable and maxMoved.
const fewDeliveries = 12

// checkMovable is checkMoved with the current arguments of the queue and the current policies.
func (r *Recreator) checkMovable(ctx context.Context, queue string) error {
	info, err := r.api.QueueInfo(ctx, queue, management.WithoutStatistics)
	if err != nil || info == nil {
		return withBrokerReason(err)
	}
	policies, err := r.api.Policies(ctx)
	if err != nil {
		return withBrokerReason(err)
	}
	return checkMoved(queue, vhost.Normalize(info.Arguments), policies)
}

// checkMoved refuses a queue that could lose its ready messages while they are moved.
func checkMoved(queue string, arguments vhost.Arguments, policies []vhost.Policy) error {
	deadLetters := arguments[vhost.ArgDeadLetterExchange] != nil
	if deadLetters && !vhost.DeadLettersAtLeastOnce(queue, arguments, safedelete.WithoutFences(policies)) {
		return refuse(LossyDeadLetters, "queue %q dead-letters at most once: dead letters could be lost while its messages are moved",
			queue)
	}
	limits := []any{arguments[vhost.ArgDeliveryLimit]}
	for _, policy := range policies {
		if policy.Match(queue, vhost.TypeQuorum) != vhost.MatchNo {
			limits = append(limits, vhost.Normalize(policy.Definition)[vhost.KeyDeliveryLimit])
		}
	}
	drops := !deadLetters && slices.ContainsFunc(safedelete.PossibleDefinitions(queue, policies), func(definition vhost.Arguments) bool {
		return definition[vhost.KeyDeadLetterExchange] == nil
	})
	for _, value := range limits {
		if limit, given := value.(int64); given && limit >= 0 && limit < fewDeliveries && drops {
			return refuse(LossyDeliveries, "queue %q drops a message that is delivered %d times: some of its messages could be lost "+
				"while they are moved; empty the queue first", queue, limit+1)
		}
	}
	return nil
}

// isAtLeastOnce reports whether a queue dead-letters at least once, according to the snapshot and the policies. Only a quorum queue can.
func (r *Recreator) isAtLeastOnce(queue string, policies []vhost.Policy) bool {
	var known vhost.Queue
	r.observer.View(func(s *snapshot.Snapshot) { known = s.Queues[queue] })
	return known.Type() == vhost.TypeQuorum && vhost.DeadLettersAtLeastOnce(queue, known.Arguments, safedelete.WithoutFences(policies))
}

// withBrokerReason adds the Reason for an error of the broker, if there is one.
func withBrokerReason(err error) error {
	switch {
	case err == nil, ReasonOf(err) != "":
		return err
	case errors.Is(err, brokererr.ErrAccessRefused):
		return withReason(MissingPermission, err)
	case errors.Is(err, brokererr.ErrShared):
		return withReason(SharedVHost, err)
	case brokererr.IsAny(err, brokererr.ErrInvalidArgument, brokererr.ErrPreconditionFailed):
		return withReason(OperationRefused, err)
	}
	return err
}

// withQueue adds the queue to an error.
func withQueue(queue string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("queue %q: %w", queue, err)
}
