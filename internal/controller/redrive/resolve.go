package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// halt is why no messages are moved, and what the conditions say of that.
type halt struct {
	value    conditions.Value
	progress conditions.Progress
	// suspended says that somebody asked for a rest; value has the message.
	suspended bool
	// final says that the Redrive has ended.
	final bool
	// harmless says that a transfer which runs may go on.
	harmless bool
	// retry is when to look again; never if zero.
	retry time.Duration
}

// The pauses before what may have changed is looked at again where nothing tells of the change.
const (
	waitRetry   = 30 * time.Second
	deniedRetry = time.Minute
)

func suspended(message string) *halt {
	return &halt{value: conditions.Value{Message: message}, suspended: true}
}

// waiting is the halt of a Redrive that waits for something.
func waiting(reason, message string) *halt {
	return &halt{value: conditions.Unknown(reason, message), progress: conditions.Reconciling, retry: waitRetry}
}

// stalled is the halt of a Redrive for which somebody has to do something.
func stalled(reason, message string) *halt {
	return &halt{value: conditions.False(reason, message), progress: conditions.Stalled, retry: waitRetry}
}

// failed is the halt of a Redrive that has begun and cannot go on.
func failed(reason, message string) *halt {
	return &halt{value: conditions.False(reason, message), progress: conditions.Stalled, final: true}
}

// origin is the ConsumerQueue whose dead letters are moved, and the broker that has them.
type origin struct {
	cq       *v1alpha1.ConsumerQueue
	broker   brokers.Broker
	location ownership.Location
	version  vhost.Version
	queues   topology.DeadLetters
}

// resolve finds out which messages are to be moved where, or why none are.
func (s *scope) resolve(ctx context.Context) (move, *halt, error) {
	switch {
	case isSet(s.redrive.Spec.Cancel):
		return move{}, &halt{value: conditions.True(v1alpha1.ReasonCancelled, "cancelled: "+tally(s.status, "moved")), final: true}, nil
	case isSet(s.redrive.Spec.Suspend):
		return move{}, suspended("spec.suspend is set"), nil
	}
	from, stop, err := s.findOrigin(ctx)
	if stop != nil || err != nil {
		return move{}, stop, err
	}
	cluster := from.location.Cluster.Key()
	m := move{
		broker: from.broker, cluster: cluster, consumerQueue: from.cq.Name,
		turn: turn{
			connection: brokers.ConnectionKey(from.cq), cluster: cluster, vhost: from.location.VHost, queue: from.queues.Queue,
		},
	}
	if stop := s.checkSource(ctx, from, &m); stop != nil {
		return move{}, stop, nil
	}
	stop, err = s.findDestination(ctx, from, &m)
	return m, stop, err
}

// hasBegun says whether messages may have been moved already.
func (s *scope) hasBegun() bool { return s.redrive.Status.Total != nil }

// findOrigin finds the ConsumerQueue and its broker.
func (s *scope) findOrigin(ctx context.Context) (origin, *halt, error) {
	cq, stop, err := s.findConsumerQueue(ctx, s.redrive.Spec.ConsumerQueueRef.Name)
	if stop != nil || err != nil {
		if stop != nil && s.hasBegun() && stop.value.Reason == v1alpha1.ReasonConsumerQueueNotFound {
			stop = failed(v1alpha1.ReasonConsumerQueueGone, stop.value.Message+"; "+tally(s.status, "moved"))
		}
		return origin{}, stop, err
	}
	bc, err := brokers.ConnectionOf(ctx, s.client, cq)
	if err != nil {
		return origin{}, nil, err
	}
	switch {
	case bc == nil:
		return origin{}, waiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf("BrokerConnection %q not found", cq.ConnectionName())), nil
	case bc.IsSuspended():
		return origin{}, suspended(fmt.Sprintf("BrokerConnection %q is suspended", bc.Name)), nil
	}
	broker, version, usable := s.pool.Usable(bc)
	if ready := conditions.ReadyOf(bc); ready.Status == metav1.ConditionFalse {
		stop := waiting(conditions.ConnectionReason(ready), conditions.WhyNotReady(bc.Name, ready))
		stop.harmless = true
		return origin{}, stop, nil
	}
	if !usable {
		stop := waiting(v1alpha1.ReasonConnectionNotReady, fmt.Sprintf("BrokerConnection %q is connecting", bc.Name))
		stop.harmless = true
		return origin{}, stop, nil
	}
	here := ownership.Location{Cluster: broker.Health().Cluster, VHost: broker.VHost()}
	if began := recordedLocation(s.status); s.hasBegun() && !here.IsIn(began) {
		return origin{}, failed(v1alpha1.ReasonConnectionChanged, fmt.Sprintf(
			"BrokerConnection %q leads to %s now, and the Redrive began in %s; %s", bc.Name, here, began, tally(s.status, "moved"))), nil
	}
	queues, err := topology.DeadLettersOf(cq, version)
	if refusal, refused := errors.AsType[*topology.Refusal](err); refused {
		return origin{}, stalled(refusal.Reason, fmt.Sprintf("ConsumerQueue %q: %s", cq.Name, refusal.Message)), nil
	}
	return origin{cq, broker, here, version, queues}, nil, err
}

// findConsumerQueue finds a ConsumerQueue of the namespace that has been compared with the broker.
func (s *scope) findConsumerQueue(ctx context.Context, name string) (*v1alpha1.ConsumerQueue, *halt, error) {
	cq := &v1alpha1.ConsumerQueue{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.redrive.Namespace, Name: name}, cq)
	switch ready := conditions.Ready(cq.Status.Conditions); {
	case client.IgnoreNotFound(err) != nil:
		return nil, nil, fmt.Errorf("get ConsumerQueue %q: %w", name, err)
	case apierrors.IsNotFound(err):
		return nil, stalled(v1alpha1.ReasonConsumerQueueNotFound, fmt.Sprintf("ConsumerQueue %q not found", name)), nil
	case !cq.DeletionTimestamp.IsZero():
		return nil, stalled(v1alpha1.ReasonConsumerQueueNotFound, fmt.Sprintf("ConsumerQueue %q is being deleted", name)), nil
	case cq.IsSuspended():
		return nil, suspended(fmt.Sprintf("ConsumerQueue %q is suspended", name)), nil
	case ready.Reason == v1alpha1.ReasonConflict:
		return nil, stalled(v1alpha1.ReasonConflict, fmt.Sprintf("ConsumerQueue %q: %s", name, ready.Message)), nil
	case cq.Status.ObservedGeneration != cq.Generation:
		stop := waiting(v1alpha1.ReasonConsumerQueueNotReady, fmt.Sprintf(
			"ConsumerQueue %q has not been compared with the broker yet", name))
		stop.harmless = true
		return nil, stop, nil
	}
	return cq, nil, nil
}

// checkSource finds out whether messages may be taken out of the dead-letter queue.
func (s *scope) checkSource(ctx context.Context, from origin, m *move) *halt {
	queue := from.queues.Queue
	switch {
	case queue == "":
		return stalled(v1alpha1.ReasonNoDeadLetterQueue, fmt.Sprintf(
			"ConsumerQueue %q has no dead-letter queue: spec.deadLetter.policy is Disabled", from.cq.Name))
	case s.hasBegun() && string(s.status.Source) != queue:
		return failed(v1alpha1.ReasonSourceChanged, fmt.Sprintf(
			"the dead-letter queue of ConsumerQueue %q is %q now, and the Redrive began with %q; %s",
			from.cq.Name, queue, s.status.Source, tally(s.status, "moved")))
	case !hasQueue(from.cq, queue):
		return waiting(v1alpha1.ReasonSourceMissing, fmt.Sprintf("queue %q does not exist", queue))
	}
	shares, known := s.sharesQueue(ctx, from.cq, queue, from.version)
	observed, read := from.broker.Observe(vhost.Selection{Queues: []string{queue}})
	if !known || !read {
		stop := waiting(v1alpha1.ReasonConsumerQueueNotReady, fmt.Sprintf("not all is known of queue %q yet", queue))
		stop.harmless = true
		return stop
	}
	m.source = deadletter.Source{Main: from.queues.Main, Shared: shares}
	for _, tier := range from.queues.Tiers {
		m.source.Tiers = append(m.source.Tiers, tier.Queue)
	}
	m.limited = plan.MayLimitDeliveries(queue, observed.Queues[queue], observed.Policies, from.version)
	if leaves := s.whyMessagesStay(shares); m.limited && leaves != "" {
		return stalled(v1alpha1.ReasonDeliveryLimited, fmt.Sprintf(
			"queue %q has a delivery limit: the broker may delete messages that are looked at and stay, and some would stay, for %s. "+
				"Move all of them, or have the queue recreated with deliveryLimit Unlimited", queue, leaves))
	}
	return nil
}

// whyMessagesStay says because of which field messages may be looked at and stay; empty if all are moved.
func (s *scope) whyMessagesStay(shared bool) string {
	spec := s.redrive.Spec
	switch {
	case isSet(spec.DryRun):
		return "spec.dryRun is set"
	case spec.Select != nil:
		return "spec.select is set"
	case spec.Limit != nil:
		return "spec.limit is set"
	case shared:
		return "other ConsumerQueues share the queue"
	}
	return ""
}

// findDestination finds out where messages go.
func (s *scope) findDestination(ctx context.Context, from origin, m *move) (*halt, error) {
	given := s.redrive.Spec.Destination
	if given == nil {
		given = &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToMain}
	}
	switch given.Type {
	case v1alpha1.RedriveToOriginal:
		return nil, nil
	case v1alpha1.RedriveToRetry:
		return toTier(from, given.Delay, m), nil
	case v1alpha1.RedriveToConsumerQueue:
		return s.toConsumerQueue(ctx, from, given.ConsumerQueueRef.Name, m)
	}
	toQueue(from.queues.Main, m)
	return nil, nil
}

func toQueue(name string, m *move) { m.destination, m.route = name, contract.Route{RoutingKey: name} }

// toTier has messages moved to a delay tier.
func toTier(from origin, delay v1alpha1.Duration, m *move) *halt {
	wanted, err := delay.Parse()
	if delay != "" && err != nil {
		return stalled(v1alpha1.ReasonInvalidDestination, fmt.Sprintf("spec.destination.delay: %v", err))
	}
	at := slices.IndexFunc(from.queues.Tiers, func(tier topology.TierRoute) bool { return delay == "" || tier.Delay == wanted })
	if at < 0 {
		delays := make([]string, len(from.queues.Tiers))
		for i, tier := range from.queues.Tiers {
			delays[i] = tier.Delay.String()
		}
		message := fmt.Sprintf("ConsumerQueue %q has no delay tier", from.cq.Name)
		if len(delays) > 0 {
			message = fmt.Sprintf("spec.destination.delay %s: ConsumerQueue %q has delay tiers of %s", delay, from.cq.Name, quoted(delays))
		}
		return stalled(v1alpha1.ReasonInvalidDestination, message)
	}
	m.destination, m.route = from.queues.Tiers[at].Queue, from.queues.Tiers[at].Route
	return nil
}

// toConsumerQueue has messages moved to the main queue of another ConsumerQueue.
func (s *scope) toConsumerQueue(ctx context.Context, from origin, name string, m *move) (*halt, error) {
	cq, stop, err := s.findConsumerQueue(ctx, name)
	if stop != nil || err != nil {
		return stop, err
	}
	if cq.ConnectionName() != from.cq.ConnectionName() {
		return stalled(v1alpha1.ReasonInvalidDestination, fmt.Sprintf(
			"spec.destination.consumerQueueRef: ConsumerQueue %q has BrokerConnection %q, and messages come from %q",
			name, cq.ConnectionName(), from.cq.ConnectionName())), nil
	}
	if !hasQueue(cq, cq.QueueName()) {
		return waiting(v1alpha1.ReasonDestinationMissing, fmt.Sprintf("queue %q does not exist", cq.QueueName())), nil
	}
	toQueue(cq.QueueName(), m)
	return nil, nil
}

// hasQueue says whether a ConsumerQueue has a queue at the broker, as far as its status knows. A status that is too long leaves some out.
func hasQueue(cq *v1alpha1.ConsumerQueue, name string) bool {
	return cq.Status.TopologyOmitted > 0 || slices.ContainsFunc(cq.Status.Topology, func(entry v1alpha1.TopologyEntry) bool {
		return entry.Kind == v1alpha1.KindQueue && entry.Name == name && entry.State != v1alpha1.StateMissing
	})
}

// recordedLocation is where a Redrive began.
func recordedLocation(status *v1alpha1.RedriveStatus) ownership.Location {
	return ownership.Location{
		Cluster: vhost.Cluster{ID: status.ClusterID, Name: status.ClusterName, Endpoint: status.ClusterEndpoint}, VHost: status.VHost,
	}
}

func isSet(field *bool) bool { return field != nil && *field }
